"""Interleaved timing of two things, and the rows of ``bench/results.json``."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Row:
    """One figure. ``ratio``: the median; ``low``, ``high``: the quartiles; ``target``: in words."""

    name: str
    ratio: float
    low: float
    high: float
    yardstick: str
    target: str
    unit: str

    def plain(self) -> dict[str, Any]:
        """The row as JSON has it."""
        return {
            key: round(value, 4) if isinstance(value, float) else value
            for key, value in asdict(self).items()
        }


@dataclass(frozen=True)
class Spent:
    """Seconds of one round: on the clock and of the processor."""

    wall: float
    cpu: float


def timed(run: Callable[[int], object], number: int) -> Spent:
    """One round."""
    wall, cpu = time.perf_counter(), time.process_time()
    run(number)
    return Spent(time.perf_counter() - wall, time.process_time() - cpu)


def interleaved(
    ours: Callable[[int], object], yardstick: Callable[[int], object], rounds: int
) -> list[tuple[Spent, Spent]]:
    """(ours, yardstick) for each round, one after the other, the order turned each time."""
    pairs: list[tuple[Spent, Spent]] = []
    for number in range(rounds + 1):
        if number % 2:
            first = timed(ours, number)
            second = timed(yardstick, number)
        else:
            second = timed(yardstick, number)
            first = timed(ours, number)
        if number:  # the first round warms up
            pairs.append((first, second))
    return pairs


def row(name: str, values: list[float], yardstick: str, target: str, unit: str) -> Row:
    """Median and quartiles of the rounds."""
    low, middle, high = statistics.quantiles(values, n=4)
    return Row(name, middle, low, high, yardstick, target, unit)


def speed(pairs: list[tuple[Spent, Spent]]) -> list[float]:
    """Our speed in parts of the yardstick's."""
    return [yardstick.wall / ours.wall for ours, yardstick in pairs]
