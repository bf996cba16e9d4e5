"""The crash matrix of seed 000, run through the real journal and the real controller.

Five crash points, a ledger that knows keys or not and can be read or not, and authority that
was revoked meanwhile or not. In each cell a worker is killed (SIGKILL) at its point; then
another one recovers the payment and decides. What is shown is read at decision time, before
anything is acted on; decisions are in the words of the seed's harness.
"""

from __future__ import annotations

import json as json_document
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypedDict, TypeVar

import msgspec

import ascertain
from ascertain.authority import Grant, Request, Ruling
from ascertain.demo.cells import JOURNAL, POLICY, Cell, cells
from ascertain.demo.ledger import RemoteLedger, declare
from ascertain.errors import AscertainError
from ascertain.testing.programs import SOURCE_ROOT

T = TypeVar("T")

INTERRUPTED_S_MAX = 60.0


class Row(TypedDict):
    """One cell: the circumstances, what recovery decided, and what was true at that time."""

    crash_at: str
    idempotent: bool
    readback: bool
    revoked: bool
    decision: str
    commits: int
    effect: str


DECISIONS = {"adopt": "adopt_existing_effect"}
"""Where the harness has another word for a decision than the table."""

EFFECTS: dict[type[ascertain.Outcome], str] = {
    ascertain.Applied: "committed",
    ascertain.NotApplied: "not_started",
    ascertain.Rejected: "rejected",
    ascertain.Unknown: "unknown",
}
"""Each outcome in the harness's words for the effect."""


class Revocable:
    """The limits of the first run, until they are revoked: then nothing is allowed or held."""

    def __init__(self) -> None:
        self.revoked = False

    def decide(self, request: Request) -> Ruling:
        """As the limits say, or no."""
        ruling = POLICY.decide(request)
        if not self.revoked:
            return ruling
        return msgspec.structs.replace(ruling, outcome="deny", reason="it was revoked")

    def grants(self, request: Request) -> tuple[Grant, ...]:
        """As the limits say, or none."""
        return () if self.revoked else POLICY.grants(request)


class Held:
    """Allows nothing: the step is recorded, and recovery decides whether it runs."""

    def decide(self, request: Request) -> Ruling:
        """No, for now."""
        ruling = POLICY.decide(request)
        return msgspec.structs.replace(ruling, outcome="deny", reason="recovery decides")

    def grants(self, request: Request) -> tuple[Grant, ...]:
        """None."""
        return ()


class Revocation:
    """The seam of recovery: throws the switch between its reads and its decision.

    That is after the look at the ledger; where recovery makes none, when it asks anew.
    """

    def __init__(self) -> None:
        self.of: Revocable | None = None

    def op(self, kind: str, call: Callable[[], T]) -> T:
        """Run the step."""
        if kind == "adapter.authorise":
            self._strike()
        result = call()
        if kind == "adapter.observe":
            self._strike()
        return result

    def _strike(self) -> None:
        if self.of is not None:
            self.of.revoked = True


def rows() -> list[Row]:
    """Run all cells. Raises AscertainError where a crash that was asked for did not happen."""
    with tempfile.TemporaryDirectory(prefix="ascertain-matrix-") as place:
        directory = Path(place)
        _interrupt_all(directory)
        seam = Revocation()
        with ascertain.open(directory / JOURNAL, policy=Held(), seam=seam) as journal:
            types = {
                terms: declare(journal, directory, idempotent=terms[0], readable=terms[1])
                for terms in sorted({cell.terms for cell in cells()})
            }
            return [
                _recover(cell, journal, types[cell.terms], cell.ledger(directory), seam)
                for cell in cells()
            ]


def _interrupt_all(directory: Path) -> None:
    """In a program of its own: it has one thread, so that it may fork."""
    roots = [SOURCE_ROOT, os.environ.get("PYTHONPATH", "")]
    ran = subprocess.run(
        [sys.executable, "-m", "ascertain.demo.cells", str(directory)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(root for root in roots if root)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=INTERRUPTED_S_MAX,
        check=False,
    )
    if ran.returncode:
        raise AscertainError("the crashes could not be made", fix=ran.stderr.strip()[-2000:])


def _recover(
    cell: Cell,
    journal: ascertain.Ascertain,
    pay: ascertain.Action,
    ledger: RemoteLedger,
    seam: Revocation,
) -> Row:
    """Recover one cell as far as its decision."""
    if journal.journal.action(cell.action_id) is None:
        # It died before its barrier: the journal has never heard of it. The same intent is
        # presented again, and held, so that recovery decides on it like on any other.
        cell.perform(pay)
    authority = Revocable()
    seam.of = authority if cell.revoked else None
    recovered = journal.recover(cell.action_id, authority=authority, act=False)
    seam.of = None
    return Row(
        crash_at=cell.crash_at,
        idempotent=cell.idempotent,
        readback=cell.readback,
        revoked=cell.revoked,
        decision=DECISIONS.get(recovered.decision, recovered.decision),
        commits=len(ledger.commits),
        effect=EFFECTS.get(type(recovered.outcome), "conflict"),
    )


def main(json: bool) -> int:
    """Print the matrix; 0 if it could be made."""
    try:
        found = rows()
    except AscertainError as error:
        print(f"ascertain matrix: {error}", file=sys.stderr)
        return 2
    if json:
        print(json_document.dumps(found, indent=2))
    else:
        _show(found)
    return 0


def _show(found: list[Row]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False, header_style="bold")
    for name in ("crash at", "keys", "read", "revoked", "decision", "commits", "effect"):
        table.add_column(name, no_wrap=True, justify="right" if name == "commits" else "left")
    word = {False: "no", True: "yes"}
    before = ""
    for row in found:
        first = row["crash_at"] != before
        if first:
            table.add_row()
        table.add_row(
            row["crash_at"] if first else "",
            word[row["idempotent"]],
            word[row["readback"]],
            word[row["revoked"]],
            row["decision"],
            str(row["commits"]),
            row["effect"],
        )
        before = row["crash_at"]
    Console().print(table)
