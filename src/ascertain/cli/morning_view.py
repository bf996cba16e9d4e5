"""What the morning view and the list of actions show, gathered from the open index alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ascertain.cli.account import commands_for, needs_person
from ascertain.cli.output import console, styled
from ascertain.cli.wording import (
    COUNT_WORDS,
    Place,
    about,
    moment,
    plural,
    utc,
    verdict_words,
    when,
)
from ascertain.core.decision import ROWS, TABLE
from ascertain.core.facts import Finding
from ascertain.core.outcome import OUTCOME_OF
from ascertain.journal import ActionRow

if TYPE_CHECKING:
    from rich.console import Console

    from ascertain.opened import Ascertain

FOR_PEOPLE = tuple(row.name for row in TABLE if needs_person(row))
"""The rows of the decision table after which nothing goes on without a person."""


@dataclass(frozen=True, slots=True)
class View:
    """The morning view. ``waiting``: for a person, oldest first; ``open``: soonest first.

    ``more_waiting``, ``more_open``: there are more than are listed.
    """

    url: str
    now: int
    waiting: list[ActionRow]
    more_waiting: bool
    open: list[ActionRow]
    more_open: bool
    due: int
    counts: dict[str, int]
    complete: bool


def gather(opened: Ascertain, most: int) -> View:
    """Read it. Nothing of an action's history is read."""
    journal, now = opened.journal, opened.runtime.ports.clock.now()
    waiting = journal.actions(decision=FOR_PEOPLE, oldest=True, most=most + 1)
    waiting = [row for row in waiting if row.lease_until <= now]
    going = [row for row in journal.open_actions() if row.decision not in FOR_PEOPLE]
    return View(
        journal.url,
        now,
        waiting[:most],
        len(waiting) > most,
        going[:most],
        len(going) > most,
        len(opened.due()),
        journal.counts(),
        journal.sources.complete,
    )


def driven(row: ActionRow, now: int) -> str | None:
    """Who drives it, as far as its lease says."""
    return row.holder if row.holder and row.lease_until > now else None


# --- for people -----------------------------------------------------------------------------


def show(view: View, place: Place) -> None:
    """Print the morning view."""
    out = console()
    _waiting(out, view, place)
    _open(out, view, place)
    out.print()
    out.print(styled(_counted(view.counts)))


def _waiting(out: Console, view: View, place: Place) -> None:
    from rich.padding import Padding

    if not view.waiting:
        out.print(styled("Nothing needs a person.", "bold green"))
        return
    count = f"{len(view.waiting)} or more" if view.more_waiting else len(view.waiting)
    verb = "needs" if view.waiting[1:] == [] and not view.more_waiting else "need"
    out.print(styled(f"{count} {verb} a person", "bold red"))
    for row in view.waiting:
        finding, decided = Finding(row.finding), ROWS.get(row.decision)
        out.print()
        age = about(view.now - row.created_at)
        out.print(styled(f"  {row.action_id}  {row.type}, {age} old", "bold"))
        out.print(Padding(styled(verdict_words(finding)), (0, 0, 0, 4)))
        if decided is not None:
            out.print(Padding(styled(decided.reason), (0, 0, 0, 4)))
        for line in commands_for(row.action_id, finding, decided, place)[:1]:
            out.print(Padding(styled(f"next: {line}", "cyan"), (0, 0, 0, 4)))
    if view.more_waiting:
        out.print(styled("\n  and more: `ascertain status --limit 1000` lists them all"))


def _open(out: Console, view: View, place: Place) -> None:
    from rich.table import Table

    out.print()
    if not view.open:
        out.print(styled("Nothing is open.", "bold"))
        return
    count = f"{len(view.open)} or more" if view.more_open else str(len(view.open))
    out.print(styled(f"{count} open, looked at again:", "bold"))
    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, show_header=False)
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    table.add_column()
    for row in view.open:
        holder = driven(row, view.now)
        due = f"driven until {moment(row.lease_until, view.now)}" if holder else _due(row, view.now)
        table.add_row(styled(f"  {row.action_id}"), styled(COUNT_WORDS[row.finding]), styled(due))
    out.print(table)
    if view.due:
        line = place.acting("recover")
        out.print(styled(f"  {plural(view.due, 'is', 'are')} due. next: {line}", "cyan"))


def _due(row: ActionRow, now: int) -> str:
    return when(row.next_at, now) if row.next_at > now else f"due for {about(now - row.next_at)}"


def _counted(counts: dict[str, int]) -> str:
    total = sum(count for name, count in counts.items() if name != "open")
    known = [f"{counts[name]} {word}" for name, word in COUNT_WORDS.items() if counts.get(name)]
    rest = f": {', '.join(known)}" if known else ""
    return f"{plural(total, 'action', 'actions')}{rest}"


def show_rows(rows: Sequence[ActionRow], now: int, *, more: bool) -> None:
    """Print a list of actions."""
    from rich import box
    from rich.table import Table

    out = console()
    if not rows:
        out.print("No action matches.")
        return
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    table.add_column("action", overflow="fold")
    table.add_column("type", overflow="fold")
    table.add_column("what is known", min_width=20)
    table.add_column("changed", no_wrap=True)
    table.add_column("next", no_wrap=True)
    for row in rows:
        known = f"{COUNT_WORDS[row.finding]} ({OUTCOME_OF[Finding(row.finding)].value})"
        table.add_row(
            styled(row.action_id),
            styled(row.type),
            styled(known),
            f"{about(now - row.changed_at)} ago",
            styled(_going(row, now)),
        )
    out.print(table)
    if more:
        out.print("There are more: --limit shows them.")


def _going(row: ActionRow, now: int) -> str:
    if row.decision in FOR_PEOPLE:
        return "a person"
    if driven(row, now):
        return "driven now"
    return when(row.next_at, now) if row.open else ""


# --- for programs ---------------------------------------------------------------------------


def row_shape(row: ActionRow, now: int) -> dict[str, Any]:
    """One action of a list, as it is documented in `reference/cli-json`."""
    finding, decided = Finding(row.finding), ROWS.get(row.decision)
    return {
        "action_id": row.action_id,
        "lineage": row.root_id,
        "type": row.type,
        "outcome": OUTCOME_OF[finding].value,
        "finding": finding.value,
        "decision": None if decided is None else decided.decision.value,
        "row": row.decision,
        "reason": None if decided is None else decided.reason,
        "needs_person": needs_person(decided) and driven(row, now) is None,
        "open": row.open,
        "next_at": utc(row.next_at) if row.open else None,
        "due": row.open and row.next_at <= now,
        "driven_by": driven(row, now),
        "attempts": row.attempts,
        "compensation": row.compensation,
        "created_at": utc(row.created_at),
        "changed_at": utc(row.changed_at),
    }


def shape(view: View, place: Place) -> dict[str, Any]:
    """The morning view as a JSON document."""
    return {
        "journal": view.url,
        "as_of": utc(view.now),
        "complete": view.complete,
        "needs_person": [
            {**row_shape(row, view.now), "next_commands": list(_commands(row, place))}
            for row in view.waiting
        ],
        "more_needs_person": view.more_waiting,
        "open": [row_shape(row, view.now) for row in view.open],
        "more_open": view.more_open,
        "due": view.due,
        "counts": view.counts,
    }


def _commands(row: ActionRow, place: Place) -> Iterator[str]:
    yield from commands_for(row.action_id, Finding(row.finding), ROWS.get(row.decision), place)
