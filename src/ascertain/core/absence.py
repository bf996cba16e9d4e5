"""Why an attempt had no effect: what it was told, a seal, or quiet and a read (DESIGN 6).

Absence needs an argument. An expired lease, an empty read on its own and an error
while reading are none.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from .contract import FOR_EVER, Consistency, Contract
from .cut import Sources, View
from .records import AttemptReleased, AttemptReturned, Entry


class Absence(Enum):
    """The four kinds of argument for absence."""

    NEVER_RELEASED = "never released"
    TOLD = "told"
    SEALED = "sealed"
    GONE_AND_SEEN = "gone and seen"


class Argument(NamedTuple):
    """Why it did not happen: the kind, one sentence, and the records that carry it."""

    kind: Absence
    text: str
    evidence: tuple[str, ...]


class Absent(NamedTuple):
    """For each attempt without an effect: why, and the records that show it."""

    none: dict[int, tuple[Absence, str]]
    refused: dict[int, str]
    open: tuple[int, ...]


def told(view: View, contract: Contract, number: int) -> str | None:
    """What attempt ``number``'s own return proves: "none", "refused", "effect" or None.

    A reply speaks for one request. Where there may have been several, only a refusal that
    the provider keeps under the key speaks for all of them.
    """
    entry = view.returned.get(number)
    if entry is None:
        return None
    record: AttemptReturned = entry.record
    if record.transport in ("not_sent", "rolled_back"):
        return "none"
    if record.transport == "timed_out":
        return None
    replies, several = contract.replies, multiplied(view, contract, number)
    if record.reply in replies.refusals:
        kept = replies.refusals_stored and remembered(view, contract)
        return "refused" if not several or kept else None
    if several:
        return None
    if record.reply in replies.no_effect:
        return "none"
    return "effect" if record.reply in contract.reaches else None


def multiplied(view: View, contract: Contract, number: int) -> bool:
    """May attempt ``number`` have been more than one request?"""
    flight, returned = contract.in_flight, view.returned.get(number)
    several = returned is not None and not returned.record.single
    return several or flight.doubles or flight.client_retries


def quiet_at(view: View, contract: Contract, number: int) -> int | None:
    """When attempt ``number`` can land no more, or None: not known (DESIGN 6, *quiet*).

    Its connection is closed and no client library retries, or its executor is proved
    to be gone; and then the in-flight bound has passed.
    """
    flight = contract.in_flight
    if flight.after_release is None or flight.after_close is None:
        return None
    release: AttemptReleased = view.released[number].record
    returned = view.returned.get(number)
    gone = view.gone.get(release.executor)
    if returned is not None and returned.record.closed and not flight.client_retries:
        base: int = returned.record.at
    elif gone is not None:
        base = gone.record.at
    else:
        return None
    return max(release.at + flight.after_release, base + flight.after_close)


def latest_quiet(view: View, contract: Contract, numbers: tuple[int, ...]) -> int | None:
    """When all of ``numbers`` are quiet; None if one of them is not known to be."""
    times = [quiet_at(view, contract, number) for number in numbers]
    return None if not times or None in times else max(time for time in times if time is not None)


def lands_by(view: View, contract: Contract, number: int) -> int | None:
    """The last time at which attempt ``number`` may land, an executor's pause included."""
    quiet = quiet_at(view, contract, number)
    if quiet is not None:
        return quiet
    flight = contract.in_flight
    if flight.after_release is None or flight.longest_pause is None:
        return None
    return int(view.released[number].record.at) + flight.after_release + flight.longest_pause


def remembered(view: View, contract: Contract) -> bool:
    """Does the provider still know the key whenever an open attempt may land?"""
    retention = contract.key.retention
    if retention is None or retention >= FOR_EVER:
        return retention is not None
    ends = first_release(view) + retention - contract.skew
    last = [lands_by(view, contract, number) for number in view.released]
    return all(time is not None and time < ends for time in last)


def first_release(view: View) -> int:
    """When the action was first released, 0 if it never was."""
    return min((entry.record.at for entry in view.released.values()), default=0)


def misses_nothing_before(view: View, entry: Entry, contract: Contract) -> int | None:
    """The time up to which a read cannot have missed an effect, None if it can."""
    readback, record = contract.readback, entry.record
    if record.as_of is None or not readback.keeps_records or readback.by == "none":
        return None
    as_of = min(int(record.as_of), int(record.observed_at))
    if readback.retention is None or as_of - first_release(view) > readback.retention:
        return None
    if record.consistency == Consistency.LINEARIZABLE.value:
        return as_of
    if record.consistency == Consistency.BOUNDED.value and readback.lag is not None:
        return as_of - readback.lag
    return None


def seals_of(view: View) -> dict[str, Entry]:
    """The seals that refuse every later attempt, by fence. An epoch's seal does not."""
    return {item.record.fence: item for item in view.seals if item.record.reach == "action"}


def whole(view: View, sources: Sources) -> bool:
    """Can no attempt be missing: complete sources, and records of their incarnation only?"""
    records = (*view.intents, *view.released.values())
    same = all(entry.record.incarnation == sources.incarnation for entry in records)
    return sources.complete and bool(view.intents) and same


def denials(view: View, contract: Contract, number: int) -> list[Entry]:
    """A person's word that attempt ``number`` did nothing, given when that could be known.

    It counts from the time on after which the contract lets nothing land any more; where
    the contract does not know such a time, the person vouches for that too.
    """
    release = view.released[number]
    quiet = quiet_at(view, contract, number)
    least = release.record.at + (contract.in_flight.after_release or 0) if quiet is None else quiet
    return [
        entry
        for entry in view.attested
        if entry.record.claim == "not_applied"
        and entry.position > release.position
        and entry.record.at >= least
    ]


def absent(view: View, contract: Contract) -> Absent:
    """Each attempt by what is proved of it: no effect, refused, or open."""
    none: dict[int, tuple[Absence, str]] = {}
    refused: dict[int, str] = {}
    seals = seals_of(view)
    for number, entry in view.released.items():
        word = told(view, contract, number)
        if word == "none":
            none[number] = (Absence.TOLD, view.returned[number].digest)
        elif word == "refused":
            refused[number] = view.returned[number].digest
        elif entry.record.fence in seals:
            none[number] = (Absence.SEALED, seals[entry.record.fence].digest)
        else:
            _look(view, contract, number, none)
    _seen_refusals(view, contract, none, refused)
    _spread(view, contract, none, refused)
    rest = tuple(n for n in view.released if n not in none and n not in refused)
    return Absent(none, refused, rest)


def _look(
    view: View, contract: Contract, number: int, none: dict[int, tuple[Absence, str]]
) -> None:
    quiet = quiet_at(view, contract, number)
    if quiet is not None:
        for entry in view.receipts:
            if entry.record.evidence == "absence":
                covered = misses_nothing_before(view, entry, contract)
                if covered is not None and covered >= quiet:
                    none[number] = (Absence.GONE_AND_SEEN, entry.digest)
                    return
    words = denials(view, contract, number)
    if words:
        none[number] = (Absence.GONE_AND_SEEN, words[0].digest)


def _seen_refusals(
    view: View,
    contract: Contract,
    none: dict[int, tuple[Absence, str]],
    refused: dict[int, str],
) -> None:
    """Refusals that the authority shows, or a person attests, for the attempts before them.

    Without a number one speaks for a single request: where several could be meant, only a
    refusal kept under their key counts.
    """
    seen = [entry for entry in view.effects if entry.record.state == "rejected"]
    for entry in (*seen, *view.attested):
        attested = not hasattr(entry.record, "state")
        if attested and entry.record.claim != "rejected":
            continue
        waiting = [
            number
            for number, release in view.released.items()
            if number not in none
            and number not in refused
            and release.position < entry.position
            and (attested or entry.record.number in (None, number))
        ]
        pairs = {_pair(view.released[number]) for number in waiting}
        several = len(waiting) > 1 or any(multiplied(view, contract, n) for n in waiting)
        stored = contract.replies.refusals_stored and remembered(view, contract)
        kept = stored and len(pairs) == 1
        if attested or kept or not several:
            refused.update((number, entry.digest) for number in waiting)


def _spread(
    view: View,
    contract: Contract,
    none: dict[int, tuple[Absence, str]],
    refused: dict[int, str],
) -> None:
    """A refusal kept under the key covers every attempt with that key and payload."""
    if not contract.replies.refusals_stored or not remembered(view, contract):
        return
    kept = {_pair(view.released[number]): digest for number, digest in refused.items()}
    for number, entry in view.released.items():
        if number not in none and _pair(entry) in kept:
            refused.setdefault(number, kept[_pair(entry)])


def _pair(entry: Entry) -> tuple[str, str]:
    return entry.record.key, entry.record.payload_hash


def one_key(view: View) -> bool:
    """Do all attempts carry the same key and the same payload?"""
    return len({_pair(entry) for entry in view.released.values()}) == 1
