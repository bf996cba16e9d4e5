"""The cells of the crash matrix, and the worker that is killed in each of them.

``python -m ascertain.demo.cells DIRECTORY`` performs the payment of every cell in a process
of its own, and kills that process at the cell's crash point. What is left is the journal,
and the ledgers outside.
"""

from __future__ import annotations

import itertools
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import ascertain
from ascertain.demo.ledger import (
    ACCOUNT,
    ACCOUNT_VERSION,
    MAXIMUM_PENCE,
    PREDICATE,
    RemoteLedger,
    declare,
    ledger_of,
)
from ascertain.errors import AscertainError

T = TypeVar("T")

CRASH_POINTS = ("none", "after_authority", "after_send", "after_remote_commit", "after_receipt")
JOURNAL = "matrix.db"
POLICY = ascertain.limits({"amount_pence": MAXIMUM_PENCE}, actor="allow-17")
PAYEE, AMOUNT_PENCE = "Northwind", 125_000


@dataclass(frozen=True, slots=True)
class Cell:
    """One combination of a crash point, what the ledger can do, and what was revoked since."""

    number: int
    crash_at: str
    idempotent: bool
    readback: bool
    revoked: bool

    @property
    def action_id(self) -> str:
        """The payment's id; each cell pays its own."""
        return f"pay-run-190-v3-cell-{self.number:02d}"

    @property
    def terms(self) -> tuple[bool, bool]:
        """What the ledger can do: does it know keys, and can it be read?"""
        return self.idempotent, self.readback

    def ledger(self, directory: Path) -> RemoteLedger:
        """The external system of this cell."""
        return ledger_of(
            directory, self.action_id, idempotent=self.idempotent, readable=self.readback
        )

    def perform(
        self, pay: ascertain.Action, *, authority: ascertain.Authority | None = None
    ) -> ascertain.Outcome:
        """Present the payment of the cell, always the same one."""
        return pay.perform(
            self.action_id,
            payee=PAYEE,
            amount_pence=AMOUNT_PENCE,
            intent=ascertain.Intent(
                execution_id="run-190",
                step_id="pay",
                version=3,
                subject=ACCOUNT,
                purpose="supplier-payment",
            ),
            preconditions=[ascertain.Precondition(ACCOUNT, PREDICATE, ACCOUNT_VERSION)],
            authority=authority,
        )


def cells() -> tuple[Cell, ...]:
    """All 40, in the order in which they are shown."""
    flags = (False, True)
    combinations = itertools.product(CRASH_POINTS, flags, flags, flags)
    return tuple(Cell(number, *facts) for number, facts in enumerate(combinations, 1))


KILLED_AFTER = {
    "after_authority": "adapter.authorise",
    "after_remote_commit": "adapter.release",
    "after_receipt": "journal.settle",
}
KILLED_BEFORE = {"after_send": "adapter.release"}
"""The step of `perform` that each crash point stands after or before."""


class Crash:
    """The seam of a worker that is killed at one point of `perform`.

    The payment passes the points in the order of `CRASH_POINTS`: authority is asked, the
    attempt is durable and about to be released, the effect is there, its receipt is durable.
    """

    def __init__(self, crash_at: str) -> None:
        self.crash_at = crash_at

    def op(self, kind: str, call: Callable[[], T]) -> T:
        """Run the step; be killed before or after it where the point says so."""
        if KILLED_BEFORE.get(self.crash_at) == kind:
            os.kill(os.getpid(), signal.SIGKILL)
        result = call()
        if KILLED_AFTER.get(self.crash_at) == kind:
            os.kill(os.getpid(), signal.SIGKILL)
        return result


def interrupt(cell: Cell, directory: Path) -> None:
    """Perform the cell's payment in a process that dies at its point. Raises AscertainError."""
    child = os.fork()
    if not child:
        code = 1
        try:
            seam = Crash(cell.crash_at)
            with ascertain.open(directory / JOURNAL, policy=POLICY, seam=seam) as journal:
                idempotent, readable = cell.terms
                pay = declare(journal, directory, idempotent=idempotent, readable=readable)
                cell.perform(pay)
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    wanted = 0 if cell.crash_at == "none" else -signal.SIGKILL
    ended = os.waitstatus_to_exitcode(status)
    if ended != wanted:
        raise AscertainError(
            f"the worker of cell {cell.number} ({cell.crash_at}) ended with {ended}, not {wanted}",
            fix="The crash was asked for and did not happen: the matrix would show nothing.",
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Interrupt every cell."""
    (directory,) = sys.argv[1:] if arguments is None else arguments
    try:
        for cell in cells():
            interrupt(cell, Path(directory))
    except AscertainError as error:
        print(error, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
