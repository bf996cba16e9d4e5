"""`recover` and `attest`: find out what happened, or say what a person found out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from ascertain.cli.failing import ATTENTION, FINE
from ascertain.cli.invocation import Invocation, command

if TYPE_CHECKING:
    from ascertain.cli.recovery_view import Refused
    from ascertain.opened import Ascertain
    from ascertain.recovery.controller import Recovered


def register(group: typer.Typer) -> None:
    """Add the commands of this group."""
    command(group, "recover", "recovery_view", "session")(recover)
    command(group, "attest", "recovery_view", "session")(attest)


def recover(
    invocation: Invocation,
    action_id: Annotated[
        str | None, typer.Argument(metavar="ID", help="One action; else all that are due.")
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Decide on what is recorded; look at and write nothing."),
    ] = False,
    no_act: Annotated[
        bool, typer.Option("--no-act", help="Look, decide and certify, but release nothing.")
    ] = False,
) -> int:
    """Find out what happened, and act as decided.

    For one action, or for all that are due. The program is needed: its actions know how to
    look, and its policy what may be done. Exit code 1 where
    something stays unknown, or waits for a person.
    """
    from ascertain.cli import output, recovery_view, session

    if dry_run:
        opening = session.reading if invocation.app is None else session.acting
        with opening(invocation) as opened:
            plans = recovery_view.plan(opened, action_id)
        if invocation.json:
            output.document({"dry_run": True, "actions": [item.shape() for item in plans]})
        else:
            recovery_view.show_plans(plans)
        return ATTENTION if any(item.needs_person for item in plans) else FINE
    with session.acting(invocation) as opened:
        done: list[Recovered] = []
        refused: list[Refused] = []
        if action_id is not None:
            done.append(_one(opened, action_id, act=not no_act))
        else:
            _all(opened, done, refused, act=not no_act)
    if invocation.json:
        output.document(recovery_view.shape(done, refused))
    else:
        place = invocation.place
        recovery_view.show(done, refused, place)
    left = [item for item in done if recovery_view.is_left(item)]
    return ATTENTION if left or refused else FINE


def _one(opened: Ascertain, action_id: str, *, act: bool) -> Recovered:
    from ascertain.cli.account import find

    find(opened, action_id)
    return opened.recover(action_id, act=act)


def _all(opened: Ascertain, done: list[Recovered], refused: list[Refused], *, act: bool) -> None:
    """Recover what is due, until nothing new is; one that is refused does not stop the rest."""
    from ascertain.cli.output import tracked
    from ascertain.cli.recovery_view import Refused
    from ascertain.errors import AscertainError, JournalError, PositionTaken, StaleEpoch

    seen: set[str] = set()
    try:
        # What is refused stays due: look past it.
        while rows := [
            row for row in opened.due(most=1000 + len(seen)) if row.action_id not in seen
        ]:
            for row in tracked(rows, "recovering", len(rows)):
                seen.add(row.action_id)
                try:
                    done.append(opened.recover(row.action_id, act=act))
                except (AscertainError, PositionTaken, StaleEpoch) as error:
                    lost = isinstance(error, PositionTaken | StaleEpoch)
                    if isinstance(error, JournalError) and not lost:
                        raise
                    refused.append(Refused(row.action_id, error.message, error.fix))
    except KeyboardInterrupt as error:
        error.add_note(
            f"{len(done)} recovered before; the rest stays open. Run the same command again"
        )
        raise


def attest(
    invocation: Invocation,
    action_id: Annotated[str, typer.Argument(metavar="ID", help="The action's id.")],
    claim: Annotated[
        str,
        typer.Option("--claim", help="What you found: applied, not_applied, rejected or reversed."),
    ],
    operator: Annotated[str, typer.Option("--operator", help="Who vouches for it: your name.")],
    reason: Annotated[str, typer.Option("--reason", help="How you found out.")],
    authority: Annotated[str, typer.Option("--authority", help="On what grounds you may say so.")],
    reference: Annotated[
        str | None, typer.Option("--reference", help="The provider's reference of the effect.")
    ] = None,
) -> int:
    """Add a person's evidence about an action.

    It is one piece of evidence among others; what follows from all of it is shown. Say
    `not_applied` only if it did not happen and nothing of it can still happen. Exit code 1
    where the outcome stays open or in conflict.
    """
    from ascertain.cli import output, recovery_view, session, wording
    from ascertain.cli.account import find

    with session.writing(invocation) as opened:
        find(opened, action_id)
        outcome = opened.attest(
            action_id,
            claim=claim.strip().lower().replace("-", "_"),
            operator=operator,
            reason=reason,
            authority=authority,
            reference=reference,
        )
    finding = recovery_view.finding_of(outcome)
    if invocation.json:
        output.document(
            {
                "action_id": action_id,
                "claim": claim,
                "operator": operator,
                **recovery_view.outcome_shape(outcome),
            }
        )
    else:
        out = output.console()
        out.print(output.styled(f"{action_id}: {operator} attests {claim}"))
        if finding is not None:
            out.print(output.styled(wording.verdict_words(finding), "bold"))
    return ATTENTION if recovery_view.is_open(finding) else FINE
