"""What every command has in common: its options, and how it ends."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ascertain.cli import interruptible
from ascertain.cli.failing import failed

if TYPE_CHECKING:
    from ascertain.cli.wording import Place


@dataclass(slots=True)
class Invocation:
    """One call of the command. ``journal``: a path or URL. ``app``: ``module:object``."""

    journal: str | None = None
    app: str | None = None
    json: bool = False
    debug: bool = False
    typed: dict[str, str] = field(default_factory=dict)
    """What of it was typed, and not taken from the environment."""

    @property
    def place(self) -> Place:
        """What a command that leads on from this one has to repeat."""
        from ascertain.cli.wording import Place

        journal = self.typed.get("journal")
        app = self.typed.get("app", "MODULE:OBJECT" if self.app is None else None)
        return Place(
            () if journal is None else ("--journal", journal),
            () if app is None else ("--app", app),
        )


JournalOption = Annotated[
    str | None,
    typer.Option(
        "--journal",
        metavar="URL",
        help="The journal: a path, or sqlite:///path. Else ASCERTAIN_JOURNAL, else the app's.",
    ),
]
AppOption = Annotated[
    str | None,
    typer.Option(
        "--app",
        metavar="MODULE:OBJECT",
        help="The program's `ascertain.open(…)` with its actions. Else ASCERTAIN_APP.",
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON document on stdout.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="With errors, show where they arose.")]

_JOURNAL: dict[str, Any] = {"journal": JournalOption, "app": AppOption}
_ALWAYS: dict[str, Any] = {"as_json": JsonOption, "debug": DebugOption}
_DEFAULTS: dict[str, Any] = {"journal": None, "app": None, "as_json": False, "debug": False}

Command = Callable[..., int]


def command(
    group: typer.Typer, name: str, *loads: str, journal: bool = True
) -> Callable[[Command], Command]:
    """Register a function ``(invocation, …) -> exit code`` as a command with the usual options.

    ``loads``: the modules of this package that it needs, loaded when it is called.
    ``journal``: it also takes ``--journal`` and ``--app``. The usual options may stand
    before the command too; what stands behind it wins.
    """

    def register(function: Command) -> Command:
        usual = {**(_JOURNAL if journal else {}), **_ALWAYS}
        own = list(inspect.signature(function, eval_str=True).parameters.values())[1:]

        def run(context: typer.Context, **given: Any) -> None:
            common: Invocation = context.find_object(Invocation) or Invocation()
            for option in usual:
                value = given.pop(option)
                if value:
                    setattr(common, option.removeprefix("as_"), value)
                    if isinstance(value, str):
                        common.typed[option] = value
            raise typer.Exit(ended(common, lambda: _called(function, common, given, loads)))

        shown = inspect.Parameter(
            "context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context
        )
        keyword = inspect.Parameter.KEYWORD_ONLY
        added = [
            inspect.Parameter(option, keyword, default=_DEFAULTS[option], annotation=annotation)
            for option, annotation in usual.items()
        ]
        parameters = [shown, *(item.replace(kind=keyword) for item in own), *added]
        run.__doc__ = function.__doc__
        run.__name__ = function.__name__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {item.name: item.annotation for item in parameters}
        group.command(name)(run)
        return function

    return register


def _called(
    function: Command, invocation: Invocation, given: dict[str, Any], loads: tuple[str, ...]
) -> int:
    for name in loads:
        import_module(f"ascertain.cli.{name}")
    if loads and not invocation.json:
        for name in ("box", "console", "padding", "table", "text"):
            import_module(f"rich.{name}")
    with interruptible():
        return function(invocation, **given)


def ended(invocation: Invocation, call: Callable[[], int]) -> int:
    """Run a command to its end, whatever that is; the exit code."""
    try:
        return call()
    except typer.Exit:
        raise
    except BaseException as error:
        return failed(error, debug=invocation.debug)
