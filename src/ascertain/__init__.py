"""Ascertain: know what happened before you act again.

The public names; what they mean is said where they are defined.
"""

from __future__ import annotations

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
