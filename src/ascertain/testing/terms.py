"""The terms of the fake provider: every property that a contract may have to say something about.

Counters (``double`` to ``close_before_commit``) hold for that many coming requests; -1: for all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Literal, cast, get_args, get_origin, get_type_hints

from ascertain.errors import InputRefused


@dataclass(frozen=True, slots=True)
class Terms:
    """What the fake provider does with keys, replies, readbacks, commits and reversals."""

    keys: Literal["honoured", "ignored"] = "honoured"
    key_retention_ms: int = 0
    """How long a key is kept after its first use; 0: for ever."""
    mismatch: int = 422
    """The answer to a known key with another payload; 0: the first result, in silence."""
    concurrent: int = 409
    """The answer to a key that is in use right now; 0: wait for the first result."""
    readback: Literal["reference", "none", "failing"] = "reference"
    """Reading by action id: possible, not offered (404), or broken (503)."""
    readback_lag_ms: int = 0
    """How long an effect is there before readbacks show it."""
    decline_payees: tuple[str, ...] = ("DECLINE",)
    """Payees whose payments are refused for good (402)."""
    error_keeps: Literal["result", "error", "nothing"] = "result"
    """What stands under the key after ``error_after_commit``."""
    commit: Literal["at_once", "delayed", "held"] = "at_once"
    """When an effect comes about: held ones wait for ``/control/release``."""
    commit_delay_ms: int = 0
    accept_first: bool = False
    """Answer 202 before the commit."""
    reply_delay_ms: int = 0
    """How long the reply takes after the commit."""
    reversals: Literal["once", "repeated", "none"] = "once"
    """A second reversal of one effect: 409, or simply another one."""
    seals: bool = False
    """Offer ``/v1/seals``: a sealed action id is refused from then on."""
    version: int = 0
    """Version of the resource; a request with another one in ``If-Match`` gets 412."""
    revoked: bool = False
    """The credential is revoked: no more effects (403). Reading goes on."""
    double: int = 0
    """Two effects for one request."""
    throttle: int = 0
    """429, nothing done."""
    error_before_commit: int = 0
    """500, nothing done."""
    error_after_commit: int = 0
    """500, effect committed."""
    lose_reply: int = 0
    """Effect committed, connection shut down without a reply."""
    close_before_commit: int = 0
    """Connection shut down without a reply, nothing done."""

    def changed(self, wanted: Mapping[str, object]) -> Terms:
        """These terms with some of them replaced; each name and value is checked."""
        hints = get_type_hints(Terms)
        known = [each.name for each in fields(Terms)]
        clean: dict[str, object] = {}
        for name, value in wanted.items():
            if name not in hints:
                raise InputRefused(
                    f"the fake provider has no term {name!r}", fix=f"Terms: {', '.join(known)}."
                )
            clean[name] = _checked(name, hints[name], value)
        return replace(self, **clean)  # type: ignore[arg-type]


COUNTERS = frozenset(
    {
        "double",
        "throttle",
        "error_before_commit",
        "error_after_commit",
        "lose_reply",
        "close_before_commit",
    }
)


def _checked(name: str, hint: object, value: object) -> object:
    if get_origin(hint) is Literal:
        allowed = get_args(hint)
        if value in allowed:
            return value
        raise InputRefused(f"{name} is one of {', '.join(allowed)}", fix=f"Got {value!r}.")
    if hint is bool and isinstance(value, bool):
        return value
    least = -1 if name in COUNTERS else 0
    if hint is int and isinstance(value, int) and not isinstance(value, bool) and value >= least:
        return value
    texts = isinstance(value, (list, tuple)) and all(isinstance(each, str) for each in value)
    if get_origin(hint) is tuple and texts:
        return tuple(cast(list[str], value))
    raise InputRefused(f"{name} cannot be {value!r}", fix="See ascertain.testing.Terms.")
