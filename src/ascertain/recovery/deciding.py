"""One recovery while it runs, and its decision: a record, made under the lease's own epoch."""

from __future__ import annotations

from dataclasses import dataclass

from ascertain.action import Permit
from ascertain.authority import Grant
from ascertain.core.cut import Cut, View
from ascertain.core.facts import Decision, Preconditions
from ascertain.core.judgement import Judgement
from ascertain.core.records import CapabilityGranted, Chain, Entry, RecoveryDecided
from ascertain.core.written import written_facts
from ascertain.declaration import ActionType
from ascertain.errors import PositionTaken, StaleEpoch
from ascertain.journal import ActionRow, Transaction
from ascertain.ports import Steps
from ascertain.presented import Presented
from ascertain.runtime import Runtime, project


@dataclass(slots=True)
class State:
    """One recovery while it runs.

    ``epoch``: the one it took the lease under; a row of another one ends it, StaleEpoch.
    ``permit``: the fresh ruling, once it was asked.
    """

    row: ActionRow
    cut: Cut
    declared: ActionType
    p: Presented
    epoch: int
    verbs: frozenset[str] = frozenset()
    grants: tuple[Grant, ...] = ()
    permit: Permit | None = None
    preconditions: Preconditions = Preconditions.HOLD
    looked: bool = False


def hold_on(state: State, now: tuple[ActionRow, Cut]) -> None:
    """Go on with what the journal holds now. Raises StaleEpoch if somebody else drives it."""
    if now[0].epoch != state.epoch:
        raise StaleEpoch(f"action {now[0].action_id!r} is driven by somebody else")
    state.row, state.cut = now


def joined(view: View) -> bool:
    """Was the last attempt part of a transaction of the caller's?"""
    release = view.last_release
    return release is not None and release.record.joined


def reload_steps(runtime: Runtime, state: State) -> Steps[None]:
    """Read the row and the cut again. Raises StaleEpoch if somebody else drives it."""
    row_id, root_id = state.row.action_id, state.row.root_id
    row = yield runtime.ports.read("row", lambda: runtime.journal.action(row_id))
    entries = yield runtime.ports.read("entries", lambda: runtime.journal.entries(root_id))
    now = yield runtime.ports.now()
    hold_on(state, (row, runtime.cut(entries, now)))


def decide_steps(
    runtime: Runtime, state: State, judgement: Judgement, *, keep: bool
) -> Steps[None]:
    """The decision as a record, with the row of the table and the facts it was made on."""
    now = yield runtime.ports.now()
    before, epoch = state.row, state.epoch

    def work(tx: Transaction) -> tuple[ActionRow, list[Entry]]:
        row = tx.action(before.action_id)
        assert row is not None
        if row.epoch != epoch:
            raise StaleEpoch(f"action {row.action_id!r} is driven by somebody else")
        known = tx.entries(row.root_id)
        if known[-1].position != state.cut.position:
            raise PositionTaken(f"lineage {row.root_id!r} has moved on")
        chain = Chain(row.root_id, known[-1].position, known[-1].digest)
        _add_grants(chain, state, judgement, now)
        chain.add(
            RecoveryDecided(
                action_id=row.action_id,
                at=now,
                causes=(known[-1].digest,),
                epoch=epoch,
                cut=state.cut.position,
                outcome=judgement.verdict.outcome.value,
                decision=judgement.row.decision.value,
                row=judgement.row.name,
                facts=written_facts(judgement.facts),
                next_observation=judgement.next_observation,
            )
        )
        project(row, judgement, now)
        if joined(state.cut.views[row.action_id]) and not judgement.verdict.effects:
            # Only its caller can make it again, in a transaction like the one that ended.
            row.open = row.open and judgement.row.decision is not Decision.EXECUTE
        row.compensation = judgement.facts.compensation.value
        if not keep:
            row.holder, row.lease_until = "", 0
        tx.advance(row, chain, epoch=epoch)
        tx.emit(row, chain.position, f"decision.{judgement.row.decision.value}", row.action_id)
        return row, [*known, *chain.entries]

    state.row, entries = yield runtime.ports.transact("decide", work)
    state.cut = runtime.cut(entries, now)


def _add_grants(chain: Chain, state: State, judgement: Judgement, now: int) -> None:
    """The capability that the decision rests on, where it needs one."""
    verb = VERB_OF.get(judgement.row.decision)
    for grant in state.grants:
        if grant.verb == verb:
            chain.add(
                CapabilityGranted(
                    action_id=state.row.action_id,
                    at=now,
                    capability_id=grant.capability_id,
                    verb=grant.verb,
                    actor=grant.actor,
                    scope=grant.scope,
                    valid_until=grant.valid_until,
                    policy_version=grant.policy_version,
                )
            )
            return


VERB_OF = {
    Decision.VERIFY: "observe",
    Decision.EXECUTE: "continue",
    Decision.COMPENSATE: "compensate",
    Decision.QUARANTINE: "quarantine",
}
"""The capability that stands behind a decision, where one does."""
