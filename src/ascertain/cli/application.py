"""The command's groups put together, and the options that stand before a command."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from ascertain.cli import certificates, demonstrating, journals, looking, morning, recovering
from ascertain.cli.failing import failed
from ascertain.cli.invocation import (
    AppOption,
    DebugOption,
    Invocation,
    JournalOption,
    JsonOption,
)
from ascertain.cli.output import prepare_streams

application = typer.Typer(
    name="ascertain",
    help="Find out whether an external effect really happened before acting again.",
    epilog="Exit codes: 0 fine; 1 something needs attention; 2 bad usage or input; "
    "3 the journal could not be used.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)


def _version(asked: bool) -> None:
    if asked:
        from ascertain import __version__

        print(f"ascertain {__version__}")
        raise typer.Exit


@application.callback()
def options(
    context: typer.Context,
    journal: JournalOption = None,
    app: AppOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Find out whether an external effect really happened before acting again."""
    context.obj = Invocation(
        journal=journal or os.environ.get("ASCERTAIN_JOURNAL") or None,
        app=app or os.environ.get("ASCERTAIN_APP") or None,
        json=as_json,
        debug=debug,
        typed={name: value for name, value in (("journal", journal), ("app", app)) if value},
    )


for group in (morning, looking, recovering, certificates, journals, demonstrating):
    group.register(application)


def run(arguments: list[str]) -> int:
    """Run one command; its exit code."""
    prepare_streams()
    made: Any = typer.main.get_command(application)
    try:
        code = made.main(args=arguments, prog_name="ascertain", standalone_mode=False)
        sys.stdout.flush()
    except (Exception, SystemExit) as error:
        return failed(error, debug=False)
    return code if isinstance(code, int) else 0
