"""Runs the examples of one page as a reader would: top to bottom, in one session, in one directory.

``python -m tests.docs.session PAGE``, in an empty directory. The fences that count:

```python    run in the page's session; if its first line is a file's name (``# payments.py``), it
             is written to that file and not run
```output    what the block above it printed
```console   commands behind ``$ ``, each with what it printed

In what is shown, ``…`` stands for anything on its line, and on a line of its own for any lines.
Other fences are only shown.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

FENCE = re.compile(r"^```(\w*)\n(.*?)^```\n", re.DOTALL | re.MULTILINE)
NAMED = re.compile(r"# ([\w/]+\.(?:py|toml))\n")
COMMAND_S_MAX = 120


class Block(NamedTuple):
    """One fence. ``line``: of its first line of content, counted from 1."""

    kind: str
    text: str
    line: int


def blocks(markdown: str) -> Iterator[Block]:
    """The fences of a page, in order."""
    for found in FENCE.finditer(markdown):
        yield Block(found[1], found[2], markdown.count("\n", 0, found.start()) + 2)


def looks_like(shown: str, printed: str) -> bool:
    """Is what was printed what is shown?"""
    parts = []
    for line in shown.rstrip().splitlines():
        if line.strip() == "…":
            parts.append(r"(?:.*\n)*?")
        else:
            parts.append(".*?".join(re.escape(part) for part in line.rstrip().split("…")) + "\n")
    plain = "\n".join(line.rstrip() for line in printed.rstrip().splitlines())
    return re.fullmatch("".join(parts), plain + "\n" if plain else "") is not None


class Session:
    """What the blocks of one page share: names, the directory, and what was printed last."""

    def __init__(self, page: Path) -> None:
        self.page = page
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self.printed: str | None = None
        self.wrong: list[str] = []

    def run(self) -> list[str]:
        """Run the page; every place where it does not do what it shows."""
        for block in blocks(self.page.read_text("utf-8")):
            if block.kind == "python":
                self.unshown(block)
                self.python(block)
            elif block.kind == "output":
                self.compare(block, block.text, self.printed or "")
                self.printed = None
            elif block.kind == "console":
                self.unshown(block)
                self.console(block)
            if self.wrong:
                break
        else:
            self.unshown(None)
        return self.wrong

    def unshown(self, block: Block | None) -> None:
        """What is printed is shown, or the page is not what the reader gets."""
        if self.printed:
            self.note(block, f"something above was printed and is not shown:\n{self.printed}")
        self.printed = None

    def python(self, block: Block) -> None:
        named = NAMED.match(block.text)
        if named:
            path = Path(named[1])
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, "utf-8")
            return
        place = f"{self.page.name}:{block.line}"
        written = io.StringIO()
        try:
            code = compile("\n" * (block.line - 1) + block.text, str(self.page), "exec")
            with contextlib.redirect_stdout(written):
                exec(code, self.names)
        except BaseException:
            self.wrong.append(f"{place} raised\n{traceback.format_exc(limit=-6)}")
        self.printed = written.getvalue()

    def console(self, block: Block) -> None:
        for command, shown in commands(block.text):
            ran = subprocess.run(
                command,
                shell=True,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=COMMAND_S_MAX,
                env=environment(),
                check=False,
            )
            self.compare(block, shown, ran.stdout, f"$ {command}\n")

    def compare(self, block: Block, shown: str, printed: str, above: str = "") -> None:
        if not looks_like(shown, printed):
            self.note(block, f"{above}shows\n{shown}\nand printed\n{printed}")

    def note(self, block: Block | None, what: str) -> None:
        place = self.page.name if block is None else f"{self.page.name}:{block.line}"
        self.wrong.append(f"{place} {what}")


def commands(text: str) -> Iterator[tuple[str, str]]:
    """Each command of a console block, and what is shown below it."""
    for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
        lines = part.splitlines()
        command = [lines.pop(0)]
        while command[-1].endswith("\\"):
            command.append(lines.pop(0))
        yield "\n".join(command), "\n".join(lines)


def environment() -> dict[str, str]:
    """The reader's shell: the programs of this Python first, 80 columns, no colour."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**os.environ, "PATH": path, "COLUMNS": "80", "NO_COLOR": "1"}


if __name__ == "__main__":
    sys.path.insert(0, str(Path.cwd()))
    wrong = Session(Path(sys.argv[1])).run()
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)
