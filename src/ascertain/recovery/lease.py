"""The lease: the exclusive right to drive an action; its epoch is the fencing token.

An expired lease says that others may drive, and nothing about the last holder: what it
released may still land. Taking over raises the epoch, so that the old holder releases
and decides nothing more.
"""

from __future__ import annotations

from ascertain.core.cut import Cut
from ascertain.core.records import Chain, Entry, LeaseTaken
from ascertain.errors import JournalError, RecoveryRefused
from ascertain.journal import ActionRow, Transaction
from ascertain.ports import Steps
from ascertain.runtime import Runtime


def take_steps(runtime: Runtime, action_id: str) -> Steps[tuple[ActionRow, Cut] | None]:
    """First and second move: freeze under a new epoch, and reconstruct the cut.

    None if somebody drives it: the lease runs, and its holder is not proved to be gone.
    Raises RecoveryRefused for an unknown id.
    """
    row = yield runtime.ports.read("row", lambda: runtime.journal.action(action_id))
    if row is None:
        raise RecoveryRefused(
            f"the journal does not know action {action_id!r}",
            fix="`ascertain actions` lists what it knows.",
        )
    gone = None
    if row.holder and row.holder != runtime.executor.name:
        holder = row.holder
        gone = yield runtime.ports.adapter("prove_gone", lambda: runtime.executor.gone(holder))
    now = yield runtime.ports.now()
    mine = action_id in runtime.ended

    def work(tx: Transaction) -> tuple[ActionRow, list[Entry]] | None:
        current = tx.action(action_id)
        assert current is not None
        driven = bool(current.holder) and current.lease_until > now
        if driven and not mine and not (gone is not None and current.holder == row.holder):
            return None
        before = current.epoch
        known = tx.entries(current.root_id)
        chain = Chain(current.root_id, known[-1].position, known[-1].digest)
        chain.add(
            LeaseTaken(action_id=action_id, at=now, epoch=before + 1, holder=runtime.executor.name)
        )
        current.epoch = before + 1
        current.holder = runtime.executor.name
        current.lease_until = now + runtime.lease
        current.open, current.next_at = True, current.lease_until
        tx.advance(current, chain, epoch=before)
        return current, [*known, *chain.entries]

    taken = yield runtime.ports.transact("lease", work)
    if taken is None:
        return None
    current, entries = taken
    return current, runtime.cut(entries, now)


def give_back_steps(runtime: Runtime, taken: ActionRow) -> Steps[None]:
    """End a lease that is not driven to a decision, so that nobody waits for it to run out."""
    now = yield runtime.ports.now()

    def work(tx: Transaction) -> None:
        row, root = tx.action(taken.action_id), tx.action(taken.root_id)
        if row is None or root is None or row.epoch != taken.epoch or not row.holder:
            return
        row.holder, row.lease_until, row.next_at = "", 0, now
        tx.advance(row, Chain(row.root_id, root.position, root.head), epoch=row.epoch)

    try:
        yield runtime.ports.transact("give_back", work)
    except JournalError:
        return  # then it runs out by itself
