"""Compensation: a second effect, linked to the first and authorised on its own (DESIGN 8).

It is an action of the same lineage. Its id follows from the action and the effect's
reference, so that doing it again is the same action. The first effect's records stay.
"""

from __future__ import annotations

from functools import partial

from ascertain.authority import Authority
from ascertain.core.codec import digest, encode
from ascertain.core.contract import Contract
from ascertain.core.cut import Cut, View
from ascertain.core.facts import Compensation, Finding
from ascertain.core.outcome import Proved, outcome
from ascertain.core.records import Chain, CompensationLinked, EffectObserved, Entry
from ascertain.declaration import SUFFIX, ActionType, Compensator, compensating_type
from ascertain.errors import RecoveryRefused, StaleEpoch
from ascertain.journal import ActionRow, Transaction
from ascertain.ports import Steps
from ascertain.presented import Intent, Presented, present
from ascertain.runtime import Runtime

from .known import perform_steps
from .looking import append_steps


def surplus(cut: Cut, action_id: str, contract: Contract) -> tuple[Proved, ...]:
    """The effects that must not stand: all but the first valid one, or all under a deny.

    Where none could be compared with the intent, the first one stands.
    """
    view = cut.views[action_id]
    effects = outcome(cut, action_id, contract).effects
    denied = bool(view.decisions) and all(
        entry.record.outcome != "allow" for entry in view.decisions
    )
    standing = [item for item in effects if not item.reversed]
    if denied:
        return tuple(standing)
    valid = next(
        (item for item in standing if item.matches),
        next((item for item in standing if item.matches is None), None),
    )
    return tuple(item for item in standing if item is not valid)


def compensate_effects_steps(
    runtime: Runtime,
    row: ActionRow,
    effects: tuple[Proved, ...],
    declared: ActionType,
    p: Presented,
    authority: Authority,
) -> Steps[None]:
    """One linked action for each effect. Raises RecoveryRefused without a compensator."""
    compensator = declared.compensator
    if compensator is None:
        raise RecoveryRefused(
            f"action type {declared.name!r} has no compensator",
            fix="Write @<action>.compensator above the function that counteracts the effect.",
        )
    for effect in effects:
        if not effect.reference:
            raise RecoveryRefused(
                f"an effect of {row.action_id!r} has no reference to compensate it by",
                fix="A person must find it and attest what became of it.",
            )
        yield from _one(runtime, row, effect, declared, compensator, p, authority)


def _one(
    runtime: Runtime,
    row: ActionRow,
    effect: Proved,
    declared: ActionType,
    compensator: Compensator,
    p: Presented,
    authority: Authority,
) -> Steps[None]:
    compensating = compensating_type(declared, compensator)
    action_id = compensation_id(row.action_id, effect.reference)
    yield from _link(runtime, row, effect, compensator, action_id)
    wanted = present(
        compensating,
        runtime.keys,
        action_id,
        {
            "reference": effect.reference,
            "compensated": row.action_id,
            "original": encode(p.plain).decode(),
        },
        intent=Intent(
            execution_id=p.intent.execution_id,
            step_id=f"{p.intent.step_id}{SUFFIX}",
            subject=p.subject,
            purpose=f"compensate {p.purpose}"[:500],
            approver=p.approver,
        ),
        root_id=row.root_id,
        compensates=row.action_id,
    )
    yield from perform_steps(runtime, wanted, authority)


def compensation_id(action_id: str, reference: str) -> str:
    """The id of the compensation of one effect: derived, so that it is made once."""
    named = f"{action_id}/compensate/{reference}"
    if len(named) <= 200 and named.isprintable():
        return named
    return f"{action_id[:100]}/compensate/{digest(named.encode())}"


def _link(
    runtime: Runtime, row: ActionRow, effect: Proved, compensator: Compensator, action_id: str
) -> Steps[None]:
    """The link is durable before the compensation is released; the action counts as open."""
    now = yield runtime.ports.now()

    def work(tx: Transaction) -> None:
        current = tx.action(row.action_id)
        assert current is not None
        if current.epoch != row.epoch:
            raise StaleEpoch(f"action {row.action_id!r} is driven by somebody else")
        known = tx.entries(row.root_id)
        linked = {
            entry.record.compensator
            for entry in known
            if isinstance(entry.record, CompensationLinked)
        }
        if action_id in linked:
            return
        chain = Chain(row.root_id, known[-1].position, known[-1].digest)
        chain.add(
            CompensationLinked(
                action_id=row.action_id,
                at=now,
                reference=effect.reference,
                compensator=action_id,
                reversibility=compensator.reversibility.value,
                commutes=compensator.commutes,
            )
        )
        current.compensation, current.open = Compensation.OPEN.value, True
        current.changed_at = current.next_at = now
        tx.advance(current, chain, epoch=current.epoch)

    yield runtime.ports.transact("link", work)


def undone_steps(runtime: Runtime, row: ActionRow, cut: Cut) -> Steps[tuple[ActionRow, Cut]]:
    """Record which effects a finished compensation has undone, as evidence of the action."""
    view = cut.views[row.action_id]
    known = {entry.record.undone_by for entry in view.effects}
    done: list[Entry] = []
    for entry in view.compensations:
        name = entry.record.compensator
        made = yield runtime.ports.read("row", partial(runtime.journal.action, name))
        final = made is not None and made.finding == Finding.APPLIED_FINAL.value
        if final and name not in known:
            done.append(entry)
    if not done:
        return row, cut
    now = yield runtime.ports.now()

    def write(chain: Chain, view: View) -> None:
        for entry in done:
            chain.add(
                EffectObserved(
                    action_id=row.action_id,
                    at=now,
                    causes=(entry.digest,),
                    state="reversed",
                    source="compensation",
                    reference=entry.record.reference,
                    undone_by=entry.record.compensator,
                )
            )

    return (yield from append_steps(runtime, row, "undone", write))
