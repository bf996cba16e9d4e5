"""An intent as it stands in the journal, presented again: for recovery, not for a caller."""

from __future__ import annotations

from ascertain.core.cut import View
from ascertain.core.records import Entry, IntentRecorded
from ascertain.declaration import SUFFIX, ActionType, compensating_type
from ascertain.errors import RecoveryRefused
from ascertain.observers import Question
from ascertain.presented import Intent, Precondition, Presented
from ascertain.runtime import Runtime


def declared_type(runtime: Runtime, name: str) -> ActionType:
    """The declared action type. Raises RecoveryRefused where it is not loaded."""
    known = runtime.types.get(name)
    if known is None and name.endswith(SUFFIX):
        base = runtime.types.get(name.removesuffix(SUFFIX))
        if base is not None and base.compensator is not None:
            return compensating_type(base, base.compensator)
    if known is None:
        raise RecoveryRefused(
            f"the action type {name!r} is not declared here",
            fix="Load the module that declares it: --app module:object, or import it first.",
        )
    return known


def present_again(runtime: Runtime, root_id: str, view: View, declared: ActionType) -> Presented:
    """The recorded intent under the contract that it was recorded with."""
    record = intent_of(view).record
    wanted = Intent(
        execution_id=record.execution_id,
        step_id=record.step_id,
        version=record.version,
        subject=record.subject,
        purpose=record.purpose,
        approver=record.approver,
    )
    return Presented(
        declared,
        runtime.contract(record.contract),
        record.action_id,
        root_id,
        record.parameters,
        wanted,
        record.fingerprint,
        b"",
        record.payload_hash,
        record.key_id,
        asked_preconditions(view),
        record.needs,
        record.compensates,
        None,
        record.approver,
    )


def intent_of(view: View) -> Entry:
    """The newest intent's entry. Raises RecoveryRefused where none is recorded."""
    if not view.intents:
        raise RecoveryRefused(
            f"action {view.action_id!r} has no intent in the journal",
            fix="Run `ascertain journal check`.",
        )
    return view.intents[-1]


def asked_preconditions(view: View) -> tuple[Precondition, ...]:
    """What the last attempt, or the last refusal, was asked to stand on."""
    asked: dict[tuple[str, str], Precondition] = {}
    for entry in view.preconditions:
        record = entry.record
        asked[record.resource, record.predicate] = Precondition(
            record.resource,
            record.predicate,
            record.version,
            guard=record.guard,
            fresh_for=record.fresh_for,
        )
    return tuple(asked.values())


def question_of(view: View, declared: ActionType) -> Question:
    """What an observer is asked about the recorded action."""
    record: IntentRecorded = intent_of(view).record
    release = view.last_release
    return Question(
        record.action_id,
        record.action_type,
        record.action_id if release is None else release.record.key,
        declared.parameters.decode(record.parameters),
        None if release is None else release.record.fence,
        record.fingerprint,
        record.execution_id,
        record.step_id,
    )
