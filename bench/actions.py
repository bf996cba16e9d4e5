"""The actions that are measured: a no-op outside, and a row in a database of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ascertain
from ascertain import DAY, Consistency, Contract, InFlight, Readback, limits

CONTRACT = Contract(
    name="no-op",
    surface=(),
    readback=Readback(
        by="action_id", consistency=Consistency.LINEARIZABLE, keeps_records=True, retention=DAY
    ),
    in_flight=InFlight(after_release=1, after_close=1),
)


class Outside:
    """A provider that does nothing, or loses every reply."""

    def __init__(self) -> None:
        self.losing = False

    def call(self, action_id: str) -> dict[str, str]:
        """The effect."""
        if self.losing:
            raise TimeoutError("lost")
        return {"id": action_id}


def opened(folder: Path, outside: Outside | None = None) -> tuple[Any, Any]:
    """A journal in the folder, and its no-op action."""
    folder.mkdir(parents=True, exist_ok=True)
    provider = outside or Outside()
    journal = ascertain.open(folder / "journal.db", policy=limits({"amount_pence": 1_000_000}))

    @journal.action("no-op", contract=CONTRACT)
    def act(call: Any, *, payee: str, amount_pence: int) -> Any:
        return provider.call(call.action_id)

    @act.observer
    def find(question: Any) -> Any:
        return ascertain.Seen(
            question.action_id, fields={"payee": "Northwind", "amount_pence": 125_000}
        )

    return journal, act


def perform(act: Any, action_id: str) -> None:
    """One payment, as everywhere in these figures."""
    act.perform(action_id, payee="Northwind", amount_pence=125_000)


def written(journal: Any, action_id: str) -> tuple[list[bytes], list[bytes]]:
    """The bytes that the action's two transactions committed."""
    entries = journal.journal.entries(action_id)
    kinds = [type(entry.record).__name__ for entry in entries]
    split = kinds.index("AttemptReleased") + 1
    raws = [entry.raw for entry in entries]
    return raws[:split], raws[split:]
