"""What recovery did, or would do, in words and for programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from ascertain.cli.account import Account, account, needs_person
from ascertain.cli.output import console, styled
from ascertain.cli.wording import (
    DECISION_WORDS,
    Place,
    moment,
    plural,
    utc,
    verdict_words,
    when,
)
from ascertain.core.decision import ROWS, Row
from ascertain.core.facts import Decision, Finding
from ascertain.core.judgement import Judgement, can_seal, judge
from ascertain.core.outcome import OUTCOME_OF
from ascertain.outcomes import Outcome
from ascertain.runtime import compensation_of, needs_now, standing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ascertain.core.judgement import Context
    from ascertain.opened import Ascertain
    from ascertain.recovery.controller import Recovered

_OPEN = (
    Finding.UNKNOWN,
    Finding.CONFLICT,
    Finding.APPLIED_SHORT,
    Finding.APPLIED_PROVISIONAL,
)


class Refused(NamedTuple):
    """An action that could not be recovered, and why."""

    action_id: str
    error: str
    fix: str


def finding_of(outcome: Outcome) -> Finding | None:
    """What an outcome's judgement found, None where nothing was judged."""
    return None if outcome.judgement is None else outcome.judgement.facts.finding


def is_open(finding: Finding | None) -> bool:
    """Is the outcome open, or in conflict?"""
    return finding is None or finding in _OPEN


def is_left(done: Recovered) -> bool:
    """Does recovery leave something open, or to a person?"""
    waits = needs_person(ROWS.get(done.row)) and not done.acted
    settled = _row_now(done).startswith("compensated/")
    return waits or (is_open(finding_of(done.outcome)) and not settled)


def _row_now(done: Recovered) -> str:
    """The row that holds after what recovery did."""
    found = done.outcome.judgement
    return done.row if found is None else found.row.name


# --- what was done --------------------------------------------------------------------------


def outcome_shape(outcome: Outcome) -> dict[str, Any]:
    """The members that tell of an outcome."""
    finding = finding_of(outcome)
    return {
        "outcome": None if finding is None else OUTCOME_OF[finding].value,
        "finding": None if finding is None else finding.value,
        "next_look": utc(getattr(outcome, "next_observation", None)),
    }


def shape(done: Sequence[Recovered], refused: Sequence[Refused]) -> dict[str, Any]:
    """What recovery did, as it is documented in `reference/cli-json`."""
    return {
        "dry_run": False,
        "recovered": [
            {
                "action_id": item.action_id,
                **outcome_shape(item.outcome),
                "decision": item.decision,
                "row": item.row,
                "acted": item.acted,
                "busy": item.busy,
                "certificate": item.certificate,
                "left": is_left(item),
            }
            for item in done
        ],
        "refused": [item._asdict() for item in refused],
    }


def show(done: Sequence[Recovered], refused: Sequence[Refused], place: Place) -> None:
    """Print what recovery did."""
    from rich.padding import Padding

    out = console()
    if not done and not refused:
        out.print("Nothing is due.")
        return
    for item in done:
        finding = finding_of(item.outcome)
        words = item.outcome.words if finding is None else verdict_words(finding, _row_now(item))
        out.print(styled(item.action_id, "bold"))
        out.print(Padding(styled(words), (0, 0, 0, 2)))
        out.print(Padding(styled(_did(item)), (0, 0, 0, 2)))
    for failed in refused:
        out.print(styled(failed.action_id, "bold"))
        out.print(Padding(styled(f"refused: {failed.error}", "red"), (0, 0, 0, 2)))
        if failed.fix:
            out.print(Padding(styled(failed.fix), (0, 0, 0, 2)))
    left = [item for item in done if is_left(item)]
    out.print()
    said = [f"{len(done)} recovered", f"{len(left)} left open or to a person"]
    if refused:
        said.append(f"{len(refused)} refused")
    out.print(styled("; ".join(said)))
    if left or refused:
        out.print(styled(f"next: {place.command('status')}", "cyan"))


def _did(item: Recovered) -> str:
    if item.busy:
        return "somebody else drives it; nothing was done"
    decided = ROWS.get(item.row)
    word = item.decision if decided is None else DECISION_WORDS[decided.decision]
    done = "done: " if item.acted else ""
    kept = f"; certificate {item.certificate[:16]}" if item.certificate else ""
    return f"{done}{word} ({item.decision}, row {item.row}){kept}"


# --- what would be done ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """What recovery would do with one action, judged on what is recorded alone.

    ``looks``: whom it would ask. ``seals``: it could then seal the fence.
    """

    known: Account
    judgement: Judgement
    looks: tuple[str, ...]
    seals: bool
    gone: tuple[str, ...]

    @property
    def row(self) -> Row:
        """The row of the table."""
        return self.judgement.row

    @property
    def busy(self) -> bool:
        """Somebody drives it, and is not proved to be gone."""
        return self.known.driven_by is not None and self.known.row.holder not in self.gone

    @property
    def needs_person(self) -> bool:
        """It would be left to a person."""
        return needs_person(self.row) and not self.busy

    def shape(self) -> dict[str, Any]:
        """For programs."""
        row = self.known.row
        finding = self.judgement.verdict.finding
        return {
            "action_id": row.action_id,
            "outcome": OUTCOME_OF[finding].value,
            "finding": finding.value,
            "decision": self.row.decision.value,
            "row": self.row.name,
            "reason": self.row.reason,
            "looks": list(self.looks),
            "seals": self.seals,
            "executors_gone": list(self.gone),
            "busy": self.busy,
            "due": row.open and (row.next_at <= self.known.now or row.holder in self.gone),
            "next_at": utc(row.next_at) if row.open else None,
            "needs_person": self.needs_person,
        }


def plan(opened: Ascertain, action_id: str | None) -> list[Plan]:
    """Judge one action, or all that are due. Nothing is written, looked at or asked."""
    wanted = [row.action_id for row in opened.due()] if action_id is None else [action_id]
    return [_plan(opened, account(opened, name)) for name in wanted]


def _plan(opened: Ascertain, known: Account) -> Plan:
    contract, view = known.contract, known.view
    declared = opened.runtime.types.get(known.row.type)
    intent = view.intent
    context: Context = standing(contract)._replace(
        needs=needs_now(opened.journal, () if intent is None else intent.needs),
        compensation=compensation_of(opened.journal, view),
    )
    names = tuple(item.source.name for item in declared.observers) if declared else ()
    if declared is not None:
        context = context._replace(
            observable=context.observable and bool(names),
            sealable=context.sealable and declared.sealer is not None,
            compensator=declared.compensator is not None,
        )
    found = judge(known.cut, known.row.action_id, contract, context)
    executors = {entry.record.executor for n, entry in view.released.items()
                 if n not in view.returned} | {known.row.holder} - {""}  # fmt: skip
    prove = opened.runtime.executor.gone
    verify = found.row.decision is Decision.VERIFY
    looks = names or (f"readback by {contract.readback.by}",) if context.observable else ()
    return Plan(
        known,
        found,
        looks if verify else (),
        verify and found.verdict.finding is Finding.UNKNOWN and can_seal(view, context),
        tuple(sorted(name for name in executors if prove(name) is not None)),
    )


def show_plans(plans: Sequence[Plan]) -> None:
    """Print what would be done."""
    from rich.padding import Padding

    out = console()
    if not plans:
        out.print("Nothing is due.")
        return
    for item in plans:
        out.print(styled(item.known.row.action_id, "bold"))
        for line in _would(item):
            out.print(Padding(styled(line), (0, 0, 0, 2)))
    out.print()
    count = plural(len(plans), "action", "actions")
    out.print(
        styled(
            f"{count} judged on what is recorded, as if everything were allowed. Nothing was "
            "looked at, and nothing was written."
        )
    )


def _would(item: Plan) -> list[str]:
    row, now = item.known.row, item.known.now
    lines = [verdict_words(item.judgement.verdict.finding)]
    if item.busy:
        lines.append(f"would be left alone: {row.holder} drives it until "
                     f"{moment(row.lease_until, now)}")  # fmt: skip
        return lines
    if item.gone:
        lines.append(f"proved to be gone: {', '.join(item.gone)}")
    if row.open and row.next_at > now and not item.gone:
        lines.append(f"not due: {when(row.next_at, now)}")
    word = DECISION_WORDS[item.row.decision]
    lines.append(f"would come to: {word} ({item.row.decision.value}, row {item.row.name})")
    lines.append(item.row.reason)
    if item.looks:
        lines.append(f"would look first: {', '.join(item.looks)}")
    if item.seals:
        lines.append("could then seal its fence, with the capability to compensate")
    return lines
