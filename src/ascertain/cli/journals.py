"""`journal check`, `journal rebuild` and `journal reconcile`: the journal itself."""

from __future__ import annotations

from typing import Annotated

import typer

from ascertain.cli.failing import ATTENTION, FINE
from ascertain.cli.invocation import Invocation, command


def register(group: typer.Typer) -> None:
    """Add the commands of this group."""
    journal = typer.Typer(
        help="The journal itself: check, rebuild, reconcile.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    group.add_typer(journal, name="journal")
    command(journal, "check", "journal_check", "session")(check)
    command(journal, "rebuild", "session")(rebuild)
    command(journal, "reconcile", "session")(reconcile)


def check(invocation: Invocation) -> int:
    """Check every record, chain, row and certificate.

    Nothing is changed. Exit code 1 where something is found.
    """
    from ascertain.cli import journal_check, output, session

    with session.reading(invocation) as opened:
        found = journal_check.check(opened)
    if invocation.json:
        output.document(found.shape())
    else:
        journal_check.show(found)
    return ATTENTION if found.faults else FINE


def rebuild(invocation: Invocation) -> int:
    """Make every row again from the records.

    As after `journal check` found one that differs. Safe beside workers, and
    to be interrupted and repeated.
    """
    from ascertain.cli import output, session
    from ascertain.projection import rebuild as make_again

    with session.writing(invocation) as opened:
        snapshot = opened.journal.snapshot()
        total = snapshot.count()
        snapshot.close()
        with output.progress("rebuilding", total) as advance:
            count = make_again(opened.journal, made=advance)
    if invocation.json:
        output.document({"lineages": total, "actions": count})
    else:
        print(f"{count} actions of {total} lineages made again from their records")
    return FINE


def reconcile(
    invocation: Invocation,
    operator: Annotated[str, typer.Option("--operator", help="Who vouches for it: your name.")],
    reason: Annotated[
        str, typer.Option("--reason", help="What happened to the file, and what was found out.")
    ],
    force: Annotated[
        bool,
        typer.Option(
            "--force", help="Also where nothing looks wrong, as after a disk was rolled back."
        ),
    ] = False,
) -> int:
    """Take a restored or copied journal into use.

    First find out at the providers what happened since the copy was made. From then on,
    nothing recorded before counts as proof that something was never released.
    """
    from ascertain.cli import output, session
    from ascertain.errors import InputRefused
    from ascertain.journal.sqlite import SqliteJournal
    from ascertain.ports import SystemClock
    from ascertain.projection import reconcile as begin

    path = session.journal_path(invocation)
    journal = SqliteJournal(path, create=False, reconciling=True)
    try:
        doubts = [error.message for error in journal.sidecar.doubts]
        if not doubts and not force:
            raise InputRefused(
                f"there is nothing to reconcile: {path} is the file that was written here last",
                fix="Write --force if it was rolled back in a way that cannot be seen here: by a "
                "snapshot of the whole disk, for instance.",
            )
        before = journal.sidecar.incarnation
        snapshot = journal.snapshot()
        total = snapshot.count()
        snapshot.close()
        with output.progress("reconciling", total) as advance:
            now = SystemClock().now()
            after = begin(journal, operator=operator, reason=reason, at=now, made=advance)
        counts = journal.counts()
    finally:
        journal.close()
    if invocation.json:
        output.document(
            {
                "incarnation": after,
                "after": before,
                "doubts": doubts,
                "operator": operator,
                "reason": reason,
                "counts": counts,
            }
        )
    else:
        print(f"{path} is incarnation {after} from now on")
        print(f"{counts.get('unknown', 0)} actions are unknown, {counts['open']} are open")
        print("what was lost is not known here: an id that was used after the copy was made would")
        print("be sent again; look each of them up at its provider before it is performed")
        print(f"next: {invocation.place.acting('recover')}")
    return FINE
