"""The typed, immutable records of the five streams, and their chain (DESIGN 2).

A record says one thing and names its causes by digest. It is stored inside an
*entry*, which gives it a position in its lineage and the digest of the entry
before it. The stored bytes are canonical (RFC 8785) and are what is hashed:
nobody re-serialises them.

Times are integers, microseconds since 1970-01-01T00:00:00Z, given as data: order
comes from position, never from them. Durations are microseconds too.
"""

from __future__ import annotations

from enum import Enum
from hashlib import sha256
from typing import Any, ClassVar

import msgspec

from ascertain.errors import ChainBroken

from .codec import encode_struct

Plain = Any
"""A value of the strict JSON profile, already checked by the codec."""


class Stream(Enum):
    """Where a record belongs. `RECOVERY` is about the cut, not part of it."""

    INTENT = "intent"
    AUTHORITY = "authority"
    STATE = "state"
    EFFECT = "effect"
    RECEIPT = "receipt"
    RECOVERY = "recovery"


class Record(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True):
    """What every record has: the action, the time it was made, and its causes."""

    stream: ClassVar[Stream]

    action_id: str
    at: int
    causes: tuple[str, ...] = ()


class Need(msgspec.Struct, frozen=True, kw_only=True):
    """An action that another needs, applied as far as ``until``: committed or final."""

    action_id: str
    lineage: str
    until: str = "committed"


# --- intent -----------------------------------------------------------------------


class IntentRecorded(Record, frozen=True, kw_only=True, tag=True):
    """One version of what is wanted. ``fingerprint`` and ``payload_hash`` are keyed."""

    stream = Stream.INTENT

    action_type: str
    execution_id: str
    step_id: str
    version: int
    subject: str
    purpose: str
    target: str
    parameters: dict[str, Plain]
    fingerprint: str
    payload_hash: str
    key_id: str
    contract: str
    incarnation: str
    tolerance: str | None = None
    constraints: dict[str, Plain] = {}
    approver: str | None = None
    supersedes: str | None = None
    compensates: str | None = None
    needs: tuple[Need, ...] = ()


# --- authority --------------------------------------------------------------------


class AuthorityDecided(Record, frozen=True, kw_only=True, tag=True):
    """The decision receipt: allow or deny, bound to one action id."""

    stream = Stream.AUTHORITY

    decision_id: str
    outcome: str
    actor: str
    subject: str
    purpose: str
    action_type: str
    policy_version: str
    checked_at: int
    valid_from: int
    valid_until: int
    intent_digest: str
    approver: str | None = None
    limits: dict[str, int] = {}
    uses: int = 1
    reason: str | None = None
    credential_digest: str | None = None


class AuthorityRevoked(Record, frozen=True, kw_only=True, tag=True):
    """A decision or capability that holds no longer from ``at`` on."""

    stream = Stream.AUTHORITY

    decision_id: str
    by: str
    reason: str


class CapabilityGranted(Record, frozen=True, kw_only=True, tag=True):
    """One of observe, continue, compensate, quarantine; scoped and bounded in time."""

    stream = Stream.AUTHORITY

    capability_id: str
    verb: str
    actor: str
    scope: str
    valid_until: int
    policy_version: str


# --- state ------------------------------------------------------------------------


class PreconditionObserved(Record, frozen=True, kw_only=True, tag=True):
    """A versioned fact about the world that was asked for.

    ``version``: the one asked for; ``found``: the one that was there, where it differs.
    ``holds``: "hold", "broken" or "unverified".
    """

    stream = Stream.STATE

    resource: str
    predicate: str
    version: str
    source: str
    observed_at: int
    holds: str
    found: str | None = None
    fresh_for: int | None = None
    value_digest: str | None = None
    guard: bool = False


# --- effect -----------------------------------------------------------------------


class LeaseTaken(Record, frozen=True, kw_only=True, tag=True):
    """The right to drive an action passed to ``holder``, under a higher ``epoch``."""

    stream = Stream.RECOVERY

    epoch: int
    holder: str


class AttemptReleased(Record, frozen=True, kw_only=True, tag=True):
    """The action is about to leave. Recorded, durably, before it does.

    ``joined``: it is part of a transaction of the caller's, who alone may make it again.
    """

    stream = Stream.EFFECT

    number: int
    epoch: int
    executor: str
    key: str
    payload_hash: str
    decision_id: str
    incarnation: str
    fence: str | None = None
    deadline: int | None = None
    joined: bool = False


class AttemptReturned(Record, frozen=True, kw_only=True, tag=True):
    """Transport truth of an attempt.

    ``transport``: "replied", "timed_out", "lost", "raised", "not_sent" or "rolled_back".
    ``reply``: the name by which the contract knows the reply, "" if it names none.
    ``single``: one request was sent for it. ``closed``: nothing of it is in flight here.
    """

    stream = Stream.EFFECT

    number: int
    epoch: int
    transport: str
    reply: str = ""
    detail: str | None = None
    closed: bool = True
    single: bool = True


class EffectObserved(Record, frozen=True, kw_only=True, tag=True):
    """Something became true outside.

    ``state``: "accepted", "committed", "settled", "reversed" or "rejected".
    ``reference``: the provider's, None where it gives none.
    ``matches``: the payload was compared: True, False, or None where it could not be.
    """

    stream = Stream.EFFECT

    state: str
    source: str
    reference: str | None = None
    number: int | None = None
    matches: bool | None = None
    version: str | None = None
    undone_by: str | None = None
    detail: str | None = None


class ExecutorGone(Record, frozen=True, kw_only=True, tag=True):
    """An executor and all its children were proved to be dead at ``at``."""

    stream = Stream.EFFECT

    executor: str
    proof: str


class FenceSealed(Record, frozen=True, kw_only=True, tag=True):
    """The fence was won by a seal. ``reach``: "action" or "epoch" (below ``epoch``)."""

    stream = Stream.EFFECT

    fence: str
    reach: str
    epoch: int


class CompensationLinked(Record, frozen=True, kw_only=True, tag=True):
    """``action_id``'s effect ``reference`` is counteracted by action ``compensator``."""

    stream = Stream.EFFECT

    reference: str
    compensator: str
    reversibility: str
    commutes: bool = False


# --- receipt ----------------------------------------------------------------------


class ReceiptRecorded(Record, frozen=True, kw_only=True, tag=True):
    """A piece of evidence.

    ``evidence``: "reply", "readback", "absence", "unreadable" or "fence".
    ``as_of``: the time at which the source vouches for what it says, None if it does not.
    ``claim``: the state that it shows, None where it shows none. ``about``: the action
    that the source named, where it named one.
    """

    stream = Stream.RECEIPT

    evidence: str
    source: str
    domain: str
    observed_at: int
    consistency: str = "eventual"
    as_of: int | None = None
    claim: str | None = None
    about: str | None = None
    reference: str | None = None
    number: int | None = None
    digest: str | None = None
    pointer: str | None = None
    result: Plain = None
    detail: str | None = None


class PostconditionChecked(Record, frozen=True, kw_only=True, tag=True):
    """A versioned predicate over authoritative state held, or did not."""

    stream = Stream.RECEIPT

    predicate: str
    version: str
    holds: bool | None
    reference: str | None = None


class OperatorAttested(Record, frozen=True, kw_only=True, tag=True):
    """A person's evidence. ``claim``: "applied", "not_applied", "rejected" or "reversed"."""

    stream = Stream.RECEIPT

    operator: str
    claim: str
    reason: str
    authority: str
    reference: str | None = None
    domain: str = "operator"


# --- about the cut ----------------------------------------------------------------


class RecoveryDecided(Record, frozen=True, kw_only=True, tag=True):
    """What recovery decided on the cut that ends at ``cut``, with the row that gave it."""

    stream = Stream.RECOVERY

    epoch: int
    cut: int
    outcome: str
    decision: str
    row: str
    facts: dict[str, Plain]
    next_observation: int | None = None


class CertificateIssued(Record, frozen=True, kw_only=True, tag=True):
    """A certificate or report over the cut that ends at ``cut``; ``digest`` of its file."""

    stream = Stream.RECOVERY

    cut: int
    digest: str
    form: str


AnyRecord = (
    IntentRecorded
    | AuthorityDecided
    | AuthorityRevoked
    | CapabilityGranted
    | PreconditionObserved
    | LeaseTaken
    | AttemptReleased
    | AttemptReturned
    | EffectObserved
    | ExecutorGone
    | FenceSealed
    | CompensationLinked
    | ReceiptRecorded
    | PostconditionChecked
    | OperatorAttested
    | RecoveryDecided
    | CertificateIssued
)


class _Stored(msgspec.Struct, frozen=True):
    """The stored form of an entry; its fields stand in canonical order."""

    lineage: str
    position: int
    previous: str
    record: AnyRecord


GENESIS = "0" * 64
"""``previous`` of a lineage's first entry."""

_decoder = msgspec.json.Decoder(_Stored)


class Entry(msgspec.Struct, frozen=True):
    """A record at its place: ``position`` counts from 1 in its lineage."""

    lineage: str
    position: int
    previous: str
    record: Any
    raw: bytes
    digest: str


class Chain:
    """Builds the next entries of one lineage. The journal checks that nothing came between."""

    __slots__ = ("base", "digest", "entries", "lineage", "position")

    def __init__(self, lineage: str, position: int = 0, digest: str = GENESIS) -> None:
        self.lineage = lineage
        self.base = position
        self.position = position
        self.digest = digest
        self.entries: list[Entry] = []

    def add(self, record: Record) -> Entry:
        """Encode, hash and link one record. Raises ProfileViolation."""
        position = self.position + 1
        raw = encode_struct(_Stored(self.lineage, position, self.digest, record))  # type: ignore[arg-type]
        digest = sha256(raw).hexdigest()
        entry = Entry(self.lineage, position, self.digest, record, raw, digest)
        self.position = position
        self.digest = digest
        self.entries.append(entry)
        return entry

    def copy(self) -> Chain:
        """The same chain so far, to be continued in another way."""
        other = Chain(self.lineage, self.position, self.digest)
        other.base = self.base
        other.entries = list(self.entries)
        return other


def read_entry(raw: bytes) -> Entry:
    """An entry from its stored bytes. Raises ChainBroken if they are not one."""
    try:
        stored = _decoder.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ChainBroken(
            f"a stored record cannot be read: {error}",
            fix="Run `ascertain journal check`; restore the journal and reconcile it.",
        ) from None
    return Entry(
        stored.lineage,
        stored.position,
        stored.previous,
        stored.record,
        raw,
        sha256(raw).hexdigest(),
    )
