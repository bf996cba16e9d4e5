"""What a certificate's predicate must agree with itself about, as far as it can be seen offline.

These are necessary conditions of the decision table, over the members that the RCC schema names.
They do not decide again: the facts behind a decision are not all in the predicate.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ascertain.core.codec import Json
from ascertain.signing.times import read_any

SKEW_US: Final = 300_000_000
"""How far the clocks of issuer, authority, observer and verifier may be apart: five minutes."""

_EFFECTS_OF: Final[Mapping[str, frozenset[str]]] = {
    "execute": frozenset({"not_started", "unknown"}),
    "adopt": frozenset({"committed", "rejected"}),
    "compensate": frozenset({"committed"}),
}
"""The effect words beside which a decision may stand; the other decisions go with any."""

_VERB_OF: Final[Mapping[str, str]] = {"execute": "continue", "compensate": "compensate"}
"""The capability that a decision which causes an effect needs."""


def consistency(predicate: Mapping[str, Json]) -> list[str]:
    """Where a predicate that is valid under the schema contradicts itself; empty where nowhere."""
    return [doubt for rule in _RULES for doubt in rule(predicate)]


def _decision_and_effect(predicate: Mapping[str, Json]) -> list[str]:
    decision, effect = str(predicate["recovery_decision"]), _part(predicate, "effect")
    allowed = _EFFECTS_OF.get(decision)
    if allowed is None or effect["status"] in allowed:
        return []
    return [f"{decision} stands beside an effect that is {effect['status']}"]


def _replay_needs_a_key(predicate: Mapping[str, Json]) -> list[str]:
    replay = (
        predicate["recovery_decision"] == "execute"
        and _part(predicate, "effect")["status"] == "unknown"
    )
    if replay and _part(predicate, "action")["idempotency_scope"] == "none":
        return ["execute stands beside an unknown effect of an action without an idempotency key"]
    return []


def _references(predicate: Mapping[str, Json]) -> list[str]:
    effect = _part(predicate, "effect")
    if effect["status"] == "committed" and not effect["external_reference"]:
        return ["the committed effect has an empty external reference"]
    if effect["status"] == "not_started" and "external_reference" in effect:
        return ["an effect that is not_started has an external reference"]
    return []


def _authority(predicate: Mapping[str, Json]) -> list[str]:
    decision = str(predicate["recovery_decision"])
    permits = _part(predicate, "recovery_authority").get("permits")
    needed = _VERB_OF.get(decision)
    doubts = []
    if permits is not None and needed is not None and permits != needed:
        doubts.append(f"{decision} stands beside a recovery authority that permits {permits}")
    at_effect = _part(predicate, "authority_at_effect")
    if _after(at_effect["checked_at"], at_effect["valid_until"]):
        doubts.append("the authority was checked after it had ended")
    return doubts


def _order_of_times(predicate: Mapping[str, Json]) -> list[str]:
    issued_at = predicate.get("issued_at")
    seen = {
        "authority_at_effect.checked_at": _part(predicate, "authority_at_effect")["checked_at"],
        "precondition.observed_at": _part(predicate, "precondition")["observed_at"],
        "effect.verified_at": _part(predicate, "effect").get("verified_at"),
    }
    return [
        f"{name} is later than issued_at"
        for name, instant in seen.items()
        if _after(instant, issued_at, by_us=SKEW_US)
    ]


_RULES: Final[tuple[Callable[[Mapping[str, Json]], list[str]], ...]] = (
    _decision_and_effect,
    _replay_needs_a_key,
    _references,
    _authority,
    _order_of_times,
)


def _part(predicate: Mapping[str, Json], name: str) -> dict[str, Json]:
    """A member that the schema makes an object; empty where it is left out."""
    part = predicate.get(name)
    return part if isinstance(part, dict) else {}


def _after(left: Json, right: Json, *, by_us: int = 0) -> bool:
    """Whether one RFC 3339 instant lies after another by more than ``by_us``; False if unknown."""
    if not isinstance(left, str) or not isinstance(right, str):
        return False
    left_us, right_us = read_any(left), read_any(right)
    return left_us is not None and right_us is not None and left_us > right_us + by_us
