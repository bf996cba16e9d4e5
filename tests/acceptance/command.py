"""Runs the real command as a program of its own, in a directory with a shop and its journal."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ASCERTAIN = str(Path(sys.executable).with_name("ascertain"))
SHOP = Path(__file__).with_name("shop.py")


@dataclass(frozen=True)
class Ran:
    """What a run came to."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The JSON document on stdout."""
        return json.loads(self.out)

    @property
    def first(self) -> str:
        """The first line on stderr."""
        return self.err.splitlines()[0]


class Desk:
    """A directory with the shop's program, its journal and its ledger.

    ``remembers``: nothing changes there, so that the same command says the same again.
    """

    def __init__(self, place: Path, *, remembers: bool = False) -> None:
        self.place = place
        self._known: dict[str, Ran] | None = {} if remembers else None
        shutil.copy(SHOP, place / "shop.py")

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of the caller's that changes what is printed."""
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("ASCERTAIN_", "SHOP_"))}
        for name in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR", "TERM", "PYTHONPATH"):
            kept.pop(name, None)
        return {**kept, "TZ": "Europe/Berlin", "LC_ALL": "C.UTF-8"}

    def program(self, *words: str, check: bool = True) -> Ran:
        """Run a function of the shop."""
        return self._run([sys.executable, "shop.py", *words], {}, check=check)

    def __call__(self, *words: str, journal: str | None = "shop.db", **environment: str) -> Ran:
        """Run the command on the journal."""
        named = {} if journal is None else {"ASCERTAIN_JOURNAL": journal}
        given = {**named, **environment}
        if self._known is None:
            return self._run([ASCERTAIN, *words], given, check=False)
        name = repr((words, sorted(given.items())))
        if name not in self._known:
            self._known[name] = self._run([ASCERTAIN, *words], given, check=False)
        return self._known[name]

    def json(self, *words: str, **options: Any) -> Any:
        """Run the command with --json and read its document."""
        ran = self(*words, "--json", **options)
        assert ran.out, ran.err
        return ran.document

    def recover(self, *words: str, **environment: str) -> Ran:
        """`recover` with the shop's program."""
        return self("recover", *words, "--app", "shop:journal", journal=None, **environment)

    def _run(self, words: list[str], environment: dict[str, str], *, check: bool) -> Ran:
        ran = subprocess.run(
            words,
            cwd=self.place,
            env={**self.environment, **environment},
            capture_output=True,
            timeout=120,
            check=False,
        )
        said = Ran(ran.returncode, ran.stdout.decode(), ran.stderr.decode())
        assert not check or said.code == 0, said.err
        return said
