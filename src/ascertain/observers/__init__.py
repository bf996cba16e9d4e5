"""The Observer protocol: asking authoritative state, by the action's identity, what is true.

An observer never sends the effect again. It answers with what it saw, with absence, or
with why it could not read; what that proves is for the outcome rules to say.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from ascertain.core.evidence import Reading, Source, Unreadable, check_reading


class Question(NamedTuple):
    """What an observer is asked. ``parameters``: the action's, as declared (decoded).

    ``key``: the idempotency key of the attempts. ``fence``: the fence that they were
    conditional on. ``fingerprint``: as recorded with the intent.
    """

    action_id: str
    action_type: str
    key: str
    parameters: dict[str, Any]
    fence: str | None
    fingerprint: str
    execution_id: str
    step_id: str


class Observer(Protocol):
    """One way to look. ``source``: its name, control domain and consistency."""

    source: Source

    def observe(self, question: Question) -> Any:
        """A reading, several, or an awaitable of them."""


class Sealer(Protocol):
    """An observer that can also make absence permanent."""

    fence: str

    def seal(self, question: Question) -> bool:
        """Win the fence for nobody. True: sealed; False: an effect holds it already."""


def readings(answer: Any) -> tuple[Reading, ...]:
    """An observer's answer as a tuple; an empty one is no answer."""
    if isinstance(answer, list | tuple):
        if not answer:
            return (Unreadable("the observer returned nothing; return Absent() to say absent"),)
        return tuple(check_reading(item) for item in answer)
    return (check_reading(answer),)
