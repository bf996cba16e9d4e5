"""`apply` where journal and effect are one SQLite file: one transaction for everything.

Claim, fence, effect, result, receipts and outbox row go over the caller's connection
and commit together (DESIGN 4): after a crash there is all of it, or nothing.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from ascertain.action import (
    Call,
    check_same,
    claim,
    draft_steps,
)
from ascertain.applying import fenced_steps, marker_of
from ascertain.authority import Authority
from ascertain.core.codec import encode
from ascertain.core.evidence import Reply, add_reply
from ascertain.core.plainly import judge_plainly
from ascertain.core.records import Chain
from ascertain.errors import AmbiguousCommit, InputRefused, RecoveryRefused
from ascertain.journal.sqlite import CallerTransaction, SqliteJournal
from ascertain.observers.marker import Duplicate, Handle
from ascertain.outcomes import NotApplied, Outcome, Pending, outcome_of
from ascertain.ports import Steps
from ascertain.presented import Presented
from ascertain.recovery.known import known_steps, perform_steps
from ascertain.reply import NoEffect
from ascertain.runtime import Runtime, announce, judged, project, standing
from ascertain.settling import Claimed, report_of


def apply_steps(
    runtime: Runtime, p: Presented, authority: Authority, connection: Any
) -> Steps[Outcome]:
    """`apply`, in one transaction where journal and effect share a file, else in two barriers."""
    journal = runtime.journal
    marker = marker_of(p)
    marker.check(marker.wrap(connection))
    path = marker.shared_path
    if isinstance(journal, SqliteJournal) and path is not None and _same(path, journal.path):
        return (yield from _shared_steps(runtime, journal, p, authority, connection))
    return (yield from perform_steps(runtime, p, authority, connection))


def _same(path: str, other: Path) -> bool:
    first, second = Path(path), other
    return first.exists() and second.exists() and first.samefile(second)


def _shared_steps(
    runtime: Runtime, journal: SqliteJournal, p: Presented, authority: Authority, connection: Any
) -> Steps[Outcome]:
    now = yield runtime.ports.now()
    chain = Chain(p.root_id)
    intent = chain.add(p.record(now, journal.sources.incarnation))
    draft = yield from draft_steps(runtime, p, authority, chain, intent, number=1, epoch=1)
    handle = marker_of(p).wrap(connection)
    owned = not handle.active()
    tx = journal.over(connection)
    if not tx.durable():
        raise InputRefused(
            "the connection does not wait for the disk (PRAGMA synchronous below FULL)",
            fix="Set PRAGMA synchronous=FULL on it before the transaction.",
        )
    if owned:
        yield runtime.ports.adapter("begin", handle.begin)
    else:
        yield runtime.ports.adapter("savepoint", lambda: handle.run(f"SAVEPOINT {WHOLE}", {}))
    try:
        known = yield runtime.ports.read("row", lambda: tx.action(p.action_id))
        if known is not None:
            if owned:
                handle.rollback()
                return (yield from known_steps(runtime, p, authority, connection))
            handle.run(f"RELEASE SAVEPOINT {WHOLE}", {})
            return _known_inside(runtime, p, tx)
        claimed = yield runtime.ports.read("claim", lambda: _claim(runtime, tx, p, draft))
        if claimed.release is None:
            outcome = report_of(runtime, claimed.row, claimed.entries, claimed.refused)
        else:
            outcome = yield from _effect(runtime, tx, p, claimed, handle)
    except Duplicate:
        if not owned:
            _take_back(handle)
            raise RecoveryRefused(
                f"the fence of action {p.action_id!r} is held, and the journal does not know why",
                fix="End your transaction and call apply again: the fence is then evidence.",
            ) from None
        handle.rollback()
        return (yield from perform_steps(runtime, p, authority, connection))
    except BaseException:
        if owned:
            handle.rollback()
        else:
            _take_back(handle)
        raise
    if not owned:
        handle.run(f"RELEASE SAVEPOINT {WHOLE}", {})
        if isinstance(outcome, NotApplied):
            return outcome
        return Pending(action_id=p.action_id, reason="your transaction is not committed yet")
    try:
        yield runtime.ports.adapter("commit", handle.commit)
    except Exception as error:
        with suppress(Exception):
            handle.rollback()
        raise AmbiguousCommit(
            f"COMMIT failed: {error}",
            fix="Ask outcome(action_id): effect and record are both there, or neither is.",
        ) from error
    journal.witness(tx)
    if claimed.release is not None:
        runtime.kept.add(p.contract.digest)  # it is durable now, with the action
    return outcome


WHOLE = "ascertain_action"
"""The savepoint around claim and effect inside a transaction of the caller's."""


def _take_back(handle: Handle) -> None:
    """Leave the caller's transaction as it was before the call."""
    handle.run(f"ROLLBACK TO SAVEPOINT {WHOLE}", {})
    handle.run(f"RELEASE SAVEPOINT {WHOLE}", {})


def _claim(runtime: Runtime, tx: CallerTransaction, p: Presented, draft: Any) -> Claimed:
    contract = p.contract
    if contract.digest not in runtime.kept:
        tx.keep_contract(contract.digest, encode(contract.plain))
        runtime.contracts[contract.digest] = contract
    return claim(runtime, tx, p, draft)


def _known_inside(runtime: Runtime, p: Presented, tx: CallerTransaction) -> Outcome:
    """A repeated call inside the caller's transaction: only what is recorded, nothing more."""
    row = tx.action(p.action_id)
    assert row is not None
    check_same(runtime, p, row.fingerprint)
    return report_of(runtime, row, tx.entries(row.root_id), None)


def _effect(
    runtime: Runtime, tx: CallerTransaction, p: Presented, claimed: Claimed, handle: Handle
) -> Steps[Outcome]:
    """The fenced effect, and its settlement in the same transaction."""
    row, release = claimed.row, claimed.release
    assert release is not None
    call = Call(p, row.attempts, row.epoch, runtime)
    call.connection = handle.conn
    try:
        reply: Reply = yield from fenced_steps(runtime.ports, p, call, handle)
    except NoEffect as error:
        reply = Reply(transport="rolled_back", detail=f"NoEffect: {error}"[:200])
    now = yield runtime.ports.now()
    chain = Chain(p.root_id, claimed.entries[-1].position, claimed.entries[-1].digest)
    add_reply(
        chain, release=release, intent=claimed.intent, contract=p.contract, reply=reply, at=now
    )
    entries = [*claimed.entries, *chain.entries]
    context = standing(p.contract)
    found = judge_plainly(entries, p.contract, context, runtime.journal.sources)
    if found is None:
        found = judged(runtime, runtime.cut(entries, now), p.action_id, context)
    project(row, found, now)
    row.holder, row.lease_until = "", 0

    def settle() -> None:
        tx.advance(row, chain, epoch=row.epoch)
        announce(tx, row, chain.position)

    yield runtime.ports.read("settle", settle)
    return outcome_of(p.action_id, entries, found)
