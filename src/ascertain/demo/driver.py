"""Runs the demo's workers, kills them at seeded points, and starts them again.

A worker is ``python -m MODULE ARGUMENTS --slot N --slots M``. It says ``begin ID`` on its standard
output before it takes up a payment and ``end ID`` after it, and exits with 0 when its share is
done. A kill falls a seeded time after a seeded beginning, so on a busy machine as on a fast one.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ascertain.errors import AscertainError
from ascertain.testing.programs import SOURCE_ROOT

DEADLINE_S = 120.0
AFTER_MS_MAX = 120
LAST_SPARED = 8
"""Beginnings at the end of a share without a kill: the worker could be done before it falls."""


@dataclass(frozen=True, slots=True, order=True)
class Kill:
    """SIGKILL for the worker of a slot, so long after its so-manieth beginning.

    Each kill takes a life: one that falls due while another is under way waits for the next life.
    """

    slot: int
    beginning: int
    after_ms: int


@dataclass(frozen=True, slots=True)
class Event:
    """A word of a worker about a payment: ``begin``, ``end`` or another one."""

    slot: int
    word: str
    action_id: str


@dataclass(frozen=True, slots=True)
class Driven:
    """What came of a run."""

    kills: int
    starts: int
    seconds: float


def plan_kills(seed: int, *, kills: int, slots: int, share: int) -> tuple[Kill, ...]:
    """So many kills, spread over slots and beginnings, each early enough to find its worker."""
    chance = random.Random(f"kills {seed}")
    last = max(1, share - LAST_SPARED)
    places = [(slot, beginning) for slot in range(slots) for beginning in range(1, last + 1)]
    chosen = chance.sample(places, min(kills, len(places)))
    return tuple(Kill(*place, chance.randrange(AFTER_MS_MAX)) for place in sorted(chosen))


@dataclass(slots=True)
class _Slot:
    number: int
    kills: list[Kill]
    begun: int = 0
    starts: int = 0
    killed: int = 0
    worker: subprocess.Popen[str] | None = None
    failure: str = ""


@dataclass(slots=True)
class Driver:
    """Workers of one module, side by side, until each has done its share."""

    module: str
    arguments: Sequence[str]
    slots: int
    kills: Sequence[Kill]
    logs: Path
    on_event: Callable[[Event], None] = lambda event: None
    deadline_s: float = DEADLINE_S
    _stopping: threading.Event = field(default_factory=threading.Event)
    _word: threading.Lock = field(default_factory=threading.Lock)

    def run(self) -> Driven:
        """Drive all slots to their end; whatever happens, no worker is left behind."""
        started = time.monotonic()
        slots = [
            _Slot(number, [kill for kill in sorted(self.kills) if kill.slot == number])
            for number in range(self.slots)
        ]
        threads = [
            threading.Thread(target=self._drive, args=(slot,), name=f"slot-{slot.number}")
            for slot in slots
        ]
        for thread in threads:
            thread.start()
        try:
            for thread in threads:
                thread.join(max(0.0, started + self.deadline_s - time.monotonic()))
        finally:
            late = [
                slot.number
                for slot, thread in zip(slots, threads, strict=True)
                if thread.is_alive()
            ]
            self._stopping.set()
            for slot in slots:
                if slot.worker is not None:
                    slot.worker.kill()
            for thread in threads:
                thread.join()
        self._check(slots, late)
        return Driven(
            kills=sum(slot.killed for slot in slots),
            starts=sum(slot.starts for slot in slots),
            seconds=time.monotonic() - started,
        )

    def _check(self, slots: list[_Slot], late: list[int]) -> None:
        failures = [f"slot {slot.number}: {slot.failure}" for slot in slots if slot.failure]
        if late:
            failures.append(f"slots {late} not done within {self.deadline_s:g} s")
        if failures:
            raise AscertainError(
                f"workers of {self.module} failed: {'; '.join(failures)}",
                fix=f"Their error output is in {self.logs}.",
            )

    def _drive(self, slot: _Slot) -> None:
        """One life after the other; a worker that ends by itself is done, or has failed."""
        for _ in range(len(slot.kills) + 1):
            try:
                killed, code = self._run_worker(slot)
            except Exception as error:
                slot.failure = repr(error)
                return
            if self._stopping.is_set():
                return
            if not killed:
                slot.failure = f"exit code {code}" if code else ""
                return
            slot.killed += 1

    def _run_worker(self, slot: _Slot) -> tuple[bool, int]:
        """One life of a worker: whether we killed it, and its exit code."""
        struck = threading.Event()
        timer: threading.Timer | None = None
        slot.starts += 1
        with open(self.logs / f"worker-{slot.number}.log", "a", encoding="utf-8") as log:
            worker = self._start(slot, log.fileno())
        try:
            assert worker.stdout is not None
            for line in worker.stdout:
                word, _, action_id = line.strip().partition(" ")
                with self._word:
                    self.on_event(Event(slot.number, word, action_id))
                slot.begun += word == "begin"
                if timer is None and slot.kills and slot.kills[0].beginning <= slot.begun:
                    timer = _arm(slot.kills.pop(0), worker, struck)
            code = worker.wait()
        finally:
            if timer is not None:
                timer.cancel()
                timer.join()
            worker.kill()
            worker.wait()
            if worker.stdout is not None:
                worker.stdout.close()
        return struck.is_set() and code < 0, code

    def _start(self, slot: _Slot, log: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", self.module, *self.arguments]
        command += ["--slot", str(slot.number), "--slots", str(self.slots)]
        roots = [SOURCE_ROOT, os.environ.get("PYTHONPATH", "")]
        worker = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(root for root in roots if root)},
        )
        slot.worker = worker
        if self._stopping.is_set():
            worker.kill()
        return worker


def _arm(kill: Kill, worker: subprocess.Popen[str], struck: threading.Event) -> threading.Timer:
    """Start the timer of a kill."""

    def strike() -> None:
        if worker.poll() is None:
            struck.set()
            worker.kill()

    timer = threading.Timer(kill.after_ms / 1000, strike)
    timer.start()
    return timer
