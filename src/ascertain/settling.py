"""What became of a release: the reply, its receipts and the outcome, in one transaction.

Also where that transaction fails, or comes too late: what was learnt is appended, and
nothing is decided by it (DESIGN 2, 4).
"""

from __future__ import annotations

from dataclasses import dataclass

from ascertain.core.evidence import Reply, add_reply
from ascertain.core.facts import Compensation
from ascertain.core.plainly import judge_plainly
from ascertain.core.records import AttemptReturned, AuthorityDecided, Chain, Entry
from ascertain.errors import AmbiguousCommit, PositionTaken, StaleEpoch
from ascertain.journal import ActionRow, Reader, Transaction
from ascertain.outcomes import Outcome, outcome_of
from ascertain.ports import Steps
from ascertain.presented import Presented
from ascertain.runtime import Runtime, announce, judged, project, standing


@dataclass(slots=True)
class Claimed:
    """A claim that was made: its row, entries, and the release, None if it was refused."""

    row: ActionRow
    entries: list[Entry]
    intent: Entry
    release: Entry | None
    refused: str | None
    valid_until: int


def settle_steps(
    runtime: Runtime, p: Presented, claimed: Claimed, reply: Reply, *, refused: str | None = None
) -> Steps[Outcome]:
    """Step 4: the reply, its receipts, the outcome and the outbox row, in one transaction.

    Where that is interrupted, or ambiguous, it is looked at whether it stands, and what
    was learnt is appended if it does not.
    """
    now = yield runtime.ports.now()
    row, release, intent = claimed.row, claimed.release, claimed.intent
    assert release is not None
    chain = Chain(p.root_id, claimed.entries[-1].position, claimed.entries[-1].digest)
    add_reply(chain, release=release, intent=intent, contract=p.contract, reply=reply, at=now)
    entries = [*claimed.entries, *chain.entries]
    known = standing(p.contract)
    found = judge_plainly(entries, p.contract, known, runtime.journal.sources)
    if found is None:
        found = judged(runtime, runtime.cut(entries, now), p.action_id, known)
    epoch = row.epoch
    project(row, found, now)
    row.holder, row.lease_until = "", 0
    try:
        yield runtime.ports.transact("settle", lambda tx: _settle(tx, row, chain, epoch))
    except (StaleEpoch, PositionTaken, AmbiguousCommit):
        late = yield from late_steps(runtime, p, intent, release, reply, refused=refused)
        assert late is not None
        return late
    except Exception:
        raise
    except GeneratorExit:
        raise
    except BaseException:
        yield from late_steps(runtime, p, intent, release, reply, refused=refused)
        raise
    return outcome_of(p.action_id, entries, found, refused=refused)


def _settle(tx: Transaction, row: ActionRow, chain: Chain, epoch: int) -> None:
    tx.advance(row, chain, epoch=epoch)
    announce(tx, row, chain.position)


def late_steps(
    runtime: Runtime,
    p: Presented,
    intent: Entry,
    release: Entry,
    reply: Reply,
    *,
    refused: str | None,
) -> Steps[Outcome | None]:
    """Append what was learnt to wherever the lineage is now, and decide nothing.

    None if the release does not stand in the journal; nothing is appended if its return
    does already.
    """
    now = yield runtime.ports.now()

    def work(tx: Transaction) -> tuple[ActionRow, list[Entry]] | None:
        row, known = tx.action(p.action_id), tx.entries(p.root_id)
        if row is None or all(entry.digest != release.digest for entry in known):
            return None
        if any(_says(entry, release, reply) for entry in known):
            return row, known
        chain = Chain(p.root_id, known[-1].position, known[-1].digest)
        add_reply(chain, release=release, intent=intent, contract=p.contract, reply=reply, at=now)
        entries = [*known, *chain.entries]
        found = judged(runtime, runtime.cut(entries, now), p.action_id, standing(p.contract))
        project(row, found, now)
        if row.epoch == release.record.epoch:
            row.holder, row.lease_until = "", 0
            tx.advance(row, chain, epoch=row.epoch)
        else:
            row.open, row.next_at = True, now
            tx.append(chain, row)
        announce(tx, row, chain.position)
        return row, entries

    done = yield runtime.ports.transact("late", work)
    if done is None:
        return None
    row, entries = done
    return report_of(runtime, row, entries, refused)


def _says(entry: Entry, release: Entry, reply: Reply) -> bool:
    """Is this entry the return of the release, with this very reply?"""
    record = entry.record
    if not isinstance(record, AttemptReturned) or release.digest not in record.causes:
        return False
    return (record.transport, record.reply) == (reply.transport, reply.named)


def report_of(
    runtime: Runtime, row: ActionRow, entries: list[Entry], refused: str | None
) -> Outcome:
    """The caller's outcome of what is recorded. Reads nothing."""
    cut = runtime.cut(entries, row.changed_at)
    known = standing(runtime.contract(row.contract))
    known = known._replace(compensation=Compensation(row.compensation))
    found = judged(runtime, cut, row.action_id, known)
    return outcome_of(row.action_id, entries, found, refused=refused)


def report(runtime: Runtime, reader: Reader, action_id: str) -> Outcome | None:
    """The outcome as it is recorded now; None if the journal does not know the action."""
    row = reader.action(action_id)
    if row is None:
        return None
    entries = reader.entries(row.root_id)
    return report_of(runtime, row, entries, _denial(row, entries))


def _denial(row: ActionRow, entries: list[Entry]) -> str | None:
    """What the last decision on an action that was never released said against it."""
    if row.attempts:
        return None
    rulings = [
        entry.record
        for entry in entries
        if isinstance(entry.record, AuthorityDecided) and entry.record.action_id == row.action_id
    ]
    if not rulings or rulings[-1].outcome == "allow":
        return None
    return f"denied: {rulings[-1].reason or 'no reason given'}"
