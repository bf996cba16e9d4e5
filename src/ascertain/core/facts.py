"""The closed facts that a recovery decision is made from (DESIGN 7).

A fact is a member of a closed enum or a Boolean; there is no free text and no
number among them, so that the decision table can be shown to be total. How they
follow from a cut is in :mod:`ascertain.core.judgement`.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple


class Closure(Enum):
    """Is the cut causally closed? Surplus and denied effects are in `Effects`."""

    CLOSED = "closed"
    CAUSE_MISSING = "cause_missing"
    MISMATCH = "mismatch"


class Finding(Enum):
    """The outcome, as finely as the decision needs it."""

    APPLIED_FINAL = "applied_final"
    APPLIED_SHORT = "applied_short"
    APPLIED_PROVISIONAL = "applied_provisional"
    APPLIED_REVERSED = "applied_reversed"
    REJECTED = "rejected"
    NOT_APPLIED = "not_applied"
    NOT_APPLIED_SEALED = "not_applied_sealed"
    CONFLICT = "conflict"
    UNKNOWN = "unknown"


class Effects(Enum):
    """How many effects the evidence proves for the action."""

    NONE = "none"
    ONE = "one"
    SURPLUS = "surplus"
    DENIED = "denied"  # an effect under an explicit deny


class Compensation(Enum):
    """What became of the compensation of every effect that asks for one."""

    NONE = "none"
    OPEN = "open"
    APPLIED = "applied"
    FAILED = "failed"


class Needs(Enum):
    """The actions that this one needs, taken together."""

    MET = "met"
    OPEN = "open"
    BROKEN = "broken"


class Preconditions(Enum):
    """Looked at again now; `HOLD` also where none is asked or the provider guards them."""

    HOLD = "hold"
    BROKEN = "broken"
    UNVERIFIED = "unverified"


class Decision(Enum):
    """What recovery may do (seed 000, fifth move)."""

    EXECUTE = "execute"
    ADOPT = "adopt"
    VERIFY = "verify"
    REAUTHORISE = "reauthorise"
    COMPENSATE = "compensate"
    QUARANTINE = "quarantine"


class Facts(NamedTuple):
    """Everything `decide` looks at.

    ``exact``: every effect to be compensated is identified by an exact reference.
    ``settled``: every other attempt is settled, so no further effect can land.
    ``sources``: the record sources are complete and of one incarnation.
    ``more``: more evidence is to be had within the budget (outcome, preconditions,
    needs, compensation, or a breaker that will close again).
    ``replay``: sending the same key and bytes again is safe by contract.
    ``authority``: a fresh effect is allowed now. ``observe``, ``proceed`` and
    ``counteract``: the capabilities observe, continue and compensate are held.
    """

    closure: Closure = Closure.CLOSED
    finding: Finding = Finding.UNKNOWN
    effects: Effects = Effects.NONE
    exact: bool = True
    settled: bool = True
    sources: bool = True
    compensation: Compensation = Compensation.NONE
    needs: Needs = Needs.MET
    more: bool = True
    replay: bool = False
    authority: bool = True
    observe: bool = True
    proceed: bool = True
    counteract: bool = True
    preconditions: Preconditions = Preconditions.HOLD
    compensator: bool = False
    attempts_left: bool = True
    breaker_open: bool = False


_TYPES: dict[str, tuple[object, ...]] = {
    "closure": tuple(Closure),
    "finding": tuple(Finding),
    "effects": tuple(Effects),
    "compensation": tuple(Compensation),
    "needs": tuple(Needs),
    "preconditions": tuple(Preconditions),
}

DOMAINS: dict[str, tuple[object, ...]] = {
    name: _TYPES.get(name, (True, False)) for name in Facts._fields
}
"""Each fact's closed set of values, in the order of `Facts`."""
