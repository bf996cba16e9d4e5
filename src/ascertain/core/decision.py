"""The decision table: rows of closed facts, each with one decision and a reason.

`decide` is pure and total: the rows are disjoint and together cover every
combination of facts, which the tests show by volume and by enumeration. A fact
that a row does not name may have any value. Rules: DESIGN 7, seed 000 "six moves",
seed 001 "disciplined recovery loop".

Every *verify* asks for more evidence to be had (else quarantine) and for the
capability to observe (else reauthorise), so it is written once, in `_verify`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from .facts import (
    DOMAINS,
    Closure,
    Compensation,
    Decision,
    Effects,
    Facts,
    Finding,
    Needs,
    Preconditions,
)

F = Finding
APPLIED = (F.APPLIED_FINAL, F.APPLIED_SHORT, F.APPLIED_PROVISIONAL, F.APPLIED_REVERSED)
STANDING = (F.APPLIED_FINAL, F.APPLIED_SHORT, F.APPLIED_PROVISIONAL)
WITHOUT_EFFECT = (F.REJECTED, F.NOT_APPLIED, F.NOT_APPLIED_SEALED, F.UNKNOWN)
SOME = (Effects.ONE, Effects.SURPLUS, Effects.DENIED)
MADE = (Compensation.OPEN, Compensation.APPLIED, Compensation.FAILED)


@dataclass(frozen=True, slots=True)
class Row:
    """One row: ``when`` maps a fact to the values for which the row holds."""

    name: str
    decision: Decision
    reason: str
    when: dict[str, tuple[object, ...]]

    def matches(self, facts: Facts) -> bool:
        """Does every named fact have one of the row's values?"""
        return all(getattr(facts, name) in values for name, values in self.when.items())


def _row(name: str, decision: Decision, reason: str, **when: Any) -> Row:
    known = {fact: value if isinstance(value, tuple) else (value,) for fact, value in when.items()}
    return Row(name, decision, reason, {fact: known[fact] for fact in DOMAINS if fact in known})


def _verify(name: str, reason: str, otherwise: str, **when: Any) -> Iterator[Row]:
    yield _row(name, Decision.VERIFY, reason, more=True, observe=True, **when)
    yield _row(
        f"{name}/unobserved",
        Decision.REAUTHORISE,
        f"{reason}, but the capability to observe has lapsed",
        more=True,
        observe=False,
        **when,
    )
    yield _row(f"{name}/exhausted", Decision.QUARANTINE, otherwise, more=False, **when)


def _contradictions() -> Iterator[Row]:
    q = Decision.QUARANTINE
    yield _row(
        "contradiction/applied-uncounted",
        q,
        "an applied outcome stands beside no effect, or beside several: a person must look",
        finding=APPLIED,
        effects=(Effects.NONE, Effects.SURPLUS),
    )
    yield _row(
        "contradiction/effect-denied-by-outcome",
        q,
        "an effect is proved and the outcome says that there is none: a person must look",
        finding=WITHOUT_EFFECT,
        effects=SOME,
    )
    yield _row(
        "contradiction/compensated-nothing",
        q,
        "a compensation stands beside no proved effect: a person must look",
        finding=(*WITHOUT_EFFECT, F.CONFLICT),
        effects=Effects.NONE,
        compensation=MADE,
    )
    yield _row(
        "contradiction/compensated-standing",
        q,
        "the one effect was compensated and still counts as standing: a person must look",
        finding=(*STANDING, F.CONFLICT),
        effects=Effects.ONE,
        compensation=Compensation.APPLIED,
    )


def _compensations() -> Iterator[Row]:
    proved: dict[str, dict[str, Any]] = {
        "applied": {"finding": APPLIED, "effects": (Effects.ONE, Effects.DENIED)},
        "conflict": {"finding": F.CONFLICT, "effects": SOME},
    }
    for which, when in proved.items():
        yield from _verify(
            f"compensation-open/{which}",
            "a compensation is under way: find out what became of it",
            "a compensation is unresolved and nothing more can be learnt",
            compensation=Compensation.OPEN,
            **when,
        )
        yield _row(
            f"compensation-failed/{which}",
            Decision.QUARANTINE,
            "the compensation failed: a person must decide",
            compensation=Compensation.FAILED,
            **when,
        )
    yield _row(
        "compensated/surplus",
        Decision.ADOPT,
        "every surplus effect is compensated and one valid effect is left: it is the one",
        finding=F.CONFLICT,
        effects=Effects.SURPLUS,
        compensation=Compensation.APPLIED,
    )
    yield _row(
        "compensated/denied",
        Decision.ADOPT,
        "the effect that was denied is compensated: closed, and what needs it is broken",
        finding=(*APPLIED, F.CONFLICT),
        effects=Effects.DENIED,
        compensation=Compensation.APPLIED,
    )


def _unearned(which: str, finding: Any, effects: Effects) -> Iterator[Row]:
    """Surplus effects, or one under an explicit deny, without a compensation so far."""
    when: dict[str, Any] = {
        "finding": finding,
        "effects": effects,
        "compensation": Compensation.NONE,
    }
    ready = when | {"settled": True, "sources": True, "exact": True, "compensator": True}
    yield _row(
        f"{which}/compensate",
        Decision.COMPENSATE,
        "exactly these effects must not stand, and a compensator is defined",
        counteract=True,
        **ready,
    )
    yield _row(
        f"{which}/capability-lapsed",
        Decision.REAUTHORISE,
        "exactly these effects must not stand, but the capability to compensate has lapsed",
        counteract=False,
        **ready,
    )
    yield from _verify(
        f"{which}/unsettled",
        "effects must not stand, but another attempt can still land: look again",
        "effects must not stand and another attempt stays unsettled: a person must decide",
        settled=False,
        **when,
    )
    short = (
        ("sources", {"sources": False}),
        ("inexact", {"sources": True, "exact": False}),
        ("no-compensator", {"sources": True, "exact": True, "compensator": False}),
    )
    for name, lacking in short:
        yield from _verify(
            f"{which}/{name}/cause-missing",
            "effects must not stand and a cause is missing: look for it",
            "effects must not stand, a cause is missing and nothing more can be learnt",
            closure=Closure.CAUSE_MISSING,
            settled=True,
            **when,
            **lacking,
        )
        yield _row(
            f"{which}/{name}",
            Decision.QUARANTINE,
            "effects must not stand and cannot be compensated safely: a person must decide",
            closure=(Closure.CLOSED, Closure.MISMATCH),
            settled=True,
            **when,
            **lacking,
        )


def _open_cuts() -> Iterator[Row]:
    """Cuts that are not closed, and the conflicts that nothing above resolves."""
    groups: tuple[tuple[str, dict[str, Any]], ...] = (
        ("one", {"finding": STANDING, "effects": Effects.ONE, "compensation": Compensation.NONE}),
        (
            "reversed",
            {
                "finding": F.APPLIED_REVERSED,
                "effects": Effects.ONE,
                "compensation": (Compensation.NONE, Compensation.APPLIED),
            },
        ),
        (
            "reversed-denied",
            {
                "finding": F.APPLIED_REVERSED,
                "effects": Effects.DENIED,
                "compensation": Compensation.NONE,
            },
        ),
        (
            "none",
            {"finding": WITHOUT_EFFECT, "effects": Effects.NONE, "compensation": Compensation.NONE},
        ),
        (
            "conflict",
            {
                "finding": F.CONFLICT,
                "effects": (Effects.NONE, Effects.ONE),
                "compensation": Compensation.NONE,
            },
        ),
    )
    for name, when in groups:
        yield from _verify(
            f"cause-missing/{name}",
            "a cause is missing and nothing disagrees: look for it",
            "a cause is missing and nothing more can be learnt; a missing record is not a no",
            closure=Closure.CAUSE_MISSING,
            **when,
        )
        disagree = Closure.MISMATCH if name != "conflict" else (Closure.MISMATCH, Closure.CLOSED)
        yield _row(
            f"mismatch/{name}",
            Decision.QUARANTINE,
            "the evidence disagrees: a person must look",
            closure=disagree,
            **when,
        )


def _applied() -> Iterator[Row]:
    closed: dict[str, Any] = {"closure": Closure.CLOSED, "effects": Effects.ONE}
    none = {"compensation": Compensation.NONE}
    undone = "the effect happened and was undone later: closed, and what needs it is broken"
    yield _row(
        "applied/reversed",
        Decision.ADOPT,
        undone,
        finding=F.APPLIED_REVERSED,
        compensation=(Compensation.NONE, Compensation.APPLIED),
        **closed,
    )
    yield _row(
        "applied/reversed-denied",
        Decision.ADOPT,
        undone,
        closure=Closure.CLOSED,
        finding=F.APPLIED_REVERSED,
        effects=Effects.DENIED,
        **none,
    )
    yield _row(
        "applied/final",
        Decision.ADOPT,
        "the effect happened once, as intended, with the evidence asked for",
        finding=F.APPLIED_FINAL,
        **closed,
        **none,
    )
    yield from _verify(
        "applied/short",
        "the effect is there, the evidence asked for is not",
        "the effect is there and the evidence asked for cannot be had",
        finding=F.APPLIED_SHORT,
        **closed,
        **none,
    )
    yield from _verify(
        "applied/provisional",
        "the effect has not reached the transition that counts: look again",
        "the effect never reached the transition that counts",
        finding=F.APPLIED_PROVISIONAL,
        **closed,
        **none,
    )


CLEAR: dict[str, Any] = {
    "closure": Closure.CLOSED,
    "effects": Effects.NONE,
    "compensation": Compensation.NONE,
}


def _without_effect() -> Iterator[Row]:
    yield _row(
        "rejected",
        Decision.ADOPT,
        "the provider refused for good: nothing is sent again under this action",
        finding=F.REJECTED,
        **CLEAR,
    )
    yield _row(
        "not-applied/sealed",
        Decision.REAUTHORISE,
        "it did not happen and cannot any more: a new intent needs a new action id",
        finding=F.NOT_APPLIED_SEALED,
        **CLEAR,
    )
    absent = CLEAR | {"finding": F.NOT_APPLIED}
    yield from _verify(
        "not-applied/needs-open",
        "an action that it needs is unresolved",
        "an action that it needs cannot be resolved",
        needs=Needs.OPEN,
        **absent,
    )
    yield _row(
        "not-applied/needs-broken",
        Decision.REAUTHORISE,
        "an action that it needs did not happen, or was undone",
        needs=Needs.BROKEN,
        **absent,
    )
    absent = absent | {"needs": Needs.MET}
    yield _row(
        "not-applied/authority-lapsed",
        Decision.REAUTHORISE,
        "it did not happen, and nothing allows it now",
        authority=False,
        **absent,
    )
    yield _row(
        "not-applied/continue-lapsed",
        Decision.REAUTHORISE,
        "it did not happen, and the capability to continue has lapsed",
        authority=True,
        proceed=False,
        **absent,
    )
    yield from _releasable(absent | {"authority": True, "proceed": True})


def _releasable(absent: dict[str, Any]) -> Iterator[Row]:
    """It did not happen, and a fresh effect is allowed."""
    yield _row(
        "not-applied/precondition-broken",
        Decision.REAUTHORISE,
        "it did not happen, and what it depended on has changed",
        preconditions=Preconditions.BROKEN,
        **absent,
    )
    yield from _verify(
        "not-applied/precondition-unverified",
        "it did not happen; look first whether its preconditions still hold",
        "it did not happen, and its preconditions cannot be verified",
        preconditions=Preconditions.UNVERIFIED,
        **absent,
    )
    absent = absent | {"preconditions": Preconditions.HOLD}
    yield _row(
        "not-applied/attempts-used",
        Decision.QUARANTINE,
        "it did not happen, and no attempt is left",
        attempts_left=False,
        **absent,
    )
    yield _row(
        "not-applied/execute",
        Decision.EXECUTE,
        "it did not happen, it is allowed now, and its preconditions hold",
        attempts_left=True,
        breaker_open=False,
        **absent,
    )
    yield from _verify(
        "not-applied/breaker-open",
        "it may run again when the breaker closes",
        "the breaker stays open and no look is left",
        attempts_left=True,
        breaker_open=True,
        **absent,
    )


def _unknown() -> Iterator[Row]:
    unknown = CLEAR | {"finding": F.UNKNOWN}
    yield _row(
        "unknown/verify",
        Decision.VERIFY,
        "it is not known whether it happened, and there is more to learn",
        more=True,
        observe=True,
        **unknown,
    )
    yield _row(
        "unknown/verify/unobserved",
        Decision.REAUTHORISE,
        "it is not known whether it happened, and the capability to observe has lapsed",
        more=True,
        observe=False,
        **unknown,
    )
    unknown = unknown | {"more": False}
    yield _row(
        "unknown/authority-lapsed",
        Decision.REAUTHORISE,
        "it is not known whether it happened, and nothing allows another attempt",
        authority=False,
        **unknown,
    )
    yield _row(
        "unknown/continue-lapsed",
        Decision.REAUTHORISE,
        "it is not known whether it happened, and the capability to continue has lapsed",
        authority=True,
        proceed=False,
        **unknown,
    )
    yield from _replayable(unknown | {"authority": True, "proceed": True})


def _replayable(unknown: dict[str, Any]) -> Iterator[Row]:
    """It is not known, nothing more can be learnt, and a fresh effect is allowed."""
    # Each stop, and what holds where it does not.
    stops: tuple[tuple[str, str, dict[str, Any], dict[str, Any]], ...] = (
        (
            "no-safe-replay",
            "nothing more can be learnt and no replay is safe",
            {"replay": False},
            {"replay": True},
        ),
        (
            "precondition",
            "a replay would be safe, but its preconditions do not hold",
            {"preconditions": (Preconditions.BROKEN, Preconditions.UNVERIFIED)},
            {"preconditions": Preconditions.HOLD},
        ),
        (
            "needs",
            "a replay would be safe, but what it needs is not there",
            {"needs": (Needs.OPEN, Needs.BROKEN)},
            {"needs": Needs.MET},
        ),
        (
            "attempts-used",
            "a replay would be safe, but no attempt is left",
            {"attempts_left": False},
            {"attempts_left": True},
        ),
        (
            "breaker-open",
            "a replay would be safe, but the breaker stays open",
            {"breaker_open": True},
            {"breaker_open": False},
        ),
    )
    for name, reason, stop, otherwise in stops:
        yield _row(f"unknown/{name}", Decision.QUARANTINE, reason, **unknown, **stop)
        unknown = unknown | otherwise
    yield _row(
        "unknown/replay",
        Decision.EXECUTE,
        "sending the same key and bytes returns the first result, whatever it was",
        **unknown,
    )


TABLE: tuple[Row, ...] = (
    *_contradictions(),
    *_compensations(),
    *_unearned("surplus", F.CONFLICT, Effects.SURPLUS),
    *_unearned("denied", (*STANDING, F.CONFLICT), Effects.DENIED),
    *_open_cuts(),
    *_applied(),
    *_without_effect(),
    *_unknown(),
)
"""Every row. Exactly one matches any combination of facts."""

ROWS: dict[str, Row] = {row.name: row for row in TABLE}


@lru_cache(maxsize=8192)
def decide(facts: Facts) -> Row:
    """The one row that matches, with its decision and reason. Total; never raises."""
    return next(row for row in TABLE if row.matches(facts))
