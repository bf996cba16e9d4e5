"""The predicate of a Recovery Cut Certificate, or of the report in its place (DESIGN 9). Pure.

`certify` composes what the records say about one action: it concludes nothing of its
own. What the RCC schema cannot say truthfully (a conflict, two effects, no allow, an
orphan effect, a cut that is not closed) becomes a report that names what is missing or
disagrees. Whatever does not fit is left out from the least relevant on, with its count.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, Literal, NamedTuple

from ascertain.errors import ProfileViolation

from .codec import MAX_INTEGER, Json, encode
from .contract import LEVELS, Contract
from .cut import Cut, View, Violation, chain_violations
from .decision import decide
from .facts import Closure, Decision, Finding
from .grounds import Grounds, Piece, grounds_of
from .judgement import ALL_VERBS, Judgement
from .limitations import limitations as limitations_of
from .outcome import OUTCOME_OF
from .records import Entry
from .wording import ROOMS, Room, instant, instant_or_none, present
from .written import STATUS_OF, table_digest, written_facts

SKEW: Final = 300_000_000
"""Microseconds by which the clocks of issuer, authority and observer may differ."""

BUDGET: Final = 60_000
"""Bytes that a predicate may take, so that its statement stays below 64 kB."""

Form = Literal["certificate", "report"]

_SHA256: Final = re.compile(r"[a-f0-9]{64}")


class Certified(NamedTuple):
    """What is to be signed. ``reasons``: why it is a report, empty for a certificate."""

    form: Form
    predicate: dict[str, Json]
    reasons: tuple[str, ...] = ()


def certify(
    cut: Cut,
    action_id: str,
    contract: Contract,
    judgement: Judgement,
    *,
    issued_at: int,
    versions: Mapping[str, str],
    previous: str | None,
    audience: str | None = None,
    recovery: Entry | None = None,
    limitations: Sequence[str] = (),
) -> Certified:
    """The certificate or report of one action over a cut. Pure; raises nothing.

    ``issued_at``: microseconds. ``versions``: of code and policies, by name. ``previous``:
    digest of the lineage's certificate before this one. ``recovery``: the `CapabilityGranted`
    that carried the decision. ``limitations``: further ones, in words.
    """
    view = cut.views.get(action_id) or View(action_id)
    known = grounds_of(view, contract, judgement.verdict)
    found = (*judgement.violations, *chain_violations(cut.entries))
    reasons = tuple(_reasons(view, contract, judgement, known, found, issued_at, recovery))
    form: Form = "report" if reasons else "certificate"
    said = [*limitations_of(cut, view, contract, judgement.verdict, judgement.facts), *limitations]
    predicate: dict[str, Json] = {}
    for room in ROOMS:
        predicate = _additions(cut, view, contract, judgement, known, room)
        predicate |= _issue(cut, action_id, issued_at, versions, previous, audience, room)
        predicate["limitations"] = _said(said, room)
        if recovery is not None:
            predicate["recovery_authority"] = _capability(recovery, room)
        if form == "report":
            predicate |= _disagreements(view, judgement, reasons, found, room)
            predicate |= _known_members(view, contract, known, room)
        else:
            predicate |= _members(view, contract, judgement, known, room)
        if _fits(predicate):
            break
    return Certified(form, predicate, reasons)


def _fits(predicate: dict[str, Json]) -> bool:
    try:
        return len(encode(predicate)) <= BUDGET
    except ProfileViolation:
        return False


def _said(limitations: Sequence[str], room: Room) -> list[Json]:
    said: list[Json] = [room.say(text) for text in limitations[: room.items]]
    if len(limitations) > room.items:
        said.append(
            f"{len(limitations) - room.items} further limitations are left out for want of room"
        )
    return said


# --- certificate or report ------------------------------------------------------------


def _reasons(
    view: View,
    contract: Contract,
    judgement: Judgement,
    known: Grounds,
    found: Sequence[Violation],
    issued_at: int,
    recovery: Entry | None,
) -> Iterator[str]:
    """Why the schema cannot say this truthfully; nothing where it can."""
    verdict, facts = judgement.verdict, judgement.facts
    if verdict.finding is Finding.CONFLICT:
        yield f"the evidence disagrees: {verdict.reason}"
    if verdict.effects and not view.released:
        yield "an effect is proved, and no attempt of it is recorded"
    if found:
        yield f"the cut is not closed: {len(found)} violations"
    elif facts.closure is not Closure.CLOSED:
        yield "the cut is not closed"
    if not _is_coherent(judgement):
        yield f"the facts contradict each other: {judgement.row.reason}"
    intent = view.intent
    if intent is None:
        yield "no intent is recorded"
        return
    if not 1 <= intent.version <= MAX_INTEGER or not intent.execution_id or not intent.step_id:
        yield "the intent has no version, execution or step that can be named"
    if intent.contract != contract.digest:
        yield "the intent was recorded under another contract"
    if not _SHA256.fullmatch(intent.payload_hash):
        yield "the payload hash is none"
    if known.allow is None:
        yield known.without_allow
    elif known.allow.record.checked_at > known.allow.record.valid_until:
        yield "the decision was already over when it was made"
    for name in contract.preconditions:
        if all(entry.record.predicate != name for entry in known.preconditions):
            yield f"the contract asks for the precondition {name!r}, and none is recorded"
    if recovery is not None:
        decision, verb = judgement.row.decision, recovery.record.verb
        if verb not in ALL_VERBS or _VERB_OF.get(decision, verb) != verb:
            yield f"to {decision.value} asks for another capability than {verb}"
    yield from _late(known, issued_at)


_VERB_OF: Final = {Decision.EXECUTE: "continue", Decision.COMPENSATE: "compensate"}


def _is_coherent(judgement: Judgement) -> bool:
    """Do verdict, facts and row belong together, and do the facts not deny each other?"""
    verdict, facts, row = judgement.verdict, judgement.facts, judgement.row
    absent = verdict.finding in (Finding.NOT_APPLIED, Finding.NOT_APPLIED_SEALED)
    return (
        facts.finding is verdict.finding
        and row is decide(facts)
        and not row.name.startswith("contradiction/")
        and absent == (verdict.argument is not None)
    )


def _late(known: Grounds, issued_at: int) -> Iterator[str]:
    instants = {
        "decision": None if known.allow is None else known.allow.record.checked_at,
        "precondition": known.main.record.observed_at if known.main is not None else None,
        "evidence": known.verified_at,
    }
    for name, at in instants.items():
        if at is not None and at > issued_at + SKEW:
            yield f"the {name} is dated later than this document"


def _disagreements(
    view: View,
    judgement: Judgement,
    reasons: Sequence[str],
    found: Sequence[Violation],
    room: Room,
) -> dict[str, Json]:
    """The report's own members: why it is no certificate, and which records disagree."""
    violations = [
        {
            "rule": item.rule,
            "breach": item.breach.value,
            "text": room.say(item.text),
            "records": [digest for digest in (item.first, item.second) if digest],
        }
        for item in found
    ]
    effects = [
        present(
            reference=room.call_or_none(item.reference),
            state=LEVELS[item.level],
            matches=item.matches,
            reversed=item.reversed,
            control_domains=[room.call(name) for name in sorted(item.domains)][: room.items],
        )
        for item in judgement.verdict.effects
    ]
    decisions = [
        {"digest": entry.digest} | _decision_receipt(entry, room)
        | present(reason=None if entry.record.reason is None else room.say(entry.record.reason))
        for entry in view.decisions
    ]  # fmt: skip
    return {
        "reasons": [room.say(text) for text in reasons],
        "violations": room.some(violations),
        "effects": room.some(effects),
        "authority_decisions": room.some(decisions[::-1]),
    }


# --- the members of the schema ----------------------------------------------------------


def _members(
    view: View, contract: Contract, judgement: Judgement, known: Grounds, room: Room
) -> dict[str, Json]:
    members = _known_members(view, contract, known, room)
    assert known.allow is not None
    assert view.intent is not None
    members["authority_at_effect"] = _decision_receipt(known.allow, room) | present(
        digest=known.allow.digest,
        attempt=known.attempt,
    )
    if known.main is not None:
        members["precondition"] = _precondition(known.main, room)
    else:
        members["precondition"] = {
            "resource": room.call(view.intent.target),
            "version": "unversioned",
            "observed_at": instant(view.intent.at),
        }
    members["effect"] = _effect(view, judgement, known, room)
    return members


def _known_members(view: View, contract: Contract, known: Grounds, room: Room) -> dict[str, Json]:
    """The action and its intent, as far as they are recorded."""
    action: dict[str, Json] = {
        "action_id": view.action_id,
        "idempotency_scope": contract.key.scope.value,
    }
    intent = view.intent
    if intent is None:
        return {"action": action}
    action |= {
        "type": room.call(intent.action_type),
        "payload_hash": room.call(intent.payload_hash),
    }
    return {
        "action": action,
        "execution_id": room.call(intent.execution_id),
        "step_id": room.call(intent.step_id),
        "intent": present(
            version=intent.version if abs(intent.version) <= MAX_INTEGER else str(intent.version),
            subject=room.call(intent.subject),
            purpose=room.call(intent.purpose),
            digest=view.intents[-1].digest,
            target=room.call(intent.target),
            approver=room.call_or_none(intent.approver),
            supersedes=room.call_or_none(intent.supersedes),
        ),
        "fingerprint": {"value": room.call(intent.fingerprint), "key_id": room.call(intent.key_id)},
        "further_preconditions": room.some([_precondition(e, room) for e in known.further]),
        "preconditions_looked_at_again": room.some([_precondition(e, room) for e in known.again]),
    }


def _decision_receipt(entry: Entry, room: Room) -> dict[str, Json]:
    record = entry.record
    return present(
        decision_id=room.call(record.decision_id),
        outcome=record.outcome,
        actor=room.call(record.actor),
        approver=room.call_or_none(record.approver),
        checked_at=instant(record.checked_at),
        valid_from=instant(record.valid_from),
        valid_until=instant(record.valid_until),
        policy_version=room.call(record.policy_version),
        credential_digest=room.call_or_none(record.credential_digest),
    )


def _precondition(entry: Entry, room: Room) -> dict[str, Json]:
    record = entry.record
    return present(
        resource=room.call(record.resource),
        predicate=room.call(record.predicate),
        version=room.call(record.version),
        found=room.call_or_none(record.found),
        holds=record.holds,
        guard=record.guard,
        source=room.call(record.source),
        observed_at=instant(record.observed_at),
        digest=entry.digest,
    )


def _effect(view: View, judgement: Judgement, known: Grounds, room: Room) -> dict[str, Json]:
    verdict = judgement.verdict
    status = STATUS_OF[verdict.finding]
    reference, state = None, None
    if status == "committed":
        (effect,) = verdict.effects
        reference = room.call(effect.reference) if effect.reference else f"action:{view.action_id}"
        state = LEVELS[effect.level]
    return present(
        status=status,
        state=state,
        external_reference=reference,
        effect_receipt_digest=None if known.receipt is None else known.receipt.digest,
        readback_digest=None if known.readback is None else known.readback.digest,
        verified_at=instant_or_none(known.verified_at),
        reversed_by=room.call_or_none(verdict.reversed_by),
    )


# --- what we add to the schema ----------------------------------------------------------


def _issue(
    cut: Cut,
    action_id: str,
    issued_at: int,
    versions: Mapping[str, str],
    previous: str | None,
    audience: str | None,
    room: Room,
) -> dict[str, Json]:
    named = sorted(versions.items())[: room.items]
    return present(
        lineage=cut.lineage or action_id,
        issued_at=instant(issued_at),
        audience=audience or None,
        previous=previous,
        versions={room.call(name): room.call(version) for name, version in named},
        cut={
            "position": cut.position,
            "digest": cut.digest,
            "as_of": instant(cut.as_of),
            "streams": cut.prefixes(),
            "complete": cut.sources.complete,
            "incarnation": room.call(cut.sources.incarnation),
        },
    )


def _additions(
    cut: Cut, view: View, contract: Contract, judgement: Judgement, known: Grounds, room: Room
) -> dict[str, Json]:
    verdict, row = judgement.verdict, judgement.row
    argument = verdict.argument
    next_look = judgement.next_observation if row.decision is Decision.VERIFY else None
    outcome = {
        "word": OUTCOME_OF[verdict.finding].value,
        "finding": verdict.finding.value,
        "reason": room.say(verdict.reason),
        "attempts": list(verdict.covers[-room.items :]),
        "open_attempts": list(verdict.open[-room.items :]),
        "missing": [room.say(text) for text in verdict.missing[: room.items]],
    }
    decision = present(
        row=row.name,
        reason=row.reason,
        facts=written_facts(judgement.facts),
        table=table_digest(),
        next_observation=instant_or_none(next_look),
    )
    intent = view.intent
    return present(
        recovery_decision=row.decision.value,
        outcome=outcome,
        absence=None
        if argument is None
        else {
            "kind": argument.kind.value,
            "text": room.say(argument.text),
            "evidence": room.some(list(dict.fromkeys(argument.evidence))),
        },
        decision=decision,
        contract={
            "name": room.call(contract.name),
            "version": room.call(contract.version),
            "digest": contract.digest,
            "convergent": contract.convergent,
        },
        attempts=room.some([_attempt(view, n, room) for n in sorted(view.released)[::-1]]),
        evidence=_evidence(known, room),
        compensations=room.some(
            [
                {
                    "reference": room.call(entry.record.reference),
                    "compensator": room.call(entry.record.compensator),
                    "reversibility": entry.record.reversibility,
                    "digest": entry.digest,
                }
                for entry in view.compensations
            ]
        ),
        compensates=None if intent is None else room.call_or_none(intent.compensates),
        authority_at_recovery=None
        if known.later is None
        else _decision_receipt(known.later, room) | {"digest": known.later.digest},
        needs=room.some(
            [
                {"action_id": room.call(need.action_id), "until": room.call(need.until)}
                for need in (() if intent is None else intent.needs)
            ]
        ),
    )


def _attempt(view: View, number: int, room: Room) -> dict[str, Json]:
    entry, returned = view.released[number], view.returned.get(number)
    record = entry.record
    said: dict[str, Json] = {
        "number": number,
        "epoch": record.epoch,
        "executor": room.call(record.executor),
        "decision_id": room.call(record.decision_id),
        "released_at": instant(record.at),
        "digest": entry.digest,
    }
    if returned is None:
        return said | {"transport": "open"}
    return said | present(
        transport=returned.record.transport,
        reply=room.call(returned.record.reply),
        detail=None if returned.record.detail is None else room.say(returned.record.detail),
        returned_at=instant(returned.record.at),
        closed=returned.record.closed,
        single=returned.record.single,
        returned=returned.digest,
    )


def _evidence(known: Grounds, room: Room) -> dict[str, Json]:
    """The most relevant evidence, in order of position, and how many pieces are left out."""
    kept = sorted(known.evidence[: room.items], key=lambda item: item.position)
    items: list[Json] = [_piece(item, room) for item in kept]
    return {"items": items, "left_out": len(known.evidence) - len(kept)}


def _piece(item: Piece, room: Room) -> dict[str, Json]:
    said = item.written()
    for name, value in said.items():
        if name in ("as_of", "observed_at"):
            said[name] = instant_or_none(value)
        elif isinstance(value, str):
            said[name] = room.call(value)
    return present(**said)


def _capability(entry: Entry, room: Room) -> dict[str, Json]:
    record = entry.record
    return {
        "decision_id": room.call(record.capability_id),
        "permits": record.verb,
        "actor": room.call(record.actor),
        "scope": room.call(record.scope),
        "valid_until": instant(record.valid_until),
        "policy_version": room.call(record.policy_version),
        "digest": entry.digest,
    }
