"""What the killed processes do: one payment, a provider that outlives them, and the books of both.

The provider is an append-only file: what is appended has happened, whatever becomes of the
process that sent it. Its kinds:

``key``       a repeated key gets the first result; nothing can be read back
``readback``  every read is current, and reads records; nothing lands once the sender is dead
``seal``      as ``readback``, with a fence that can be sealed, and no bound in flight
``neither``   neither key nor readback
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import ascertain as a
from ascertain.core.cut import chain_violations
from ascertain.core.evidence import Source
from ascertain.declaration import declare
from ascertain.observers import Question
from ascertain.opened import Action, Ascertain
from tests.interrupt.forked import Point, Striker

KINDS = ("key", "readback", "seal", "neither")
FATES = ("commits", "dropped", "lost")
TERMINAL = ("adopt", "quarantine", "reauthorise")


class Ledger:
    """The provider's books: one line for each effect, reversal and seal."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @contextmanager
    def _locked(self) -> Iterator[None]:
        handle = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)  # also for a child that was forked meanwhile
            os.close(handle)

    def lines(self) -> list[dict[str, Any]]:
        """Everything that has happened."""
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_text().splitlines()]

    def effects(self, action_id: str, kind: str = "effect") -> list[dict[str, Any]]:
        """What has happened under an id."""
        return [x for x in self.lines() if x["action_id"] == action_id and x["kind"] == kind]

    def add(self, kind: str, action_id: str, *, key: str = "", **fields: Any) -> dict[str, Any]:
        """One effect; under a key that was used before, the first one."""
        with self._locked():
            known = [x for x in self.lines() if key and x["key"] == key]
            if known:
                return known[0]
            if kind == "effect" and self.effects(action_id, "seal"):
                return {}
            return self._append(kind, action_id, key, fields)

    def seal(self, action_id: str) -> bool:
        """Refuse the id from now on, unless it had its effect."""
        with self._locked():
            if self.effects(action_id):
                return False
            if not self.effects(action_id, "seal"):
                self._append("seal", action_id, "", {})
            return True

    def _append(self, kind: str, action_id: str, key: str, fields: Any) -> dict[str, Any]:
        number = len(self.lines()) + 1
        line = {"kind": kind, "action_id": action_id, "key": key, "id": f"{kind}-{number}"}
        line |= fields
        with self.path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return line


class FileFence:
    """The ledger's seal, as observer and sealer."""

    fence = "ledger/seals"

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self.source = Source("ledger", "provider", a.Consistency.LINEARIZABLE)

    def observe(self, question: Question) -> Any:
        """What the books say."""
        return readings(self.ledger, question)

    def seal(self, question: Question) -> bool:
        """No effect from now on."""
        return self.ledger.seal(question.action_id)


def readings(ledger: Ledger, question: Question) -> Any:
    """Every effect under the id, with what undid it."""
    undone = {x["of"]: x["id"] for x in ledger.lines() if x["kind"] == "reversal"}
    return [
        a.Seen(
            x["id"],
            fields={"payee": x["payee"], "amount": x["amount"]},
            action_id=x["action_id"],
            reversed_by=undone.get(x["id"]),
        )
        for x in ledger.effects(question.action_id)
    ] or a.Absent()


def contract(kind: str, **changes: Any) -> a.Contract:
    """What each kind of provider promises."""
    read = a.Readback(
        by="action_id",
        consistency=a.Consistency.LINEARIZABLE,
        keeps_records=True,
        retention=a.DAY,
    )
    parts: dict[str, dict[str, Any]] = {
        "key": {
            "key": a.Key(scope=a.Scope.PROVIDER, first_result=True, retention=a.FOR_EVER),
        },
        "readback": {"readback": read, "in_flight": a.InFlight(after_release=0, after_close=0)},
        "seal": {"readback": read, "seal": a.Seal(reach="action", store="ledger")},
        "neither": {},
    }
    return a.Contract(**{"name": f"pay-{kind}", "surface": (), **parts[kind], **changes})


class Scene:
    """One process's view: its journal, its action and the provider's books."""

    def __init__(
        self,
        place: Path,
        kind: str,
        *,
        fate: str = "commits",
        point: Point | None = None,
        striker: Striker | None = None,
        lease: int = 60 * a.SECOND,
        terms: a.Contract | None = None,
        policy: Any = None,
        clock: Any = None,
    ) -> None:
        self.kind = kind
        self.fate = fate
        self.ledger = Ledger(place / "ledger.jsonl")
        self.striker = striker or Striker(point)
        if point is not None and point.kind == "sql":
            self.striker.follow_sql()
        self.journal: Ascertain = a.open(
            place / "journal.db",
            policy=policy or a.limits({"amount": 1000}),
            lease=lease,
            seam=self.striker,
            clock=clock,
        )
        self.sent = 0
        self.pay = self._declare(terms or contract(kind))

    def _declare(self, terms: a.Contract) -> Action:
        def pay(call: Any, *, payee: str, amount: int) -> Any:
            return self.send(call, payee, amount)

        if self.kind == "seal":
            fence = FileFence(self.ledger)
            action = self.journal.register(
                declare(pay, name="pay", contract=terms, observers=(fence,), sealer=fence)
            )
        else:
            action = self.journal.action("pay", contract=terms)(pay)
            if terms.readback.by != "none":
                action.observer(lambda question: readings(self.ledger, question))

        @action.compensator(reversibility="exact_inverse", contract=undo_terms(self.kind))
        def undo(call: Any, effect: Any) -> Any:
            line = self.ledger.add("reversal", call.action_id, key=call.key, of=effect.reference)
            return {"id": line["id"]}

        return action

    def send(self, call: Any, payee: str, amount: int) -> Any:
        """What the provider does with a request, by its fate."""
        self.sent += 1
        if self.fate == "dropped":
            raise ConnectionResetError("dropped on the way")
        key = call.key if self.kind == "key" else ""
        line = self.ledger.add("effect", call.action_id, key=key, payee=payee, amount=amount)
        if not line:
            raise a.Refusal("sealed")
        if self.fate == "lost":
            raise ConnectionResetError("the reply was lost")
        return {"id": line["id"]}

    @staticmethod
    def effects_at(place: Path, action_id: str = "pay") -> int:
        """How many effects the provider's books show."""
        return len(Ledger(place / "ledger.jsonl").effects(action_id))

    def perform(self, action_id: str, amount: int = 7, **options: Any) -> Any:
        """The payment."""
        return self.pay.perform(action_id, payee="Northwind", amount=amount, **options)

    def verify(self, action_id: str) -> None:
        """The lineage's chain holds, and nothing in it contradicts the rest."""
        row = self.journal.journal.action(action_id)
        if row is not None:
            entries = self.journal.journal.entries(row.root_id)
            assert chain_violations(entries) == []
            root = self.journal.journal.action(row.root_id)
            assert root is not None
            assert (root.position, root.head) == (entries[-1].position, entries[-1].digest)


def undo_terms(kind: str) -> a.Contract:
    """The reversal's own contract: it is keyed, so that it can be sent again."""
    return a.Contract(
        name=f"undo-{kind}",
        surface=(),
        key=a.Key(scope=a.Scope.PROVIDER, first_result=True, retention=a.FOR_EVER),
    )


def word(outcome: Any) -> str:
    """An outcome's name."""
    return "nothing" if outcome is None else type(outcome).__name__
