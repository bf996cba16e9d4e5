"""What a certificate cannot say, in words (seed 000, "four boundaries"; DESIGN 9 and 14). Pure.

Each sentence names an assumption that the conclusion rests on, or something that lies
outside of it. They follow from the contract, the cut and the verdict, never from a wish.
"""

from __future__ import annotations

from collections.abc import Iterator

from .absence import Absence, quiet_at
from .contract import DAY, FOR_EVER, HOUR, MINUTE, SECOND, Consistency, Contract, Reversibility
from .cut import Cut, View
from .decision import APPLIED
from .facts import Facts, Finding
from .outcome import Verdict
from .records import Entry

_UNRESOLVED = (Finding.UNKNOWN, Finding.APPLIED_SHORT, Finding.CONFLICT)


def limitations(
    cut: Cut, view: View, contract: Contract, verdict: Verdict, facts: Facts
) -> list[str]:
    """Every limitation of what was concluded about one action, the gravest first."""
    return [
        *_of_sources(cut, view),
        *_of_evidence(view, contract, verdict),
        *_of_readback(contract, verdict),
        *_of_flight(view, contract, verdict, facts),
        *_of_world(view, contract),
        *_of_boundary(contract),
    ]


def span(duration: int) -> str:
    """A duration of microseconds in the largest unit that divides it, as ``90 s``."""
    if duration >= FOR_EVER:
        return "no end"
    for unit, word in ((DAY, "d"), (HOUR, "h"), (MINUTE, "min"), (SECOND, "s")):
        if duration and duration % unit == 0:
            return f"{duration // unit} {word}"
    return f"{duration} µs"


def _of_sources(cut: Cut, view: View) -> Iterator[str]:
    if not cut.sources.complete:
        yield (
            "the sources of the records are not complete: a record that is missing was perhaps "
            "made, and proves nothing by being absent"
        )
    here = cut.sources.incarnation
    others = {
        entry.record.incarnation
        for entry in (*view.intents, *view.released.values())
        if entry.record.incarnation != here
    }
    if others:
        yield (
            "records were made in another incarnation of the journal, and reconciled with this "
            "one: what that incarnation recorded last may be lost"
        )


def _of_evidence(view: View, contract: Contract, verdict: Verdict) -> Iterator[str]:
    finding = verdict.finding
    if finding is Finding.APPLIED_SHORT:
        yield f"the evidence asked for is short: {'; '.join(verdict.missing)}"
    if finding is Finding.APPLIED_PROVISIONAL:
        yield (
            f"the effect is seen, but not yet {contract.governed}, which is what counts: it can "
            "still come to nothing"
        )
    if finding is Finding.UNKNOWN:
        ways = "; ".join(verdict.missing) or "nothing that is known here"
        yield f"whether it happened is not known. What would resolve it: {ways}"
    if finding in APPLIED:
        yield from _of_effect(view, contract, verdict)
    for entry in _attestations(view, finding):
        record = entry.record
        yield f"a person's word carries part of this: {record.operator} attested {record.claim!r}"


def _attestations(view: View, finding: Finding) -> Iterator[Entry]:
    told = {
        Finding.REJECTED: ("rejected",),
        Finding.NOT_APPLIED: ("not_applied",),
        Finding.NOT_APPLIED_SEALED: ("not_applied",),
    }
    claims = told.get(finding, ("applied", "reversed") if finding in APPLIED else ())
    yield from (entry for entry in view.attested if entry.record.claim in claims)


def _of_effect(view: View, contract: Contract, verdict: Verdict) -> Iterator[str]:
    (effect, *_) = verdict.effects
    if len(effect.domains) == 1:
        yield (
            f"one control domain, {next(iter(effect.domains))}, vouches for the effect: if it is "
            "wrong or lies, so is this"
        )
    if not effect.reference:
        yield "the provider gives no reference of its own: the action's marker stands in its place"
    if effect.matches is None:
        yield "the effect could not be compared with the intent"
    numbers = {entry.record.number for entry in view.effects if entry.record.number is not None}
    if len(view.released) > 1 and len(numbers) != 1:
        yield (
            f"which of {len(view.released)} attempts took effect is not known: the authority and "
            "the precondition shown are those of the attempt named beside them"
        )
    if contract.reversibility is Reversibility.IRREVERSIBLE:
        yield "the effect is irreversible: nothing that follows brings the earlier state back"


def _of_readback(contract: Contract, verdict: Verdict) -> Iterator[str]:
    readback = contract.readback
    if readback.by == "none":
        yield (
            "the provider has no readback by the action's identity: this rests on replies, "
            "seals and people alone"
        )
        return
    if verdict.finding in _UNRESOLVED and readback.consistency is Consistency.EVENTUAL:
        yield "the readback is eventual: that it shows nothing proves nothing"
    argued = verdict.argument is not None and verdict.argument.kind is Absence.GONE_AND_SEEN
    if argued and readback.consistency is Consistency.BOUNDED:
        lag = span(readback.lag or 0)
        yield f"that a read misses nothing older than {lag} is the contract's word"
    if argued and readback.retention is not None and readback.retention < FOR_EVER:
        yield f"the provider keeps what was read for {span(readback.retention)}, by the contract"


def _of_flight(view: View, contract: Contract, verdict: Verdict, facts: Facts) -> Iterator[str]:
    flight = contract.in_flight
    argued = verdict.argument is not None and verdict.argument.kind is Absence.GONE_AND_SEEN
    timed = argued or facts.replay or bool(verdict.open)
    if timed and flight.after_release is not None:
        yield (
            "how long a request may still land, "
            f"{span(flight.after_release)} after its release, is the contract's word"
        )
    if verdict.open and flight.after_release is None:
        yield "how long a request may still land is not known: that time passes proves nothing"
    paused = any(quiet_at(view, contract, number) is None for number in view.released)
    if paused and flight.longest_pause is not None:
        yield (
            "it is assumed, not proved, that no executor stands still for longer than "
            f"{span(flight.longest_pause)} between its last look and its request"
        )
    if facts.replay and contract.convergent:
        yield "that doing it twice is the same as doing it once is the contract's word"
    elif facts.replay and contract.key.retention is not None:
        yield (
            "that a repeated key gets the first result, for as long as the key is kept "
            f"({span(contract.key.retention)}), is the contract's word"
        )
    if flight.doubles and not contract.key.first_result:
        yield "the network may deliver one request twice, and nothing here excludes it"
    if flight.client_retries:
        yield "a client library retries unreported: one attempt may have been several requests"


def _of_world(view: View, contract: Contract) -> Iterator[str]:
    if not view.preconditions and not contract.preconditions:
        yield "no precondition was asked for: it acted on its target at whatever version that had"
    if any(entry.record.source == "caller" for entry in view.preconditions):
        yield "a precondition stands on the caller's word: nothing here looked at it"
    if any(not entry.record.guard for entry in view.preconditions):
        yield (
            "a precondition was looked at before the release and was no write guard: the world "
            "was not frozen"
        )


def _of_boundary(contract: Contract) -> Iterator[str]:
    if contract.surface is None:
        yield "its further effects are not declared, and lie outside of this"
    for item in contract.surface or ():
        if not item.inside:
            yield f"outside of this: {item.effect}"
    if contract.permanent_unknown_accepted_by:
        yield (
            "that it may stay unknown for ever is accepted by "
            f"{contract.permanent_unknown_accepted_by}"
        )
