"""An intent as it is presented: checked, encoded, fingerprinted; nothing of it has happened."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import msgspec

from ascertain.core.codec import (
    MAX_INTEGER,
    FingerprintKey,
    encode,
    encode_checked,
    fingerprint,
    keyed,
)
from ascertain.core.contract import Contract
from ascertain.core.records import IntentRecorded, Need
from ascertain.declaration import ActionType, plain_of
from ascertain.errors import InputRefused
from ascertain.options import check_preconditions, check_text, check_time


class Keys(NamedTuple):
    """The keys of the journal's fingerprints: the one in use, and all that are known by id."""

    active: FingerprintKey
    secrets: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """What is wanted and on whose behalf; what is left out is taken from the call.

    ``execution_id`` and ``step_id`` are attributes, never part of a key. ``version``
    counts from 1. ``approver``: who approved it, if anybody did. ``tolerance`` and
    ``constraints``: kept with the intent, for the people who read it.
    """

    execution_id: str | None = None
    step_id: str | None = None
    version: int = 1
    subject: str = "unspecified"
    purpose: str | None = None
    approver: str | None = None
    tolerance: str | None = None
    constraints: Mapping[str, Any] | None = None
    supersedes: str | None = None


@dataclass(frozen=True, slots=True)
class Precondition:
    """A versioned fact that the action depends on.

    ``version``: the one it must be at. ``observe(resource)`` returns the present one; if it
    is left out, the action type's observer for ``predicate`` is asked, and if there is none,
    the caller's word is recorded, as of ``observed_at`` (now, if it is left out; microseconds).
    ``fresh_for``: how old the look may be when the action is released. ``guard``: it travels
    with the request as a write guard.
    """

    resource: str
    predicate: str
    version: str
    observe: Callable[[str], str] | None = None
    guard: bool = False
    fresh_for: int | None = None
    observed_at: int | None = None


class Presented(msgspec.Struct, frozen=True):
    """Everything about one call of `perform` that does not depend on the journal."""

    declared: ActionType
    contract: Contract
    action_id: str
    root_id: str
    plain: dict[str, Any]
    intent: Intent
    fingerprint: str
    meaning: bytes
    payload_hash: str
    key_id: str
    preconditions: tuple[Precondition, ...] = ()
    needs: tuple[Need, ...] = ()
    compensates: str | None = None
    deadline: int | None = None
    approver: str | None = None

    @property
    def subject(self) -> str:
        """On whose behalf."""
        return self.intent.subject

    @property
    def purpose(self) -> str:
        """What for; the action type's name if the intent does not say."""
        return self.intent.purpose or self.declared.name

    @property
    def target(self) -> str:
        """What is acted upon."""
        named = self.plain.get(self.declared.target)
        return named if isinstance(named, str) else self.declared.target

    def record(self, at: int, incarnation: str) -> IntentRecorded:
        """The intent record."""
        intent = self.intent
        return IntentRecorded(
            action_id=self.action_id,
            at=at,
            action_type=self.declared.name,
            execution_id=intent.execution_id or self.action_id,
            step_id=intent.step_id or self.declared.name,
            version=intent.version,
            subject=self.subject,
            purpose=self.purpose,
            target=self.target,
            parameters=self.plain,
            fingerprint=self.fingerprint,
            payload_hash=self.payload_hash,
            key_id=self.key_id,
            contract=self.contract.digest,
            incarnation=incarnation,
            approver=intent.approver,
            tolerance=intent.tolerance,
            constraints=dict(intent.constraints or {}),
            supersedes=intent.supersedes,
            compensates=self.compensates,
            needs=self.needs,
        )


def check_id(action_id: object) -> str:
    """An action id: 1 to 200 printable characters. Raises InputRefused."""
    if not isinstance(action_id, str) or not 0 < len(action_id) <= 200:
        raise InputRefused(
            f"{action_id!r} is not an action id",
            fix="Give a business key as text, 1 to 200 characters: an order or payment number.",
        )
    if not action_id.isprintable():
        raise InputRefused(
            f"action id {action_id!r} has characters that do not print",
            fix="Give a business key of printable characters.",
        )
    return action_id


def _check_intent(intent: Intent) -> None:
    if not isinstance(intent, Intent):
        raise InputRefused(f"intent is {intent!r}"[:200], fix="Write intent=Intent(…).")
    check_text("intent.subject", intent.subject)
    for name in ("execution_id", "step_id", "purpose", "approver", "tolerance", "supersedes"):
        check_text(f"intent.{name}", getattr(intent, name), optional=True)
    if type(intent.version) is not int or not 1 <= intent.version <= MAX_INTEGER:
        raise InputRefused(
            f"intent.version is {intent.version!r}"[:200], fix="Versions are integers from 1 on."
        )
    if intent.constraints is not None:
        if not isinstance(intent.constraints, Mapping):
            raise InputRefused(
                f"intent.constraints is {intent.constraints!r}"[:200], fix="Give a dict, or None."
            )
        encode(dict(intent.constraints))


_NO_INTENT = Intent()


def present(
    declared: ActionType,
    keys: Keys,
    action_id: str,
    given: Mapping[str, Any],
    *,
    intent: Intent | None = None,
    preconditions: Sequence[Precondition] = (),
    needs: Sequence[Need] = (),
    deadline: int | None = None,
    contract: Contract | None = None,
    root_id: str | None = None,
    compensates: str | None = None,
) -> Presented:
    """Check and fingerprint a call. Raises InputRefused kinds; nothing is written.

    The fingerprint covers what makes it this intent: type, subject, purpose, version and
    the declared parameters; the payload hash, all parameters. Both are keyed (DESIGN 2).
    """
    check_id(action_id)
    wanted = _NO_INTENT if intent is None else intent
    if wanted is not _NO_INTENT:
        _check_intent(wanted)
    if preconditions:
        check_preconditions(preconditions)
    check_time("deadline", deadline)
    plain = plain_of(declared, given)
    named = {name: plain[name] for name in declared.fingerprint if name in plain}
    key = keys.active
    meaning = encode_checked(
        {
            "compensates": compensates,
            "parameters": named,
            "purpose": wanted.purpose or declared.name,
            "subject": wanted.subject,
            "type": declared.name,
            "version": wanted.version,
        }
    )
    return Presented(
        declared,
        contract or declared.contract,
        action_id,
        root_id or action_id,
        plain,
        wanted,
        fingerprint(key, meaning),
        meaning,
        keyed(key.secret, encode_checked(plain)),
        key.key_id,
        tuple(preconditions),
        tuple(needs),
        compensates,
        deadline,
        wanted.approver,
    )
