"""The Authority protocol: who may do what, asked afresh each time (DESIGN 8, third move).

An authority decides on one action and grants capabilities to recover it. It is asked,
never assumed: an old allow does not permit a new effect, and recovery cannot extend
what it was granted.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

VERBS = ("observe", "continue", "compensate", "quarantine")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """What is to be decided. ``parameters``: plain values. ``now``: microseconds."""

    action_id: str
    action_type: str
    subject: str
    purpose: str
    parameters: dict[str, Any]
    consequence: str
    approver: str | None
    now: int


class Ruling(msgspec.Struct, frozen=True, kw_only=True):
    """A decision on one action. Microseconds; ``valid_until`` is inclusive.

    ``decision_id``: unique; one that starts with ``<action_id>/`` belongs to that action.
    ``action_id``: what it was made for; None with ``uses`` as an explicit count limit.
    """

    outcome: str
    decision_id: str
    actor: str
    policy_version: str
    valid_from: int
    valid_until: int
    action_id: str | None
    approver: str | None = None
    limits: dict[str, int] = {}
    uses: int = 1
    reason: str | None = None
    credential_digest: str | None = None


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """A capability for one verb of recovery, scoped to one action and bounded in time."""

    verb: str
    capability_id: str
    actor: str
    scope: str
    valid_until: int
    policy_version: str


class Authority(Protocol):
    """Decides. An error while asking is a deny, and is recorded as one."""

    def decide(self, request: Request) -> Ruling:
        """May this action take effect now?"""

    def grants(self, request: Request) -> tuple[Grant, ...]:
        """Which capabilities does whoever recovers it hold now?"""
