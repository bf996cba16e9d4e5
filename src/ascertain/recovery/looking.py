"""The read-only moves of recovery: proofs of death, ended transactions, observations.

They only ever add evidence, so they need no lease; what is learnt is appended at the
end of the lineage, whoever drives it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from ascertain.core.cut import Cut, View
from ascertain.core.evidence import Reading, Unreadable, add_readings
from ascertain.core.records import AttemptReturned, Chain, Entry, ExecutorGone
from ascertain.declaration import ActionType
from ascertain.journal import ActionRow, Transaction
from ascertain.observers import Observer, readings
from ascertain.ports import Steps
from ascertain.runtime import Runtime, announce, judged, project, standing

from .rebuilt import intent_of, question_of

Writing = Callable[[Chain, View], None]
"""Appends records to a chain at the lineage's end; may be run again on a later end."""


def append_steps(
    runtime: Runtime, row: ActionRow, step: str, write: Writing
) -> Steps[tuple[ActionRow, Cut]]:
    """Append evidence, whoever drives the action; its row shows what it now comes to."""
    now = yield runtime.ports.now()

    def work(tx: Transaction) -> tuple[ActionRow, Cut]:
        current = tx.action(row.action_id)
        assert current is not None
        known = tx.entries(row.root_id)
        chain = Chain(row.root_id, known[-1].position, known[-1].digest)
        write(chain, runtime.cut(known, now).views[row.action_id])
        cut = runtime.cut([*known, *chain.entries], now)
        before = current.finding
        driven = current.lease_until, current.open, current.next_at
        found = judged(runtime, cut, row.action_id, standing(runtime.contract(row.contract)))
        project(current, found, now)
        if driven[0] > now:
            _, current.open, current.next_at = driven
        tx.append(chain, current)
        if current.finding != before:
            announce(tx, current, chain.position)
        return current, cut

    result: tuple[ActionRow, Cut] = yield runtime.ports.transact(step, work)
    return result


def executor_steps(runtime: Runtime, row: ActionRow, cut: Cut) -> Steps[tuple[ActionRow, Cut]]:
    """Record each open attempt whose executor is proved gone, or whose transaction ended."""
    view = cut.views[row.action_id]
    gone: dict[str, str] = {}
    ended: list[Entry] = []
    for number, entry in view.released.items():
        if number in view.returned and view.returned[number].record.closed:
            continue
        executor = entry.record.executor
        if executor == runtime.executor.name:
            if (yield from _ended(runtime, row.action_id)):
                ended.append(entry)
        elif executor not in view.gone and executor not in gone:
            proof = yield runtime.ports.adapter(
                "prove_gone", partial(runtime.executor.gone, executor)
            )
            if proof is not None:
                gone[executor] = proof
    if not gone and not ended:
        return row, cut
    now = yield runtime.ports.now()

    def write(chain: Chain, view: View) -> None:
        for executor, proof in gone.items():
            chain.add(ExecutorGone(action_id=row.action_id, at=now, executor=executor, proof=proof))
        for entry in ended:
            chain.add(
                AttemptReturned(
                    action_id=row.action_id,
                    at=now,
                    causes=(entry.digest,),
                    number=entry.record.number,
                    epoch=entry.record.epoch,
                    transport="raised",
                    detail="the caller's transaction has ended",
                )
            )

    return (yield from append_steps(runtime, row, "gone", write))


def _ended(runtime: Runtime, action_id: str) -> Steps[bool]:
    """Has the caller's transaction that `apply` joined ended in this process?"""
    asked = runtime.ended.get(action_id)
    if asked is None:
        return False
    return (yield runtime.ports.adapter("ended", asked)) is True


def look_steps(
    runtime: Runtime,
    row: ActionRow,
    cut: Cut,
    declared: ActionType,
    observers: tuple[Observer, ...] | None = None,
) -> Steps[tuple[ActionRow, Cut]]:
    """Ask every observer once and append what they say. An error proves nothing.

    ``observers``: instead of the declared ones.
    """
    question = question_of(cut.views[row.action_id], declared)
    contract = runtime.contract(row.contract)
    looks: list[tuple[Observer, tuple[Reading, ...], int, int]] = []
    for observer in declared.observers if observers is None else observers:
        started = yield runtime.ports.now()
        try:
            answer = yield runtime.ports.adapter("observe", partial(observer.observe, question))
            found = readings(answer)
        except (Exception, SystemExit) as error:
            found = (Unreadable(f"{type(error).__name__}: {error}"[:300]),)
        looks.append((observer, found, started, (yield runtime.ports.now())))

    def write(chain: Chain, view: View) -> None:
        for observer, found, started, at in looks:
            add_readings(
                chain,
                intent=intent_of(view),
                contract=contract,
                fields=declared.fingerprint,
                source=observer.source,
                readings=found,
                started=started,
                at=at,
            )

    return (yield from append_steps(runtime, row, "evidence", write))
