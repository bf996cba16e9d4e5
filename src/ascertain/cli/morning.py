"""`status` and `actions`: the morning view, and the list behind it."""

from __future__ import annotations

from typing import Annotated

import typer

from ascertain.cli.failing import ATTENTION, FINE
from ascertain.cli.invocation import Invocation, command

MOST = 20
"""How many actions of each kind the morning view lists."""


def register(group: typer.Typer) -> None:
    """Add the commands of this group."""
    command(group, "status", "morning_view", "session")(status)
    command(group, "actions", "morning_view", "session")(actions)


def status(
    invocation: Invocation,
    limit: Annotated[int, typer.Option("--limit", min=1, help="How many of each to list.")] = MOST,
) -> int:
    """What needs a person, and what is open.

    What needs a person comes first, the oldest on top, each with the next command to type;
    then what is open and when it is looked at again; then counts. Exit code 1
    where something needs a person.
    """
    from ascertain.cli import morning_view, output, session

    with session.reading(invocation) as opened:
        view = morning_view.gather(opened, limit)
    place = invocation.place
    if invocation.json:
        output.document(morning_view.shape(view, place))
    else:
        morning_view.show(view, place)
    return ATTENTION if view.waiting else FINE


def actions(
    invocation: Invocation,
    outcome: Annotated[
        list[str] | None,
        typer.Option(
            "--outcome", metavar="WORD", help="Only with this outcome, such as UNKNOWN. Repeatable."
        ),
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--type", metavar="NAME", help="Only of this action type.")
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            "--older-than", metavar="AGE", help="Only unchanged for longer than 90s, 15m, 2h, 3d."
        ),
    ] = None,
    opened_only: Annotated[
        bool | None,
        typer.Option("--open/--closed", help="Only open ones, or only closed ones."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, help="The most to list.")] = 100,
) -> int:
    """List actions by outcome, type and age.

    The ones that changed last come first.
    """
    from ascertain.cli import morning_view, output, session, wording

    findings = tuple(name for word in outcome or () for name in wording.read_outcome(word))
    age = None if older_than is None else wording.read_span(older_than)
    with session.reading(invocation) as opened:
        now = opened.runtime.ports.clock.now()
        rows = opened.journal.actions(
            finding=findings,
            type=kind,
            changed_before=None if age is None else now - age,
            open=opened_only,
            most=limit + 1,
        )
    more = len(rows) > limit
    rows = rows[:limit]
    if invocation.json:
        output.document(
            {
                "as_of": wording.utc(now),
                "actions": [morning_view.row_shape(row, now) for row in rows],
                "more": more,
            }
        )
    else:
        morning_view.show_rows(rows, now, more=more)
    return FINE
