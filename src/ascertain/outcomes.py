"""What a caller gets: a typed outcome, never a bare value (DESIGN 4).

::

    match outcome:
        case Applied(receipt):
            ...
        case Rejected(reason):
            ...
        case NotApplied(argument):
            ...
        case Unknown(reason, next_observation):
            ...  # what depends on it stays frozen
        case Conflict(violations):
            ...
        case Pending(reason, next_observation):
            ...  # it happened, not yet as far as asked
        case Reversed(receipt, by):
            ...

Only `Applied` means that work may go on as if the effect were there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ascertain.core.codec import Json
from ascertain.core.contract import LEVELS
from ascertain.core.facts import Compensation, Decision, Finding
from ascertain.core.judgement import Judgement
from ascertain.core.records import Entry, ReceiptRecorded
from ascertain.errors import NotVerified

WORDS: dict[Finding, str] = {
    Finding.APPLIED_FINAL: "it happened",
    Finding.APPLIED_SHORT: "it happened; the evidence asked for is not complete yet",
    Finding.APPLIED_PROVISIONAL: "it is under way; what counts has not been reached yet",
    Finding.APPLIED_REVERSED: "it happened, and was undone later",
    Finding.REJECTED: "it was refused for good",
    Finding.NOT_APPLIED: "it did not happen",
    Finding.NOT_APPLIED_SEALED: "it did not happen, and cannot any more",
    Finding.CONFLICT: "the evidence disagrees: a person must look",
    Finding.UNKNOWN: "we cannot know yet",
}
"""Each finding in plain words; the technical word comes second."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The effect receipt: what is claimed, and what supports it.

    ``claim``: accepted, committed or settled. ``reference``: the provider's name for the
    effect, or the action id where it gives none. ``witnesses``: control domains that
    vouch for it. ``result``: what the adapter kept of the reply, a plain value or None.
    """

    action_id: str
    claim: str
    reference: str
    witnesses: tuple[str, ...]
    result: Json = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Base of the outcomes. ``judgement``: everything that was concluded, None before any cut."""

    action_id: str
    judgement: Judgement | None = field(default=None, repr=False)

    def value(self) -> Any:
        """The kept result of an applied action. Raises NotVerified for anything else."""
        raise NotVerified(
            f"action {self.action_id!r} has no verified result: {self.words}",
            fix="Match on the outcome; only Applied carries a value.",
        )

    @property
    def words(self) -> str:
        """The outcome in plain words."""
        return "nothing is known" if self.judgement is None else WORDS[self.judgement.facts.finding]


@dataclass(frozen=True, slots=True)
class Applied(Outcome):
    """It happened, once, as intended, with the evidence asked for."""

    receipt: Receipt

    def value(self) -> Any:
        """What the adapter kept of the reply: a plain value, or None."""
        return self.receipt.result


@dataclass(frozen=True, slots=True)
class Pending(Outcome):
    """It happened, but not yet as far, or as well witnessed, as the contract asks.

    Also the result of `apply` inside a transaction that the caller has yet to commit.
    """

    reason: str
    next_observation: int | None = None

    @property
    def words(self) -> str:
        """The outcome in plain words."""
        return "it is not committed yet" if self.judgement is None else Outcome.words.__get__(self)


@dataclass(frozen=True, slots=True)
class Reversed(Outcome):
    """It happened and was undone later, ``by`` what is named, if anything is."""

    receipt: Receipt
    by: str = ""


@dataclass(frozen=True, slots=True)
class Rejected(Outcome):
    """The provider refused for good; nothing is sent again under this action."""

    reason: str


@dataclass(frozen=True, slots=True)
class NotApplied(Outcome):
    """It did not happen. ``argument``: why that is known. ``refused``: what stopped it here."""

    argument: str
    refused: str | None = None
    sealed: bool = False


@dataclass(frozen=True, slots=True)
class Conflict(Outcome):
    """Evidence disagrees: a person must look."""

    violations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Unknown(Outcome):
    """It is not known whether it happened. Do not send it again under another id.

    ``next_observation``: when it is looked at again (microseconds), None if a person must.
    """

    reason: str
    next_observation: int | None = None


def _receipt(action_id: str, entries: Iterable[Entry], judgement: Judgement) -> Receipt:
    effects = judgement.verdict.effects
    effect = effects[0] if len(effects) == 1 else min(effects, key=lambda item: not item.reference)
    return Receipt(
        action_id,
        LEVELS[effect.level],
        effect.reference or action_id,
        tuple(sorted(effect.domains)),
        next(_results(action_id, entries), None),
    )


def _results(action_id: str, entries: Iterable[Entry]) -> Iterator[Json]:
    for entry in entries:
        record = entry.record
        ours = type(record) is ReceiptRecorded and record.action_id == action_id
        if ours and record.claim is not None and record.result is not None:
            yield record.result


def outcome_of(
    action_id: str,
    entries: Iterable[Entry],
    judgement: Judgement,
    *,
    refused: str | None = None,
) -> Outcome:
    """The caller's outcome from a judgement of these entries of the action's lineage.

    ``refused``: why nothing was released here.
    """
    verdict = judgement.verdict
    finding = verdict.finding
    known: dict[str, Any] = {"action_id": action_id, "judgement": judgement}
    if finding is Finding.APPLIED_FINAL and judgement.facts.compensation is not Compensation.NONE:
        reason = "it happened, and what became of its compensation is not known"
        return Pending(reason=reason, next_observation=judgement.next_observation, **known)
    if finding is Finding.APPLIED_FINAL:
        return Applied(receipt=_receipt(action_id, entries, judgement), **known)
    if finding in (Finding.APPLIED_SHORT, Finding.APPLIED_PROVISIONAL):
        reason = "; ".join((verdict.reason, *verdict.missing))
        return Pending(reason=reason, next_observation=judgement.next_observation, **known)
    if finding is Finding.APPLIED_REVERSED:
        receipt = _receipt(action_id, entries, judgement)
        return Reversed(receipt=receipt, by=verdict.reversed_by, **known)
    if finding is Finding.REJECTED:
        return Rejected(reason=verdict.reason, **known)
    if finding in (Finding.NOT_APPLIED, Finding.NOT_APPLIED_SEALED):
        sealed = finding is Finding.NOT_APPLIED_SEALED
        return NotApplied(argument=verdict.reason, refused=refused, sealed=sealed, **known)
    if finding is Finding.CONFLICT:
        return Conflict(violations=_disagreements(judgement), **known)
    person = judgement.row.decision is Decision.QUARANTINE
    when = None if person else judgement.next_observation
    return Unknown(reason=verdict.reason, next_observation=when, **known)


def _disagreements(judgement: Judgement) -> tuple[str, ...]:
    texts = [item.text for item in judgement.violations]
    return tuple(dict.fromkeys((judgement.verdict.reason, *texts)))
