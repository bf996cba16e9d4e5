"""`perform`: the only place that releases an effect outside (DESIGN 4).

One durable barrier before release, one after the reply; nothing else waits for the
disk. Everything here is a flow of ops (see `ports`), for threads and coroutines alike.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from ascertain.applying import ended_by, local_steps, marker_of
from ascertain.authority import Authority, Ruling
from ascertain.core.codec import fingerprint_matches
from ascertain.core.evidence import Reply
from ascertain.core.facts import Finding, Needs
from ascertain.core.records import AttemptReleased, Chain, Entry, PreconditionObserved
from ascertain.errors import (
    AmbiguousCommit,
    IntentConflict,
    KeyringMissing,
    PositionTaken,
)
from ascertain.journal import ActionRow, Transaction
from ascertain.observers.marker import Marker
from ascertain.outcomes import Outcome, Pending
from ascertain.permission import (
    add_ruling,
    ask,
    objection,
    observe_precondition,
    own,
    precondition_fault,
    request_for,
)
from ascertain.ports import Steps
from ascertain.presented import Presented
from ascertain.recovery.looking import look_steps
from ascertain.reply import reply_to_error, reply_to_return
from ascertain.runtime import Runtime, needs_now
from ascertain.settling import Claimed, late_steps, report_of, settle_steps


class Call:
    """What a release gets beside its parameters.

    ``key``: the idempotency key to send. ``guards``: versions to send as write guards, by
    resource. ``deadline``: microseconds, None if there is none. ``payload``: plain values.
    """

    __slots__ = (
        "_executor", "action_id", "connection", "deadline", "epoch", "execution_id",
        "fingerprint", "guards", "key", "number", "payload", "step_id",
    )  # fmt: skip

    def __init__(self, p: Presented, number: int, epoch: int, runtime: Runtime) -> None:
        self.action_id = p.action_id
        self.key = p.action_id
        self.number = number
        self.epoch = epoch
        self.payload = p.plain
        self.fingerprint = p.fingerprint
        self.guards = {item.resource: item.version for item in p.preconditions if item.guard}
        self.deadline = p.deadline
        self.execution_id = p.intent.execution_id or p.action_id
        self.step_id = p.intent.step_id or p.declared.name
        self.connection: Any = None
        self._executor = runtime.executor

    @property
    def lock_fd(self) -> int:
        """Pass this descriptor to every program that the release starts (`pass_fds`).

        It holds this executor's lock for as long as the program lives. A program that
        starts without it makes the executor's death unprovable.
        """
        return self._executor.lock_fd()


@dataclass(slots=True)
class Draft:
    """The entries of a claim before it is made: without and with the release."""

    base: Chain
    full: Chain
    intent: Entry
    release: Entry
    ruling: Ruling
    refused: str | None
    now: int


@dataclass(slots=True)
class Permit:
    """What was asked before a release: the ruling, what it stands on, and what is against it."""

    ruling: Ruling
    causes: tuple[str, ...]
    observed: list[PreconditionObserved]
    refused: str | None


def first_steps(
    runtime: Runtime, p: Presented, authority: Authority, connection: Any = None
) -> Steps[Outcome | None]:
    """Claim, release, settle; None if the journal knows the action already.

    Raises JournalError kinds; nothing is released unless the claim is durable.
    """
    if p.contract.digest not in runtime.kept:
        yield runtime.ports.read("contract", lambda: runtime.keep_contract(p.contract))
    now = yield runtime.ports.now()
    chain = Chain(p.root_id)
    if p.root_id != p.action_id:
        known = yield runtime.ports.read("entries", lambda: runtime.journal.entries(p.root_id))
        chain = Chain(p.root_id, known[-1].position, known[-1].digest)
    intent = chain.add(p.record(now, runtime.journal.sources.incarnation))
    joined = joins(p, connection)
    draft = yield from draft_steps(
        runtime, p, authority, chain, intent, number=1, epoch=1, joined=joined, now=now
    )
    try:
        claimed = yield from claim_steps(runtime, p, draft, lambda tx: claim(runtime, tx, p, draft))
    except PositionTaken:
        return None
    return (yield from finish_steps(runtime, p, claimed, connection))


def joins(p: Presented, connection: Any) -> bool:
    """Will the effect be part of a transaction that is open on the caller's connection?"""
    return connection is not None and marker_of(p).wrap(connection).active()


def claim_steps(
    runtime: Runtime, p: Presented, draft: Draft, work: Callable[[Transaction], Claimed]
) -> Steps[Claimed]:
    """Make the claim durable. Where it is not known whether it is, nothing is sent.

    An ambiguous commit, Ctrl-C and a cancelled task alike: the claim may stand all the
    same, and then it is recorded that nothing was sent.
    """
    try:
        claimed: Claimed = yield runtime.ports.transact("claim", work)
    except GeneratorExit:
        raise
    except BaseException as error:
        if isinstance(error, AmbiguousCommit) or not isinstance(error, Exception):
            reply = Reply(transport="not_sent", detail="the claim's barrier was not waited for")
            yield from late_steps(runtime, p, draft.intent, draft.release, reply, refused=None)
        raise
    return claimed


def finish_steps(
    runtime: Runtime, p: Presented, claimed: Claimed, connection: Any = None
) -> Steps[Outcome]:
    """From a durable claim to an outcome."""
    if claimed.release is None:
        return report_of(runtime, claimed.row, claimed.entries, claimed.refused)
    return (yield from release_steps(runtime, p, claimed, connection))


def permit_steps(
    runtime: Runtime,
    p: Presented,
    authority: Authority,
    chain: Chain,
    intent: Entry,
    *,
    word: bool,
    now: int | None = None,
) -> Steps[Permit]:
    """Ask authority and preconditions afresh, and append their answers to the chain."""
    if now is None:
        now = yield runtime.ports.now()
    ruling = yield from ask(runtime.ports, authority, request_for(p, now))
    causes = [intent.digest, add_ruling(chain, p, ruling, intent, now).digest]
    observed: list[PreconditionObserved] = []
    for wanted in p.preconditions:
        found = yield from observe_precondition(runtime.ports, p, wanted, now, word=word)
        observed.append(found)
        causes.append(chain.add(found).digest)
    refused = objection(p, ruling, now) or precondition_fault(p.contract, observed, now)
    return Permit(ruling, tuple(causes), observed, refused)


def draft_steps(
    runtime: Runtime,
    p: Presented,
    authority: Authority,
    chain: Chain,
    intent: Entry,
    *,
    number: int,
    epoch: int,
    joined: bool = False,
    now: int | None = None,
) -> Steps[Draft]:
    """Ask what must be asked, and draft the attempt that it would allow."""
    permit = yield from permit_steps(runtime, p, authority, chain, intent, word=True, now=now)
    now = yield runtime.ports.now()
    return draft_release(
        runtime, p, chain, intent, permit, now, number=number, epoch=epoch, joined=joined
    )


def draft_release(
    runtime: Runtime,
    p: Presented,
    chain: Chain,
    intent: Entry,
    permit: Permit,
    now: int,
    *,
    number: int,
    epoch: int,
    joined: bool = False,
) -> Draft:
    """The chain with and without an attempt that stands on the permit."""
    full = chain.copy()
    sealer = p.declared.sealer
    release = full.add(
        AttemptReleased(
            action_id=p.action_id,
            at=now,
            causes=permit.causes,
            number=number,
            epoch=epoch,
            executor=runtime.executor.name,
            key=p.action_id,
            payload_hash=intent.record.payload_hash,
            decision_id=permit.ruling.decision_id,
            incarnation=runtime.journal.sources.incarnation,
            fence=None if sealer is None else sealer.fence,
            deadline=p.deadline,
            joined=joined,
        )
    )
    return Draft(chain, full, intent, release, permit.ruling, permit.refused, now)


def _refusal(tx: Transaction, p: Presented, draft: Draft) -> str | None:
    """What stands against a release, looked at inside the claim's own transaction."""
    if draft.refused is not None:
        return draft.refused
    if p.needs:
        needs = needs_now(tx, p.needs)
        if needs is not Needs.MET:
            word = "not verified as far as it asks" if needs is Needs.OPEN else "broken"
            return f"an action that it needs is {word}"
    if own(draft.ruling, p.action_id):
        return None
    if tx.reserve(draft.ruling.decision_id, p.action_id, draft.ruling.uses):
        return None
    return "the decision is used already"


def claim(runtime: Runtime, tx: Transaction, p: Presented, draft: Draft) -> Claimed:
    """Step 1: the action, its intent, decision and preconditions, and its attempt."""
    plain = not p.needs and p.root_id == p.action_id and own(draft.ruling, p.action_id)
    if not plain and tx.action(p.action_id) is not None:
        raise PositionTaken(f"action {p.action_id!r} is known already")
    refused = _refusal(tx, p, draft)
    root = None if p.root_id == p.action_id else tx.action(p.root_id)
    row = ActionRow(
        action_id=p.action_id,
        root_id=p.root_id,
        parent=None if root is None else root.number,
        type=p.declared.name,
        contract=p.contract.digest,
        fingerprint=p.fingerprint,
        created_at=draft.now,
    )
    chain = _claim_row(runtime, row, draft, refused)
    tx.create(row, chain)
    return _claimed(row, list(chain.entries), draft, refused)


def _claim_row(runtime: Runtime, row: ActionRow, draft: Draft, refused: str | None) -> Chain:
    """Set the row for the claim that was drafted, or for its refusal; the chain to write."""
    row.changed_at = row.next_at = draft.now
    if refused is not None:
        row.holder, row.lease_until, row.decision = "", 0, REFUSED_HERE
        if not row.attempts:
            row.finding = Finding.NOT_APPLIED.value
        row.open = row.finding == Finding.UNKNOWN.value
        return draft.base
    release: AttemptReleased = draft.release.record
    row.epoch, row.attempts = release.epoch, release.number
    row.finding, row.decision = Finding.UNKNOWN.value, RELEASED
    row.holder, row.lease_until = runtime.executor.name, draft.now + runtime.lease
    row.open, row.next_at = True, row.lease_until
    return draft.full


REFUSED_HERE = "refused-here"
RELEASED = "released"
"""What the projection shows as the decision while none of the table was taken."""


def _claimed(row: ActionRow, entries: list[Entry], draft: Draft, refused: str | None) -> Claimed:
    release = None if refused is not None else draft.release
    return Claimed(row, entries, draft.intent, release, refused, draft.ruling.valid_until)


def reclaim_steps(
    runtime: Runtime, p: Presented, row: ActionRow, known: list[Entry], draft: Draft
) -> Steps[Claimed]:
    """Claim a further attempt of a known action. Raises PositionTaken or StaleEpoch."""
    before = row.epoch

    def work(tx: Transaction) -> Claimed:
        new = msgspec.structs.replace(row)
        refused = _refusal(tx, p, draft)
        chain = _claim_row(runtime, new, draft, refused)
        tx.advance(new, chain, epoch=before)
        return _claimed(new, [*known, *chain.entries], draft, refused)

    return (yield from claim_steps(runtime, p, draft, work))


# --- release ------------------------------------------------------------


def release_steps(
    runtime: Runtime, p: Presented, claimed: Claimed, connection: Any = None
) -> Steps[Outcome]:
    """Steps 2 to 4: look again, release, and record what came back.

    ``connection``: the caller's, for an effect inside a database; recovery has none, and
    the fence opens one.
    """
    call = Call(p, claimed.row.attempts, claimed.row.epoch, runtime)
    try:
        stop = yield from _look_again(runtime, p, claimed)
        given = p.declared.parameters.decode(p.plain)
    except GeneratorExit:
        raise
    except BaseException as error:
        yield from _unsent(runtime, p, claimed, f"{type(error).__name__} before the release")
        raise
    if stop is not None:
        return (yield from _unsent(runtime, p, claimed, stop))
    if p.declared.local:
        return (yield from _local(runtime, p, claimed, call, connection))
    try:
        with runtime.executor.enter():
            answer = yield runtime.ports.adapter(
                "release", lambda: p.declared.release(call, **given)
            )
        if inspect.iscoroutine(answer):
            answer.close()  # it was made and never begun
            return (yield from _unsent(runtime, p, claimed, "a coroutine needs perform_async"))
        reply = reply_to_return(p.contract, answer)
    except Exception as error:
        reply = reply_to_error(p.contract, error)
    except GeneratorExit:
        raise
    except BaseException as error:
        # Ctrl-C, or a cancelled task: what was sent was sent, and a thread that the adapter
        # waited for may still be sending. Say so, then go on unwinding.
        reply = msgspec.structs.replace(reply_to_error(p.contract, error), named="", closed=False)
        yield from settle_steps(runtime, p, claimed, reply)
        raise
    return (yield from settle_steps(runtime, p, claimed, reply))


def _unsent(runtime: Runtime, p: Presented, claimed: Claimed, why: str) -> Steps[Outcome]:
    """Nothing has left: that is recorded, and the action may run again."""
    reply = Reply(transport="not_sent", detail=why[:200])
    return (yield from settle_steps(runtime, p, claimed, reply, refused=why))


def _local(
    runtime: Runtime, p: Presented, claimed: Claimed, call: Call, connection: Any
) -> Steps[Outcome]:
    """An effect inside a database: on the caller's connection, or on one of the fence's own."""
    marker = marker_of(p)
    handle = marker.open() if connection is None else marker.wrap(connection)
    call.connection = handle.conn
    try:
        joined = yield from local_steps(runtime.ports, p, call, handle)
    finally:
        if connection is None:
            handle.close()
    if joined.pending:
        runtime.ended[p.action_id] = ended_by(handle, p.action_id)
        return Pending(action_id=p.action_id, reason="your transaction is not committed yet")
    assert joined.reply is not None
    outcome = yield from settle_steps(
        runtime, p, claimed, joined.reply, refused=joined.reply.detail
    )
    if joined.error is not None:
        raise joined.error
    if joined.existing:
        return (yield from _seen_there(runtime, p, claimed, marker))
    return outcome


def _seen_there(runtime: Runtime, p: Presented, claimed: Claimed, marker: Marker) -> Steps[Outcome]:
    """The fence was won before this attempt: its row is read as evidence."""
    now = yield runtime.ports.now()
    row = yield runtime.ports.read("row", lambda: runtime.journal.action(p.action_id))
    entries = yield runtime.ports.read("entries", lambda: runtime.journal.entries(p.root_id))
    row, cut = yield from look_steps(runtime, row, runtime.cut(entries, now), p.declared)
    return report_of(runtime, row, list(cut.entries), None)


def _look_again(runtime: Runtime, p: Presented, claimed: Claimed) -> Steps[str | None]:
    """Step 2: immediately before the call, epoch, validity and deadline once more."""
    epoch = yield runtime.ports.read("epoch", lambda: runtime.journal.epoch(claimed.row))
    now = yield runtime.ports.now()
    if epoch != claimed.row.epoch:
        return "the lease was taken over before the release"
    if now > claimed.valid_until:
        return "the decision ran out before the release"
    if now > claimed.row.lease_until:
        return "the lease ran out before the release"
    if p.deadline is not None and now > p.deadline:
        return "the deadline passed before the release"
    release = claimed.release
    assert release is not None
    return _stale(claimed.entries, release, now) if len(release.record.causes) > 2 else None


def _stale(entries: list[Entry], release: Entry, now: int) -> str | None:
    """A precondition of the release that is not fresh any more, in words."""
    for entry in entries:
        record = entry.record
        if entry.digest not in release.record.causes:
            continue
        limit = record.fresh_for if isinstance(record, PreconditionObserved) else None
        if limit is not None and now - record.observed_at > limit:
            return f"precondition {record.predicate!r} was no longer fresh before the release"
    return None


def check_same(runtime: Runtime, p: Presented, recorded: str) -> None:
    """The same id must be the same intent, at any time (DESIGN 4, step 1).

    Raises IntentConflict, or KeyringMissing where that cannot be told.
    """
    same = fingerprint_matches(runtime.keys.secrets, recorded, p.meaning)
    if same is None:
        raise KeyringMissing(
            f"the key that action {p.action_id!r} was fingerprinted with is not in the keyring",
            fix="Put the journal's keyring.json back; nothing is released without it.",
        )
    if not same:
        raise IntentConflict(
            f"action {p.action_id!r} is known with another intent",
            fix="A changed plan needs a new action id, and a new decision; the old id keeps what "
            "it was recorded with.",
        )
