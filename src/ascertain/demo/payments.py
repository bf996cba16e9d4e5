"""The supplier payments of one run, the same ones for the same seed."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

SUPPLIERS = (
    "Aldersgate Print",
    "Brookfield Timber",
    "Calder Freight",
    "Dunmore Glass",
    "Eastgate Catering",
    "Fenwick Tools",
    "Granary Foods",
    "Hollin Textiles",
    "Ironbridge Cast",
    "Northwind",
)


@dataclass(frozen=True, slots=True)
class Payment:
    """One approved payment to one supplier."""

    action_id: str
    payee: str
    amount_pence: int


def payments(seed: int, count: int = 200) -> tuple[Payment, ...]:
    """The approved payments of the run with this seed."""
    chance = random.Random(f"payments {seed}")
    return tuple(
        Payment(
            action_id=f"pay-run-{seed}-{number:03d}",
            payee=chance.choice(SUPPLIERS),
            amount_pence=chance.randrange(1_000, 250_000),
        )
        for number in range(1, count + 1)
    )


def write_payments(path: Path, run: Iterable[Payment]) -> None:
    """Put a run where its workers find it."""
    path.write_text(json.dumps([asdict(payment) for payment in run]), encoding="utf-8")


def read_payments(path: Path, *, slot: int = 0, slots: int = 1) -> tuple[Payment, ...]:
    """The share of one worker: every ``slots``-th payment."""
    run = json.loads(path.read_text(encoding="utf-8"))
    return tuple(Payment(**fields) for fields in run)[slot::slots]
