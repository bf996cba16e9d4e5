"""Ascertain: know what happened before you act again.

The public names; what they mean is said where they are defined. Each is loaded when it is
first asked for, so that `import ascertain` and the command start at once.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ascertain import contracts
    from ascertain.authority import Authority, Grant, Request, Ruling
    from ascertain.authority.limits import limits
    from ascertain.core.contract import (
        DAY,
        FOR_EVER,
        HOUR,
        MINUTE,
        SECOND,
        Consequence,
        Consistency,
        Contract,
        Evidence,
        InFlight,
        Key,
        Observation,
        Postcondition,
        Readback,
        Replies,
        Retention,
        Reversibility,
        Scope,
        Seal,
        Success,
        Surface,
    )
    from ascertain.core.evidence import Absent, Declined, Seen, Unreadable
    from ascertain.core.records import Need
    from ascertain.errors import AscertainError, IntentConflict, NotVerified
    from ascertain.observers import Question
    from ascertain.observers.marker import sqlalchemy_marker, sqlite_marker
    from ascertain.opened import Action, Ascertain
    from ascertain.opening import open_journal as open
    from ascertain.outcomes import (
        Applied,
        Conflict,
        NotApplied,
        Outcome,
        Pending,
        Receipt,
        Rejected,
        Reversed,
        Unknown,
    )
    from ascertain.presented import Intent, Precondition
    from ascertain.recovery.controller import Recovered
    from ascertain.reply import Done, NoEffect, Refusal

__version__ = "0.1.0"

__all__ = [
    "DAY",
    "FOR_EVER",
    "HOUR",
    "MINUTE",
    "SECOND",
    "Absent",
    "Action",
    "Applied",
    "Ascertain",
    "AscertainError",
    "Authority",
    "Conflict",
    "Consequence",
    "Consistency",
    "Contract",
    "Declined",
    "Done",
    "Evidence",
    "Grant",
    "InFlight",
    "Intent",
    "IntentConflict",
    "Key",
    "Need",
    "NoEffect",
    "NotApplied",
    "NotVerified",
    "Observation",
    "Outcome",
    "Pending",
    "Postcondition",
    "Precondition",
    "Question",
    "Readback",
    "Receipt",
    "Recovered",
    "Refusal",
    "Rejected",
    "Replies",
    "Request",
    "Retention",
    "Reversed",
    "Reversibility",
    "Ruling",
    "Scope",
    "Seal",
    "Seen",
    "Success",
    "Surface",
    "Unknown",
    "Unreadable",
    "contracts",
    "limits",
    "open",
    "sqlalchemy_marker",
    "sqlite_marker",
]

_HOMES = {
    "ascertain.authority": "Authority Grant Request Ruling",
    "ascertain.authority.limits": "limits",
    "ascertain.core.contract": (
        "DAY FOR_EVER HOUR MINUTE SECOND Consequence Consistency Contract Evidence InFlight "
        "Key Observation Postcondition Readback Replies Retention Reversibility Scope Seal "
        "Success Surface"
    ),
    "ascertain.core.evidence": "Absent Declined Seen Unreadable",
    "ascertain.core.records": "Need",
    "ascertain.errors": "AscertainError IntentConflict NotVerified",
    "ascertain.observers": "Question",
    "ascertain.observers.marker": "sqlalchemy_marker sqlite_marker",
    "ascertain.opened": "Action Ascertain",
    "ascertain.outcomes": (
        "Applied Conflict NotApplied Outcome Pending Receipt Rejected Reversed Unknown"
    ),
    "ascertain.presented": "Intent Precondition",
    "ascertain.recovery.controller": "Recovered",
    "ascertain.reply": "Done NoEffect Refusal",
}
"""The module of each public name, where both have the same name for it."""

_PLACES: dict[str, tuple[str, str]] = {
    name: (home, name) for home, names in _HOMES.items() for name in names.split()
} | {"open": ("ascertain.opening", "open_journal")}


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name == "contracts":
            return import_module("ascertain.contracts")
        if name not in _PLACES:
            raise AttributeError(f"module 'ascertain' has no attribute {name!r}")
        home, named = _PLACES[name]
        found = globals()[name] = getattr(import_module(home), named)
        return found
