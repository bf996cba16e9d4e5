"""`show` and `explain`: one action, as records side by side or in plain sentences."""

from __future__ import annotations

from typing import Annotated

import typer

from ascertain.cli.failing import FINE
from ascertain.cli.invocation import Invocation, command

ActionId = Annotated[str, typer.Argument(metavar="ID", help="The action's id.")]


def register(group: typer.Typer) -> None:
    """Add the commands of this group."""
    command(group, "show", "timeline", "session")(show)
    command(group, "explain", "sentences", "session")(explain)


def show(invocation: Invocation, action_id: ActionId) -> int:
    """One action: its records side by side, and what follows.

    The five streams as a timeline, the cut, the outcome with its argument or with what is
    missing, what does not fit, and the decision with its row of the table.
    """
    from ascertain.cli import account, output, session, timeline

    with session.reading(invocation) as opened:
        found = account.account(opened, action_id)
    if invocation.json:
        output.document(account.shape(found))
    else:
        timeline.show(found, invocation.place)
    return FINE


def explain(invocation: Invocation, action_id: ActionId) -> int:
    """One action in plain sentences."""
    from ascertain.cli import account, output, sentences, session, wording

    with session.reading(invocation) as opened:
        found = account.account(opened, action_id)
    place = invocation.place
    if invocation.json:
        verdict = found.judgement.verdict
        output.document(
            {
                "action_id": action_id,
                "outcome": verdict.outcome.value,
                "finding": verdict.finding.value,
                "decision": found.decision.decision.value,
                "row": found.decision.name,
                "next_look": wording.utc(found.next_look),
                "needs_person": found.needs_person,
                "sentences": sentences.sentences(found, place),
            }
        )
    else:
        sentences.explain(found, place)
    return FINE
