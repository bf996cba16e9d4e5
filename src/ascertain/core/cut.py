"""The recovery cut: a prefix of each of the five streams, and whether it is closed.

`cut` sorts the entries of one lineage by action and stream; `violations` lists where
an event's causes are missing or a pair does not correspond (DESIGN 5, seed 000
"causal closure plus typed correspondence"). Both are pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from enum import Enum
from hashlib import sha256
from typing import Any, NamedTuple

from .contract import Contract
from .records import (
    GENESIS,
    AttemptReleased,
    AttemptReturned,
    AuthorityDecided,
    AuthorityRevoked,
    CapabilityGranted,
    CertificateIssued,
    CompensationLinked,
    EffectObserved,
    Entry,
    ExecutorGone,
    FenceSealed,
    IntentRecorded,
    LeaseTaken,
    OperatorAttested,
    PostconditionChecked,
    PreconditionObserved,
    ReceiptRecorded,
    RecoveryDecided,
    Stream,
)


class Sources(NamedTuple):
    """What is known of the place that the entries came from.

    ``complete``: nothing that was recorded can be missing. ``incarnation``: of the
    journal that holds them now; a record of another one proves no absence.
    """

    complete: bool = True
    incarnation: str = ""


class View:
    """The entries of one action, by kind. Lists are in order of position.

    ``stale``: acts under an epoch below one already seen. ``unmatched``: returns without
    their release, and releases under a number already used; they count as evidence that
    an attempt is missing.
    """

    __slots__ = (
        "action_id", "attested", "checks", "compensations", "decisions", "effects", "epoch",
        "gone", "intents", "preconditions", "receipts", "recoveries", "released", "returned",
        "revoked", "seals", "stale", "unmatched",
    )  # fmt: skip

    def __init__(self, action_id: str) -> None:
        self.action_id = action_id
        self.intents: list[Entry] = []
        self.decisions: list[Entry] = []
        self.revoked: list[Entry] = []
        self.preconditions: list[Entry] = []
        self.released: dict[int, Entry] = {}
        self.returned: dict[int, Entry] = {}
        self.effects: list[Entry] = []
        self.gone: dict[str, Entry] = {}
        self.seals: list[Entry] = []
        self.compensations: list[Entry] = []
        self.receipts: list[Entry] = []
        self.checks: list[Entry] = []
        self.attested: list[Entry] = []
        self.recoveries: list[Entry] = []
        self.epoch = 0
        self.stale: list[Entry] = []
        self.unmatched: list[Entry] = []

    @property
    def intent(self) -> IntentRecorded | None:
        """The newest version of the intent, None if none is recorded."""
        return self.intents[-1].record if self.intents else None

    @property
    def last_release(self) -> Entry | None:
        """The newest attempt."""
        return self.released[max(self.released)] if self.released else None


def _released(view: View, entry: Entry) -> None:
    record: AttemptReleased = entry.record
    if record.epoch < view.epoch:
        view.stale.append(entry)
    view.epoch = max(view.epoch, record.epoch)
    if record.number in view.released:
        view.unmatched.append(entry)
        return
    view.released[record.number] = entry
    # Whoever releases again was not gone.
    view.gone.pop(record.executor, None)


def _leased(view: View, entry: Entry) -> None:
    view.epoch = max(view.epoch, entry.record.epoch)


def _decided(view: View, entry: Entry) -> None:
    if entry.record.epoch < view.epoch:
        view.stale.append(entry)
    view.recoveries.append(entry)


def _returned(view: View, entry: Entry) -> None:
    number, transport = entry.record.number, entry.record.transport
    if number not in view.released:
        view.unmatched.append(entry)
        return
    earlier = view.returned.get(number)
    # A later word about the same attempt replaces an open one, never a reply; and what
    # left once is not called unsent.
    if earlier is None or (earlier.record.transport != "replied" and transport != "not_sent"):
        view.returned[number] = entry


def _gone(view: View, entry: Entry) -> None:
    view.gone.setdefault(entry.record.executor, entry)


def _ignore(view: View, entry: Entry) -> None:
    """Capabilities and certificates are not part of what is judged."""


_PLACES: dict[type, Any] = {
    IntentRecorded: lambda view, entry: view.intents.append(entry),
    AuthorityDecided: lambda view, entry: view.decisions.append(entry),
    AuthorityRevoked: lambda view, entry: view.revoked.append(entry),
    CapabilityGranted: _ignore,
    PreconditionObserved: lambda view, entry: view.preconditions.append(entry),
    LeaseTaken: _leased,
    AttemptReleased: _released,
    AttemptReturned: _returned,
    EffectObserved: lambda view, entry: view.effects.append(entry),
    ExecutorGone: _gone,
    FenceSealed: lambda view, entry: view.seals.append(entry),
    CompensationLinked: lambda view, entry: view.compensations.append(entry),
    ReceiptRecorded: lambda view, entry: view.receipts.append(entry),
    PostconditionChecked: lambda view, entry: view.checks.append(entry),
    OperatorAttested: lambda view, entry: view.attested.append(entry),
    RecoveryDecided: _decided,
    CertificateIssued: _ignore,
}


class Cut(NamedTuple):
    """Prefixes of the five streams of one lineage, taken together.

    ``entries``: all of them, in order. ``views``: the same by action. ``as_of``: the
    time at which it was taken, as data.
    """

    lineage: str
    entries: tuple[Entry, ...]
    views: dict[str, View]
    sources: Sources
    as_of: int

    @property
    def position(self) -> int:
        """The position of the last entry, 0 if there is none."""
        return self.entries[-1].position if self.entries else 0

    @property
    def digest(self) -> str:
        """The digest of the last entry: by the chain, of all of them."""
        return self.entries[-1].digest if self.entries else GENESIS

    def prefixes(self) -> dict[str, dict[str, Any]]:
        """For each stream the position and digest of its last entry in the cut."""
        last = {stream: (0, GENESIS) for stream in Stream if stream is not Stream.RECOVERY}
        for entry in self.entries:
            stream = entry.record.stream
            if stream is not Stream.RECOVERY:
                last[stream] = (entry.position, entry.digest)
        return {
            stream.value: {"position": position, "digest": digest}
            for stream, (position, digest) in last.items()
        }


def cut(entries: Sequence[Entry], *, as_of: int, sources: Sources) -> Cut:
    """The cut of one lineage. ``as_of``: now, in microseconds."""
    views: dict[str, View] = {}
    for entry in entries:
        action_id = entry.record.action_id
        view = views.get(action_id)
        if view is None:
            view = views[action_id] = View(action_id)
        _PLACES[type(entry.record)](view, entry)
    return Cut(entries[0].lineage if entries else "", tuple(entries), views, sources, as_of)


class Breach(Enum):
    """What kind of violation it is."""

    MISSING = "missing"
    MISMATCH = "mismatch"
    DENIED = "denied"


class Violation(NamedTuple):
    """A rule that does not hold between two records, by digest ("" where one is missing)."""

    rule: str
    breach: Breach
    text: str
    first: str
    second: str = ""


def chain_violations(entries: Iterable[Entry], *, witnessed: int = 0) -> list[Violation]:
    """Breaks of the chain of one lineage, and an end before ``witnessed`` (a position)."""
    found: list[Violation] = []
    position, previous = 0, GENESIS
    for entry in entries:
        linked = entry.position == position + 1 and entry.previous == previous
        if not linked or sha256(entry.raw).hexdigest() != entry.digest:
            text = f"record {entry.position} does not follow the one before it"
            found.append(Violation("chain", Breach.MISMATCH, text, entry.digest, previous))
        position, previous = entry.position, entry.digest
    if position < witnessed:
        text = f"the journal ends at {position}, {witnessed} was shown to the outside"
        found.append(Violation("witness", Breach.MISMATCH, text, previous))
    return found


def violations(view: View, contract: Contract) -> list[Violation]:
    """Where the action's part of the cut is not closed, or does not correspond."""
    found: list[Violation] = []
    for entry in view.released.values():
        found.extend(_attempt_violations(view, entry, contract))
    for entry in view.stale:
        text = f"an act under epoch {entry.record.epoch} after a higher one"
        found.append(Violation("stale-epoch", Breach.MISMATCH, text, entry.digest))
    for entry in view.unmatched:
        found.append(_unmatched_violation(entry))
    first = min((entry.position for entry in view.released.values()), default=None)
    for entry in view.effects:
        found.extend(_effect_violations(view, entry, first))
    for entry in (*view.receipts, *view.checks):
        found.extend(_receipt_violations(view, entry, first, contract))
    return found


def _attempt_violations(view: View, entry: Entry, contract: Contract) -> Iterator[Violation]:
    record: AttemptReleased = entry.record
    causes = record.causes
    intent = next((item for item in view.intents if item.digest in causes), None)
    if intent is None:
        text = f"attempt {record.number} names no recorded intent version"
        yield Violation("attempt-without-intent", Breach.MISSING, text, entry.digest)
    elif intent.record.payload_hash != record.payload_hash:
        text = f"attempt {record.number} carried another payload than its intent"
        yield Violation("payload", Breach.MISMATCH, text, entry.digest, intent.digest)
    allow = next((item for item in view.decisions if item.digest in causes), None)
    if allow is None:
        text = f"attempt {record.number} names no recorded decision"
        yield Violation("attempt-without-decision", Breach.MISSING, text, entry.digest)
    else:
        yield from _authority_violations(view, entry, allow, intent)
    for name in contract.preconditions:
        if not any(
            item.digest in causes and item.record.predicate == name and item.record.holds == "hold"
            for item in view.preconditions
        ):
            text = f"attempt {record.number} stands on no {name!r}, which the contract asks for"
            yield Violation("attempt-without-precondition", Breach.MISSING, text, entry.digest)


def _authority_violations(
    view: View, entry: Entry, decided: Entry, intent: Entry | None
) -> Iterator[Violation]:
    decision: AuthorityDecided = decided.record
    number, at = entry.record.number, entry.record.at
    pair = (entry.digest, decided.digest)
    if decision.outcome != "allow":
        text = f"attempt {number} was released under a deny"
        yield Violation("denied", Breach.DENIED, text, *pair)
        return
    if decided.position > entry.position:
        yield Violation("order", Breach.MISMATCH, "a decision after its release", *pair)
    if not decision.valid_from <= at <= decision.valid_until:
        text = f"attempt {number} was released outside its decision's validity"
        yield Violation("decision-validity", Breach.MISMATCH, text, *pair)
    if any(
        item.record.decision_id == decision.decision_id and item.position < entry.position
        for item in view.revoked
    ):
        text = f"attempt {number} was released after its decision was revoked"
        yield Violation("decision-revoked", Breach.MISMATCH, text, *pair)
    if decision.decision_id != entry.record.decision_id:
        text = f"attempt {number} used a decision that was not reserved for it"
        yield Violation("decision-reserved", Breach.MISMATCH, text, *pair)
    if intent is not None:
        yield from _mandate_violations(decision, intent, pair)


def _mandate_violations(
    decision: AuthorityDecided, intent: Entry, pair: tuple[str, str]
) -> Iterator[Violation]:
    wanted: IntentRecorded = intent.record
    if decision.intent_digest != intent.digest:
        text = "the decision was made about another intent version"
        yield Violation("decision-intent", Breach.MISMATCH, text, *pair)
    for name in ("subject", "purpose", "action_type"):
        if getattr(decision, name) != getattr(wanted, name):
            text = f"the intent's {name} is not the decision's"
            yield Violation(f"decision-{name}", Breach.MISMATCH, text, *pair)
    for name, most in decision.limits.items():
        value = wanted.parameters.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value > most:
            text = f"{name} is not within the decision's limit"
            yield Violation("decision-limits", Breach.MISMATCH, text, *pair)


def _unmatched_violation(entry: Entry) -> Violation:
    number = entry.record.number
    if isinstance(entry.record, AttemptReleased):
        text = f"attempt {number} was released twice"
        return Violation("attempt-twice", Breach.MISMATCH, text, entry.digest)
    text = f"attempt {number} returned, and its release is not recorded"
    return Violation("return-without-attempt", Breach.MISSING, text, entry.digest)


def _effect_violations(view: View, entry: Entry, first: int | None) -> Iterator[Violation]:
    record: EffectObserved = entry.record
    attempt = view.released.get(record.number) if record.number is not None else None
    orphan = not view.released or (record.number is not None and attempt is None)
    if orphan and record.state != "rejected":
        denied = bool(view.decisions) and view.decisions[-1].record.outcome != "allow"
        breach = Breach.DENIED if denied else Breach.MISSING
        text = "an effect without an attempt"
        yield Violation("orphan-effect", breach, text, entry.digest)
    elif first is not None and entry.position < first:
        text = "an effect from before the release"
        released = view.released[min(view.released)]
        yield Violation("order", Breach.MISMATCH, text, entry.digest, released.digest)
    if record.matches is False:
        text = f"the effect {record.reference or '(no reference)'} differs from the intent"
        second = view.intents[-1].digest if view.intents else ""
        yield Violation("effect-payload", Breach.MISMATCH, text, entry.digest, second)


def _receipt_violations(
    view: View, entry: Entry, first: int | None, contract: Contract
) -> Iterator[Violation]:
    record = entry.record
    if isinstance(record, PostconditionChecked):
        if record.holds is False:
            text = f"postcondition {record.predicate} {record.version} does not hold"
            yield Violation("postcondition", Breach.MISMATCH, text, entry.digest)
        return
    if record.about is not None and record.about != view.action_id:
        text = f"a receipt for {record.about!r}, not for this action"
        yield Violation("receipt-action", Breach.MISMATCH, text, entry.digest)
    if record.claim is None:
        return
    if record.number is not None and record.number not in view.released:
        text = f"a receipt for attempt {record.number}, which is not recorded"
        yield Violation("receipt-attempt", Breach.MISMATCH, text, entry.digest)
    if first is None:
        return
    released = view.released[min(view.released)]
    early = record.observed_at < released.record.at - contract.skew
    if entry.position < first or early:
        text = "a receipt from before the release"
        yield Violation("order", Breach.MISMATCH, text, entry.digest, released.digest)
