"""The six moves of recovery, for one action under one lease (DESIGN 8, seed 000).

Freeze, reconstruct, separate old authority from new, resolve, decide, emit; then act.
A crash between any two of them is recovered by running them again: each is a record.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import msgspec

from ascertain.action import draft_release, finish_steps, permit_steps, reclaim_steps
from ascertain.authority import Authority, Grant
from ascertain.core.cut import Cut
from ascertain.core.facts import Compensation, Decision, Finding, Needs, Preconditions
from ascertain.core.judgement import Context, Judgement, can_seal
from ascertain.core.outcome import Proved, outcome
from ascertain.core.records import (
    CertificateIssued,
    Chain,
    FenceSealed,
    PreconditionObserved,
)
from ascertain.errors import PositionTaken, RecoveryRefused, StaleEpoch
from ascertain.journal import ActionRow
from ascertain.outcomes import Outcome, outcome_of
from ascertain.permission import request_for
from ascertain.ports import Steps
from ascertain.presented import Presented
from ascertain.runtime import Runtime, compensation_of, judged, needs_now

from .compensation import compensate_effects_steps, surplus, undone_steps
from .deciding import State, decide_steps, hold_on, joined, reload_steps
from .lease import give_back_steps, take_steps
from .looking import Writing, append_steps, executor_steps, look_steps
from .rebuilt import declared_type, intent_of, present_again, question_of


@dataclass(frozen=True, slots=True)
class Recovered:
    """What recovery did with one action.

    ``decision`` and ``row``: what was decided, and the row of the table that gave it.
    ``acted``: an effect was released or a compensation was made. ``busy``: somebody else
    drives it; nothing was done. ``certificate``: digest of what was issued, if anything.
    ``refused``: why nothing was decided, None where something was.
    """

    action_id: str
    outcome: Outcome
    decision: str
    row: str
    acted: bool = False
    busy: bool = False
    certificate: str | None = None
    refused: str | None = None


def recover_steps(
    runtime: Runtime, action_id: str, authority: Authority, *, act: bool = True
) -> Steps[Recovered]:
    """Recover one action. ``act``: also execute and compensate; else only decide.

    Raises RecoveryRefused (unknown id, type not declared), JournalError kinds.
    """
    known = yield runtime.ports.read("row", lambda: runtime.journal.action(action_id))
    if known is not None:
        declared_type(runtime, known.type)
    taken = yield from take_steps(runtime, action_id)
    if taken is None:
        return (yield from _busy(runtime, action_id))
    try:
        state = yield from _begin(runtime, taken, authority)
        for _ in range(_ROUNDS):
            try:
                judgement = yield from _resolve(runtime, state, authority, act=act)
                return (yield from _conclude(runtime, state, judgement, authority, act=act))
            except PositionTaken:  # somebody has learnt more meanwhile: decide on that
                yield from reload_steps(runtime, state)
                state.permit, state.looked = None, False
    except StaleEpoch:
        return (yield from _busy(runtime, action_id))
    except GeneratorExit:
        raise
    except BaseException:
        yield from give_back_steps(runtime, taken[0])
        raise
    yield from give_back_steps(runtime, taken[0])
    return (yield from _busy(runtime, action_id))


_ROUNDS = 20
"""How often a recovery decides again because the lineage has moved on meanwhile."""


def _begin(runtime: Runtime, taken: tuple[ActionRow, Cut], authority: Authority) -> Steps[State]:
    row, cut = taken
    declared = declared_type(runtime, row.type)
    p = present_again(runtime, row.root_id, cut.views[row.action_id], declared)
    state = State(row, cut, declared, p, row.epoch)
    yield from _hold(runtime, state, authority)
    return state


def _busy(runtime: Runtime, action_id: str) -> Steps[Recovered]:
    """Somebody else drives it: say what is known."""
    row = yield runtime.ports.read("row", lambda: runtime.journal.action(action_id))
    entries = yield runtime.ports.read("entries", lambda: runtime.journal.entries(row.root_id))
    now = yield runtime.ports.now()
    cut = runtime.cut(entries, now)
    found = judged(runtime, cut, action_id, Context())
    outcome = outcome_of(action_id, cut.entries, found)
    return Recovered(action_id, outcome, row.decision, row.decision, busy=True)


def _hold(runtime: Runtime, state: State, authority: Authority) -> Steps[None]:
    """Third move: the capabilities held now.

    Asked again after every other question outside: a decision rests on what is held when it
    is made, not on what was held before a read.
    """
    state.grants = yield from _grants(runtime, authority, state.p)
    state.verbs = frozenset(grant.verb for grant in state.grants)


def _grants(runtime: Runtime, authority: Authority, p: Presented) -> Steps[tuple[Grant, ...]]:
    """What the authority grants. An error while asking grants nothing."""
    now = yield runtime.ports.now()
    request = request_for(p, now)
    try:
        grants = yield runtime.ports.adapter("grants", lambda: authority.grants(request))
        return tuple(
            grant
            for grant in grants
            if isinstance(grant, Grant)
            and msgspec.convert(msgspec.structs.asdict(grant), Grant) == grant
            and grant.valid_until >= now
            and grant.scope in (p.action_id, p.root_id, p.declared.name, "*")
        )
    except Exception:
        return ()


# --- resolve ----------------------------------------------------------------------------


def _resolve(
    runtime: Runtime, state: State, authority: Authority, *, act: bool
) -> Steps[Judgement]:
    """Fourth move: learn what can be learnt without another effect, then judge."""
    hold_on(state, (yield from executor_steps(runtime, state.row, state.cut)))
    if act and "compensate" in state.verbs:
        yield from _resume(runtime, state, authority)
    hold_on(state, (yield from undone_steps(runtime, state.row, state.cut)))
    while True:
        judgement = yield from _judge(runtime, state)
        if judgement.row.decision is Decision.VERIFY and not state.looked:
            state.looked = True
            yield from _look(runtime, state, authority)
            continue
        if state.permit is None and _asks_authority(judgement):
            yield from _ask(runtime, state, authority)
            yield from _hold(runtime, state, authority)
            continue
        return judgement


def _resume(runtime: Runtime, state: State, authority: Authority) -> Steps[None]:
    """Drive on the compensations that were linked and are not done: the same ids again."""
    view = state.cut.views[state.row.action_id]
    proved = outcome(state.cut, state.row.action_id, state.p.contract).effects
    for entry in view.compensations:
        name, reference = entry.record.compensator, entry.record.reference
        made = yield from _row(runtime, name)
        if made is None or made.finding == Finding.NOT_APPLIED.value:
            effects = tuple(item for item in proved if item.reference == reference)
            yield from compensate_effects_steps(
                runtime, state.row, effects, state.declared, state.p, authority
            )
        elif made.open:
            yield from recover_steps(runtime, name, authority)
    if view.compensations:
        yield from reload_steps(runtime, state)


def _row(runtime: Runtime, action_id: str) -> Steps[ActionRow | None]:
    row: ActionRow | None = yield runtime.ports.read(
        "row", lambda: runtime.journal.action(action_id)
    )
    return row


def _asks_authority(judgement: Judgement) -> bool:
    """Could a fresh effect follow? Then its authority and preconditions are asked now."""
    finding = judgement.facts.finding
    return finding is Finding.NOT_APPLIED or (
        finding is Finding.UNKNOWN and not judgement.facts.more
    )


def _judge(runtime: Runtime, state: State) -> Steps[Judgement]:
    view = state.cut.views[state.row.action_id]
    needs, compensation = Needs.MET, Compensation.NONE
    if state.p.needs or view.compensations:
        needs, compensation = yield runtime.ports.read(
            "needs",
            lambda: (
                needs_now(runtime.journal, state.p.needs),
                compensation_of(runtime.journal, view),
            ),
        )
    contract = state.p.contract
    context = Context(
        observable=contract.readback.by != "none" and bool(state.declared.observers),
        sealable=state.declared.sealer is not None and contract.seal.reach == "action",
        needs=needs,
        authority=state.permit is None
        or state.permit.refused is None
        or _only_preconditions(state),
        verbs=state.verbs,
        preconditions=state.preconditions,
        compensator=state.declared.compensator is not None,
        compensation=compensation,
    )
    return judged(runtime, state.cut, state.row.action_id, context)


def _only_preconditions(state: State) -> bool:
    """Is it the preconditions alone that stand against a release? They are a fact of their own."""
    return state.preconditions is not Preconditions.HOLD


def _ask(runtime: Runtime, state: State, authority: Authority) -> Steps[None]:
    """A fresh ruling, and the preconditions looked at again; both are recorded."""
    intent = intent_of(state.cut.views[state.row.action_id])
    scratch = Chain(state.row.root_id)
    permit = yield from permit_steps(runtime, state.p, authority, scratch, intent, word=False)
    records = [entry.record for entry in scratch.entries]
    causes: list[str] = [intent.digest]

    def write(chain: Chain, view: Any) -> None:
        causes[1:] = [chain.add(record).digest for record in records]

    yield from _append(runtime, state, "authority", write)
    state.permit = replace(permit, causes=tuple(causes))
    state.preconditions = _preconditions(permit.observed)


def _preconditions(observed: list[PreconditionObserved]) -> Preconditions:
    holds = {item.holds for item in observed if not item.guard}
    if "broken" in holds:
        return Preconditions.BROKEN
    return Preconditions.UNVERIFIED if "unverified" in holds else Preconditions.HOLD


def _look(runtime: Runtime, state: State, authority: Authority) -> Steps[None]:
    """The moves of *verify*: read; then, with the compensate capability, seal (DESIGN 7)."""
    if state.declared.observers:
        hold_on(state, (yield from look_steps(runtime, state.row, state.cut, state.declared)))
        yield from _hold(runtime, state, authority)
    view = state.cut.views[state.row.action_id]
    judgement = yield from _judge(runtime, state)
    sealer = state.declared.sealer
    if judgement.facts.finding is not Finding.UNKNOWN or "compensate" not in state.verbs:
        return
    if sealer is None or not can_seal(view, Context(sealable=True)):
        return
    question = question_of(view, state.declared)
    try:
        sealed = yield runtime.ports.adapter("seal", lambda: sealer.seal(question))
    except Exception:
        sealed = None  # it may have been sealed or not: the next recovery asks again
    if sealed is not True:
        hold_on(state, (yield from look_steps(runtime, state.row, state.cut, state.declared)))
        return
    now = yield runtime.ports.now()
    record = FenceSealed(
        action_id=view.action_id, at=now, fence=sealer.fence, reach="action", epoch=state.row.epoch
    )

    def write(chain: Chain, view: Any) -> None:
        chain.add(record)

    yield from _append(runtime, state, "sealed", write)


def _append(runtime: Runtime, state: State, step: str, write: Writing) -> Steps[None]:
    hold_on(state, (yield from append_steps(runtime, state.row, step, write)))


# --- decide, emit, act ------------------------------------------------------------------


def _conclude(
    runtime: Runtime, state: State, judgement: Judgement, authority: Authority, *, act: bool
) -> Steps[Recovered]:
    """Fifth and sixth move: the decision is durable, and certified, before it is acted on."""
    decision = judgement.row.decision
    acting = act and decision in (Decision.EXECUTE, Decision.COMPENSATE)
    if decision is Decision.EXECUTE and joined(state.cut.views[state.row.action_id]):
        acting = False
    yield from decide_steps(runtime, state, judgement, keep=acting)
    decided, certificate = state.cut.position, None
    if runtime.issuer is not None:
        kept = yield from runtime.issuer.issue_steps(runtime, state.row.action_id, judgement)
        certificate = kept.digest
        if acting:
            yield from reload_steps(runtime, state)
            _check_unmoved(state, decided)
    found = outcome_of(state.row.action_id, state.cut.entries, judgement)
    done = Recovered(
        state.row.action_id, found, decision.value, judgement.row.name, certificate=certificate
    )
    if not acting:
        return done
    if decision is Decision.EXECUTE:
        found = yield from _execute(runtime, state)
        return replace(done, outcome=found, acted=True)
    effects = surplus(state.cut, state.row.action_id, state.p.contract)
    found = yield from counteract_steps(runtime, state, effects, authority)
    return replace(done, outcome=found, acted=True)


def _check_unmoved(state: State, decided: int) -> None:
    """Nothing was learnt since the decision, or it is not acted on. Raises PositionTaken."""
    for entry in state.cut.entries[decided:]:
        if not isinstance(entry.record, CertificateIssued):
            raise PositionTaken(f"lineage {state.row.root_id!r} has moved on")


def counteract_steps(
    runtime: Runtime, state: State, effects: tuple[Proved, ...], authority: Authority
) -> Steps[Outcome]:
    """Compensate these effects, and decide again on what has become of the action."""
    yield from compensate_effects_steps(
        runtime, state.row, effects, state.declared, state.p, authority
    )
    yield from reload_steps(runtime, state)
    hold_on(state, (yield from undone_steps(runtime, state.row, state.cut)))
    judgement = yield from _judge(runtime, state)
    yield from decide_steps(runtime, state, judgement, keep=False)
    return outcome_of(state.row.action_id, state.cut.entries, judgement)


def undo_steps(runtime: Runtime, action_id: str, authority: Authority) -> Steps[Outcome]:
    """Compensate an effect that was wanted once and is not any more.

    Asks for the capability to compensate, and for a decision of its own. Raises
    RecoveryRefused where there is not exactly one verified effect, or no capability.
    """
    taken = yield from take_steps(runtime, action_id)
    if taken is None:
        raise RecoveryRefused(
            f"action {action_id!r} is being driven right now", fix="Try again in a moment."
        )
    try:
        return (yield from _undo(runtime, taken, authority))
    except GeneratorExit:
        raise
    except BaseException:
        yield from give_back_steps(runtime, taken[0])
        raise


def _undo(runtime: Runtime, taken: tuple[ActionRow, Cut], authority: Authority) -> Steps[Outcome]:
    state = yield from _begin(runtime, taken, authority)
    if "compensate" in state.verbs:
        yield from _resume(runtime, state, authority)
    hold_on(state, (yield from undone_steps(runtime, state.row, state.cut)))
    judgement = yield from _judge(runtime, state)
    refused = None
    if judgement.facts.finding is not Finding.APPLIED_FINAL:
        refused = "it has no verified, standing effect"
    elif "compensate" not in state.verbs:
        refused = "the capability to compensate is not held"
    elif state.declared.compensator is None:
        refused = "its action type has no compensator"
    if refused is not None:
        yield from decide_steps(runtime, state, judgement, keep=False)
        raise RecoveryRefused(
            f"action {state.row.action_id!r} cannot be compensated: {refused}",
            fix="`ascertain explain` shows what is known of it.",
        )
    return (yield from counteract_steps(runtime, state, judgement.verdict.effects, authority))


def _execute(runtime: Runtime, state: State) -> Steps[Outcome]:
    """Release the next attempt of the same action, under this recovery's lease."""
    permit = state.permit
    if permit is None:
        raise RecoveryRefused(f"action {state.row.action_id!r} has no fresh decision")
    entries = list(state.cut.entries)
    chain = Chain(state.row.root_id, entries[-1].position, entries[-1].digest)
    now = yield runtime.ports.now()
    draft = draft_release(
        runtime,
        state.p,
        chain,
        intent_of(state.cut.views[state.row.action_id]),
        permit,
        now,
        number=len(state.cut.views[state.row.action_id].released) + 1,
        epoch=state.epoch,
    )
    row = msgspec.structs.replace(state.row)
    claimed = yield from reclaim_steps(runtime, state.p, row, entries, draft)
    return (yield from finish_steps(runtime, state.p, claimed))
