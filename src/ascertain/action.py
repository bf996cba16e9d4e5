"""`perform`: the only place that releases an effect outside (DESIGN 4).

One durable barrier before release, one after the reply; nothing else waits for the
disk. Everything here is a flow of ops (see `ports`), for threads and coroutines alike.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from ascertain.applying import ended_by, local_steps, marker_of
from ascertain.authority import Authority, Ruling
from ascertain.core.codec import fingerprint_matches
from ascertain.core.cut import View
from ascertain.core.evidence import Reply, add_reply
from ascertain.core.facts import Finding, Needs
from ascertain.core.records import AttemptReleased, Chain, Entry, PreconditionObserved
from ascertain.errors import (
    AmbiguousCommit,
    IntentConflict,
    KeyringMissing,
    PositionTaken,
    StaleEpoch,
)
from ascertain.journal import ActionRow, Reader, Transaction
from ascertain.observers.marker import Marker
from ascertain.outcomes import Outcome, Pending, outcome_of
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
from ascertain.runtime import Runtime, announce, judged, needs_now, project, standing


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
class Claimed:
    """A claim that was made: its row, entries, and the release, None if it was refused."""

    row: ActionRow
    entries: list[Entry]
    intent: Entry
    release: Entry | None
    refused: str | None
    valid_until: int


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
    runtime.keep_contract(p.contract)
    now = yield runtime.ports.now()
    chain = Chain(p.root_id)
    intent = chain.add(p.record(now, runtime.journal.sources.incarnation))
    draft = yield from draft_steps(runtime, p, authority, chain, intent, number=1, epoch=1)
    try:
        claimed = yield runtime.ports.transact("claim", lambda tx: claim(runtime, tx, p, draft))
    except PositionTaken:
        return None
    except AmbiguousCommit:
        yield from unsent_steps(runtime, p, draft)
        raise
    return (yield from finish_steps(runtime, p, claimed, connection))


def finish_steps(
    runtime: Runtime, p: Presented, claimed: Claimed, connection: Any = None
) -> Steps[Outcome]:
    """From a durable claim to an outcome."""
    if claimed.release is None:
        return report_of(runtime, claimed.row, claimed.entries, claimed.refused)
    return (yield from release_steps(runtime, p, claimed, connection))


def permit_steps(
    runtime: Runtime, p: Presented, authority: Authority, chain: Chain, intent: Entry, *, word: bool
) -> Steps[Permit]:
    """Ask authority and preconditions afresh, and append their answers to the chain."""
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
) -> Steps[Draft]:
    """Ask what must be asked, and draft the attempt that it would allow."""
    permit = yield from permit_steps(runtime, p, authority, chain, intent, word=True)
    now = yield runtime.ports.now()
    return draft_release(runtime, p, chain, intent, permit, now, number=number, epoch=epoch)


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

    try:
        claimed: Claimed = yield runtime.ports.transact("claim", work)
    except AmbiguousCommit:
        yield from unsent_steps(runtime, p, draft)
        raise
    return claimed


def unsent_steps(runtime: Runtime, p: Presented, draft: Draft) -> Steps[None]:
    """The claim's barrier was ambiguous: nothing is sent, and if the claim stands, say so."""
    row = yield runtime.ports.read("row", lambda: runtime.journal.action(p.action_id))
    entries = yield runtime.ports.read("entries", lambda: runtime.journal.entries(p.root_id))
    if row is None or draft.release.digest not in {entry.digest for entry in entries}:
        return
    claimed = Claimed(row, entries, draft.intent, draft.release, None, draft.ruling.valid_until)
    reply = Reply(transport="not_sent", detail="the claim's barrier was ambiguous")
    yield from settle_steps(runtime, p, claimed, reply)


# --- release and settlement ------------------------------------------------------------


def release_steps(
    runtime: Runtime, p: Presented, claimed: Claimed, connection: Any = None
) -> Steps[Outcome]:
    """Steps 2 to 4: look again, release, and record what came back.

    ``connection``: the caller's, for an effect inside a database; recovery has none, and
    the fence opens one.
    """
    call = Call(p, claimed.row.attempts, claimed.row.epoch, runtime)
    stop = yield from _look_again(runtime, p, claimed)
    if stop is not None:
        reply = Reply(transport="not_sent", detail=stop)
        return (yield from settle_steps(runtime, p, claimed, reply, refused=stop))
    if p.declared.local:
        return (yield from _local(runtime, p, claimed, call, connection))
    try:
        with runtime.executor.enter():
            given = p.declared.parameters.decode(p.plain)
            answer = yield runtime.ports.adapter(
                "release", lambda: p.declared.release(call, **given)
            )
        reply = reply_to_return(p.contract, answer)
    except Exception as error:
        reply = reply_to_error(p.contract, error)
    except BaseException as error:
        # Ctrl-C, or a cancelled task: what was sent was sent. Say so, then go on unwinding.
        reply = reply_to_error(p.contract, error)
        yield from settle_steps(runtime, p, claimed, reply)
        raise
    return (yield from settle_steps(runtime, p, claimed, reply))


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
    epoch = yield runtime.ports.read("epoch", lambda: runtime.journal.epoch(p.action_id))
    now = yield runtime.ports.now()
    if epoch != claimed.row.epoch:
        return "the lease was taken over before the release"
    if now > claimed.valid_until:
        return "the decision ran out before the release"
    if now > claimed.row.lease_until:
        return "the lease ran out before the release"
    if p.deadline is not None and now > p.deadline:
        return "the deadline passed before the release"
    return None


def settle_steps(
    runtime: Runtime, p: Presented, claimed: Claimed, reply: Reply, *, refused: str | None = None
) -> Steps[Outcome]:
    """Step 4: the reply, its receipts, the outcome and the outbox row, in one transaction."""
    now = yield runtime.ports.now()
    row, release = claimed.row, claimed.release
    assert release is not None
    chain = Chain(p.root_id, claimed.entries[-1].position, claimed.entries[-1].digest)
    add_reply(
        chain, release=release, intent=claimed.intent, contract=p.contract, reply=reply, at=now
    )
    entries = [*claimed.entries, *chain.entries]
    cut = runtime.cut(entries, now)
    found = judged(runtime, cut, p.action_id, standing(p.contract))
    epoch = row.epoch
    project(row, found, now)
    row.holder, row.lease_until = "", 0
    try:
        yield runtime.ports.transact("settle", lambda tx: _settle(tx, row, chain, epoch))
    except (StaleEpoch, PositionTaken):
        return (yield from late_steps(runtime, p, claimed, reply, refused=refused))
    return outcome_of(cut.views[p.action_id], found, refused=refused)


def _settle(tx: Transaction, row: ActionRow, chain: Chain, epoch: int) -> None:
    tx.advance(row, chain, epoch=epoch)
    announce(tx, row, chain.position)


def late_steps(
    runtime: Runtime, p: Presented, claimed: Claimed, reply: Reply, *, refused: str | None
) -> Steps[Outcome]:
    """The lineage moved on meanwhile: append what was learnt, decide nothing (DESIGN 2, 4)."""
    release = claimed.release
    assert release is not None
    now = yield runtime.ports.now()

    def work(tx: Transaction) -> tuple[ActionRow, list[Entry]]:
        row = tx.action(p.action_id)
        assert row is not None
        known = tx.entries(p.root_id)
        chain = Chain(p.root_id, known[-1].position, known[-1].digest)
        add_reply(
            chain, release=release, intent=claimed.intent, contract=p.contract, reply=reply, at=now
        )
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

    row, entries = yield runtime.ports.transact("late", work)
    return report_of(runtime, row, entries, refused)


def report_of(
    runtime: Runtime, row: ActionRow, entries: list[Entry], refused: str | None
) -> Outcome:
    """The caller's outcome of what is recorded. Reads nothing."""
    cut = runtime.cut(entries, row.changed_at)
    contract = runtime.contract(row.contract)
    found = judged(runtime, cut, row.action_id, standing(contract))
    view: View = cut.views[row.action_id]
    return outcome_of(view, found, refused=refused)


def report(runtime: Runtime, reader: Reader, action_id: str) -> Outcome | None:
    """The outcome as it is recorded now; None if the journal does not know the action."""
    row = reader.action(action_id)
    if row is None:
        return None
    return report_of(runtime, row, reader.entries(row.root_id), None)


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
