"""Where a command writes: people's text or one JSON document on stdout, notices on stderr."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TextIO, TypeVar

from ascertain.cli.failing import printable

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

T = TypeVar("T")


def prepare_streams() -> None:
    """What the terminal's encoding cannot show is shown escaped, and is never an error."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


class Stripped:
    """A stream that gets its lines without the blanks that pad them to a terminal's width."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._rest = ""

    def write(self, text: str) -> int:
        """Write whole lines; keep the rest."""
        *lines, self._rest = (self._rest + text).split("\n")
        for line in lines:
            self._stream.write(f"{line.rstrip(' ')}\n")
        return len(text)

    def flush(self) -> None:
        """Pass on what is whole."""
        self._stream.flush()

    def isatty(self) -> bool:
        """Is a terminal behind it?"""
        return self._stream.isatty()

    @property
    def encoding(self) -> str:
        """As the stream's."""
        return self._stream.encoding


def console() -> Console:
    """The console for people: colour and width of a terminal, neither where there is none."""
    from rich.console import Console

    plain = not sys.stdout.isatty() or bool(os.environ.get("NO_COLOR"))
    stripped: Any = Stripped(sys.stdout)
    return Console(
        file=stripped if plain else None,
        color_system=None if plain else "auto",
        force_terminal=False if plain else None,
        width=None if sys.stdout.isatty() else _columns(),
        highlight=False,
        markup=False,
        emoji=False,
        soft_wrap=False,
    )


def _columns() -> int:
    given = os.environ.get("COLUMNS", "")
    return max(int(given), 40) if given.isascii() and given.isdigit() and len(given) < 6 else 80


def styled(text: str, style: str = "") -> Text:
    """A text to be shown as it is: no markup, no control characters."""
    from rich.text import Text

    return Text(printable(text), style=style)


def document(value: Any) -> None:
    """Write one JSON document to stdout."""
    encoding = (sys.stdout.encoding or "ascii").lower().replace("-", "")
    print(json.dumps(value, indent=2, ensure_ascii=encoding != "utf8"))


def notice(text: str) -> None:
    """One line on stderr that is no error."""
    print(f"ascertain: {printable(text)}", file=sys.stderr)


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Any]:
    """A progress bar on stderr for long work; calls of what it yields advance it.

    Without a terminal on stderr nothing is shown.
    """
    if not sys.stderr.isatty():
        yield lambda: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        console=Console(stderr=True, no_color=bool(os.environ.get("NO_COLOR"))),
        transient=True,
    )
    with bar:
        task = bar.add_task(label, total=total)
        yield lambda: bar.advance(task)


def tracked(items: Iterable[T], label: str, total: int | None) -> Iterator[T]:
    """The items, with a progress bar behind them."""
    with progress(label, total) as advance:
        for item in items:
            yield item
            advance()
