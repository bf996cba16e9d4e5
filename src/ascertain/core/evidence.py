"""What an observer says, and how a reply or an observation becomes records.

A reading of authoritative state is `Seen`, `Declined`, `Absent` or `Unreadable`; a
lookup that finds several effects returns several `Seen`. Absence on its own proves
nothing (seed 001, "absence needs a consistency and time argument").
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ascertain.errors import InputRefused

from .codec import digest, encode
from .contract import LEVELS, Consistency, Contract
from .records import (
    AttemptReturned,
    Chain,
    EffectObserved,
    Entry,
    IntentRecorded,
    PostconditionChecked,
    ReceiptRecorded,
)

Plain = Any


class Seen(msgspec.Struct, frozen=True):
    """An effect is there, found by the action's identity.

    ``reference``: the provider's name for it. ``fields``: what it says of the declared
    parameters, as plain values, to be compared with the intent. ``reaches``: accepted,
    committed or settled. ``action_id``: the action that the record itself names.
    ``reversed_by``: what undid it later, if anything did. ``fingerprint``: as kept with
    it by a fence of ours.
    """

    reference: str | None
    fields: Mapping[str, Plain] | None = None
    reaches: str = "committed"
    action_id: str | None = None
    reversed_by: str | None = None
    version: str | None = None
    fingerprint: str | None = None
    result: Plain = None


class Declined(msgspec.Struct, frozen=True):
    """The authority recorded a refusal for good."""

    reason: str
    reference: str | None = None


class Absent(msgspec.Struct, frozen=True):
    """Nothing was found. ``as_of``: microseconds at which the source vouches for that."""

    as_of: int | None = None


class Unreadable(msgspec.Struct, frozen=True):
    """It could not be read: this proves nothing."""

    why: str


Reading = Seen | Declined | Absent | Unreadable


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """What came back from a release, as transport truth and as the contract's name for it.

    ``named``: the reply's name in the contract, "" where it names none.
    """

    transport: str
    named: str = ""
    reference: str | None = None
    reaches: str | None = None
    version: str | None = None
    result: Plain = None
    detail: str | None = None
    closed: bool = True


def add_reply(
    chain: Chain,
    *,
    release: Entry,
    intent: Entry,
    contract: Contract,
    reply: Reply,
    at: int,
) -> None:
    """Append the return of an attempt, and what its reply proves (DESIGN 4, step 4)."""
    action_id, number = release.record.action_id, release.record.number
    returned = chain.add(
        AttemptReturned(
            action_id=action_id,
            at=at,
            causes=(release.digest,),
            number=number,
            epoch=release.record.epoch,
            transport=reply.transport,
            reply=reply.named,
            detail=reply.detail,
            closed=reply.closed,
        )
    )
    level = contract.reaches.get(reply.named)
    if level is None:
        return
    level = reply.reaches or level
    effect = chain.add(
        EffectObserved(
            action_id=action_id,
            at=at,
            causes=(returned.digest, release.digest),
            state=level,
            source="reply",
            reference=reply.reference,
            number=number,
            matches=True,
            version=reply.version,
        )
    )
    chain.add(
        ReceiptRecorded(
            action_id=action_id,
            at=at,
            causes=(effect.digest, intent.digest),
            evidence="reply",
            source=contract.name,
            domain=contract.domain,
            observed_at=at,
            claim=level,
            reference=reply.reference,
            number=number,
            result=reply.result,
        )
    )


class Source(msgspec.Struct, frozen=True):
    """Who was asked: a name, its control domain and how consistent its reads are."""

    name: str
    domain: str
    consistency: Consistency


def add_readings(
    chain: Chain,
    *,
    intent: Entry,
    contract: Contract,
    fields: tuple[str, ...],
    source: Source,
    readings: tuple[Reading, ...],
    started: int,
    at: int,
) -> None:
    """Append what one look at authoritative state returned. ``started``: when it began."""
    for reading in readings:
        if isinstance(reading, Seen):
            _add_seen(chain, intent, contract, fields, source, reading, started, at)
        elif isinstance(reading, Declined):
            _add_declined(chain, intent, source, reading, at)
        else:
            _add_nothing(chain, intent, source, reading, started, at)


def _add_seen(
    chain: Chain,
    intent: Entry,
    contract: Contract,
    fields: tuple[str, ...],
    source: Source,
    seen: Seen,
    started: int,
    at: int,
) -> None:
    wanted: IntentRecorded = intent.record
    matches = compare(wanted, seen, contract.postcondition.fields or fields)
    effect = chain.add(
        EffectObserved(
            action_id=wanted.action_id,
            at=at,
            causes=(intent.digest,),
            state=seen.reaches,
            source=source.name,
            reference=seen.reference,
            matches=matches,
            version=seen.version,
        )
    )
    if seen.reversed_by is not None:
        chain.add(
            EffectObserved(
                action_id=wanted.action_id,
                at=at,
                causes=(effect.digest,),
                state="reversed",
                source=source.name,
                reference=seen.reference,
                undone_by=seen.reversed_by,
            )
        )
    chain.add(
        ReceiptRecorded(
            action_id=wanted.action_id,
            at=at,
            causes=(effect.digest, intent.digest),
            evidence="readback",
            source=source.name,
            domain=source.domain,
            observed_at=at,
            consistency=source.consistency.value,
            as_of=_vouched(source, started, None),
            claim=seen.reaches,
            about=seen.action_id,
            reference=seen.reference,
            digest=digest(encode({} if seen.fields is None else dict(seen.fields))),
            result=seen.result,
        )
    )
    chain.add(
        PostconditionChecked(
            action_id=wanted.action_id,
            at=at,
            causes=(effect.digest, intent.digest),
            predicate=contract.postcondition.name,
            version=contract.postcondition.version,
            holds=matches,
            reference=seen.reference,
        )
    )


def compare(wanted: IntentRecorded, seen: Seen, fields: tuple[str, ...]) -> bool | None:
    """Does what was seen correspond to the intent? None: not everything could be compared.

    Any difference is False, also where something else is missing: amount, time and
    customer are clues, and a clue that disagrees is a disagreement.
    """
    if seen.action_id is not None and seen.action_id != wanted.action_id:
        return False
    shown = {} if seen.fields is None else seen.fields
    known = [name for name in fields if name in shown]
    # By their bytes: true is not 1.
    if any(encode(shown[name]) != encode(wanted.parameters.get(name)) for name in known):
        return False
    if seen.fingerprint is not None:
        return seen.fingerprint == wanted.fingerprint
    return True if seen.fields is not None and len(known) == len(fields) else None


def _add_declined(chain: Chain, intent: Entry, source: Source, declined: Declined, at: int) -> None:
    effect = chain.add(
        EffectObserved(
            action_id=intent.record.action_id,
            at=at,
            causes=(intent.digest,),
            state="rejected",
            source=source.name,
            reference=declined.reference,
            detail=declined.reason,
        )
    )
    chain.add(
        ReceiptRecorded(
            action_id=intent.record.action_id,
            at=at,
            causes=(effect.digest, intent.digest),
            evidence="readback",
            source=source.name,
            domain=source.domain,
            observed_at=at,
            consistency=source.consistency.value,
            claim="rejected",
            detail=declined.reason,
        )
    )


def _add_nothing(
    chain: Chain,
    intent: Entry,
    source: Source,
    reading: Absent | Unreadable,
    started: int,
    at: int,
) -> None:
    absent = isinstance(reading, Absent)
    chain.add(
        ReceiptRecorded(
            action_id=intent.record.action_id,
            at=at,
            causes=(intent.digest,),
            evidence="absence" if absent else "unreadable",
            source=source.name,
            domain=source.domain,
            observed_at=at,
            consistency=source.consistency.value,
            as_of=_vouched(source, started, reading.as_of) if isinstance(reading, Absent) else None,
            detail=None if isinstance(reading, Absent) else _text(reading.why),
        )
    )


def _vouched(source: Source, started: int, as_of: int | None) -> int | None:
    """A read vouches for the time at which it began, never for a later one."""
    if source.consistency is Consistency.EVENTUAL:
        return None
    return started if as_of is None else min(as_of, started)


def check_reading(reading: object) -> Reading:
    """The reading, or Unreadable where an observer returned something else."""
    if isinstance(reading, Seen) and reading.reaches not in LEVELS:
        return Unreadable(f"the observer says that it reaches {reading.reaches!r}")
    if isinstance(reading, Seen | Declined | Absent | Unreadable):
        why = _unkeepable(reading)
        return reading if why is None else Unreadable(f"what it returned cannot be kept: {why}")
    kind = type(reading).__name__
    return Unreadable(f"the observer returned {kind}, not Seen, Declined, Absent or Unreadable")


def _unkeepable(reading: Reading) -> str | None:
    """Why no record can hold the reading, or None. Evidence must never fail to be written."""
    try:
        plain = msgspec.structs.asdict(reading)
        if plain.get("fields") is not None:
            plain["fields"] = dict(plain["fields"])
        msgspec.convert(plain, type(reading))
        encode(plain)
    except (InputRefused, msgspec.ValidationError, TypeError, ValueError) as error:
        return _text(str(error))[:300]
    return None


def _text(text: str) -> str:
    """The text without what UTF-8 cannot hold."""
    return text.encode("utf-8", "replace").decode("utf-8")
