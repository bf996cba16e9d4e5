"""What a certificate's predicate must agree with itself about, as far as it can be seen offline.

These are necessary conditions of the decision table, over the members that the RCC schema names.
Where the predicate also carries the closed facts (its member ``decision``), the decision is made
again from them, by the same table, and compared.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from ascertain.core.certificate import SKEW
from ascertain.core.codec import Json
from ascertain.core.decision import decide
from ascertain.core.facts import Closure, Effects, Facts, Finding
from ascertain.core.outcome import OUTCOME_OF
from ascertain.core.written import STATUS_OF, read_facts, table_digest
from ascertain.signing.times import read_any

SKEW_US: Final = SKEW
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
    if replay and _part(predicate, "contract").get("convergent") is True:
        return []
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


def is_decided_again(predicate: Mapping[str, Json]) -> bool:
    """Whether it carries facts for the decision table that is known here.

    A document of another version may rightly have been decided by another table: it says which.
    """
    return _part(predicate, "decision").get("table") == table_digest()


def decision_again(predicate: Mapping[str, Json]) -> list[str]:
    """Where the decision is not the one that the table makes of its facts; for reports too."""
    if "decision" not in predicate:
        return []
    decision = _part(predicate, "decision")
    facts = read_facts(decision.get("facts"))
    if not isinstance(decision.get("table"), str) or not isinstance(decision.get("row"), str):
        return ["the decision names no row of a decision table"]
    if not is_decided_again(predicate):
        return []
    if facts is None:
        return ["the decision does not stand on the closed facts"]
    row = decide(facts)
    doubts = []
    if decision["row"] != row.name or decision.get("reason") != row.reason:
        doubts.append(f"the table makes row {row.name} of its facts, not {decision['row']}")
    if predicate.get("recovery_decision") != row.decision.value:
        doubts.append(f"the table decides to {row.decision.value} on its facts")
    outcome = _part(predicate, "outcome")
    word = OUTCOME_OF[facts.finding].value
    if (outcome.get("finding"), outcome.get("word")) != (facts.finding.value, word):
        doubts.append(f"its facts say {facts.finding.value}, its outcome does not")
    return doubts


def _facts_and_members(predicate: Mapping[str, Json]) -> list[str]:
    """What a certificate's facts and its other members say of each other."""
    facts = read_facts(_part(predicate, "decision").get("facts"))
    if facts is None:
        return []
    status = _part(predicate, "effect")["status"]
    doubts = []
    if STATUS_OF.get(facts.finding) != status:
        doubts.append(f"its facts say {facts.finding.value}, its effect is {status}")
    if facts.closure is not Closure.CLOSED or facts.effects is not _effects_of(facts):
        doubts.append("its facts are those of a report: the cut is not closed")
    absent = facts.finding in (Finding.NOT_APPLIED, Finding.NOT_APPLIED_SEALED)
    if absent != ("absence" in predicate):
        doubts.append("an absence argument and a finding of absence stand only together")
    return doubts


def _effects_of(facts: Facts) -> Effects:
    return Effects.ONE if STATUS_OF.get(facts.finding) == "committed" else Effects.NONE


_RULES: Final[tuple[Callable[[Mapping[str, Json]], list[str]], ...]] = (
    _decision_and_effect,
    _replay_needs_a_key,
    _references,
    _authority,
    _order_of_times,
    decision_again,
    _facts_and_members,
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
