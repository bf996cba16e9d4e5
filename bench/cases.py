"""What is measured. Each case returns rows; a folder of its own is its disk."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from ascertain.core.cut import Sources, cut
from ascertain.core.judgement import ALL_VERBS, Context, judge

from . import actions, bare
from .harness import Row, interleaved, row, speed

EACH = 150
ROUNDS = 9
THREADS = 64


def _fill(act: Any, prefix: str, count: int) -> None:
    for number in range(count):
        actions.perform(act, f"{prefix}-{number}")


def serial(folder: Path) -> Iterator[Row]:
    """`perform` of a no-op against two bare transactions with the same bytes."""
    journal, act = actions.opened(folder / "ours")
    actions.perform(act, "shape")
    first, second = actions.written(journal, "shape")
    conn = bare.database(folder / "bare.db")

    def yardstick(turn: int) -> None:
        for number in range(EACH):
            bare.commit(conn, f"{turn}-{number}", first)
            bare.commit(conn, f"{turn}-{number}", second)

    pairs = interleaved(lambda turn: _fill(act, f"r{turn}", EACH), yardstick, ROUNDS)
    named = "bare script, the same bytes in two transactions"
    yield row("serial perform", speed(pairs), named, ">= 0.75", "speed ratio")
    above = [(ours.cpu - bare.cpu) / EACH * 1e6 for ours, bare in pairs]
    yield row("serial perform, processor time above", above, named, "<= 150", "µs each")
    journal.close()


def _threads(count: int, run: Callable[[int], None]) -> None:
    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def shared(folder: Path) -> Iterator[Row]:
    """64 threads of `perform` against 64 bare threads, and against one that commits 64."""
    journal, act = actions.opened(folder / "ours")
    actions.perform(act, "shape")
    first, second = actions.written(journal, "shape")
    each = 12
    together = bare.Shared(bare.database(folder / "bare.db"))
    conn = bare.database(folder / "alone.db")

    def ours(turn: int) -> None:
        _threads(THREADS, lambda n: _fill(act, f"t{turn}-{n}", each))

    def bare_threads(turn: int) -> None:
        def run(number: int) -> None:
            for step in range(each):
                together.commit(f"{turn}-{number}-{step}", first)
                together.commit(f"{turn}-{number}-{step}", second)

        _threads(THREADS, run)

    def alone(turn: int) -> None:
        for _ in range(each):
            bare.commit(conn, str(turn), first * THREADS)
            bare.commit(conn, str(turn), second * THREADS)

    pairs = interleaved(ours, bare_threads, ROUNDS)
    named = "64 bare threads that share commits the same way"
    yield row("64 threads of perform", speed(pairs), named, ">= 0.60", "speed ratio")
    pairs = interleaved(ours, alone, ROUNDS)
    named = "one bare thread that commits 64 at a time"
    yield row("64 threads against one", speed(pairs), named, ">= 0.30 (goal)", "speed ratio")
    journal.close()


def apply(folder: Path) -> Iterator[Row]:
    """`apply` in one file against one bare transaction with the same bytes and the effect."""
    import ascertain
    from ascertain import limits, sqlite_marker

    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "ours.db"
    journal = ascertain.open(path, policy=limits())
    store = sqlite_marker(str(path))
    conn = bare.database(folder / "bare.db")
    own = _connect(path)
    for each in (own, conn):
        each.execute("CREATE TABLE ledger (name TEXT, amount INTEGER)")

    @journal.local_action("post", contract=ascertain.contracts.local("ledger"), store=store)
    def post(call: Any, *, payee: str, amount_pence: int) -> Any:
        call.connection.execute("INSERT INTO ledger VALUES (?, ?)", (payee, amount_pence))
        return {"posted": amount_pence}

    post.apply("shape", connection=own, payee="Northwind", amount_pence=125_000)
    bodies = [body for part in actions.written(journal, "shape") for body in part]

    def ours(turn: int) -> None:
        for number in range(EACH):
            post.apply(f"{turn}-{number}", connection=own, payee="Northwind", amount_pence=125_000)

    def yardstick(turn: int) -> None:
        for number in range(EACH):
            conn.execute("BEGIN IMMEDIATE")
            conn.execute("INSERT INTO ledger VALUES (?, ?)", ("Northwind", 125_000))
            conn.executemany(
                "INSERT INTO record (name, body) VALUES (?, ?)",
                [(f"{turn}-{number}", body) for body in bodies],
            )
            conn.execute("COMMIT")

    pairs = interleaved(ours, yardstick, ROUNDS)
    named = "bare script, effect and the same bytes in one transaction"
    yield row("apply", speed(pairs), named, ">= 0.75", "speed ratio")
    journal.close()


def _connect(path: Path) -> Any:
    import sqlite3

    conn = sqlite3.connect(path, isolation_level=None, timeout=30)
    conn.execute("PRAGMA synchronous = FULL")
    return conn


def judging(folder: Path) -> Iterator[Row]:
    """Cut, outcome and decision of a lineage of eight records."""
    from ascertain import Precondition

    lossy = actions.Outside()
    journal, act = actions.opened(folder / "ours", lossy)
    lossy.losing = True
    for _ in range(2):  # the second call looks, and finds it
        act.perform(
            "shape",
            payee="Northwind",
            amount_pence=125_000,
            preconditions=[Precondition("account-7", "at-version", "41")],
        )
    entries = journal.journal.entries("shape")
    context = Context(observable=True, authority=True, verbs=ALL_VERBS)
    sources = Sources(True, journal.journal.sources.incarnation)
    times: list[float] = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for _ in range(500):
            judge(cut(entries, as_of=1, sources=sources), "shape", actions.CONTRACT, context)
        times.append((time.perf_counter() - start) / 500 * 1e6)
    name = f"cut, outcome and decision of {len(entries)} records"
    yield row(name, times, "none: a time, for the budget", "<= 100", "µs")
    journal.close()


def million(folder: Path, count: int = 1_000_000) -> Iterator[Row]:
    """`perform` in a journal of a million actions against one in an empty journal."""
    from .grown import grow

    empty, few = actions.opened(folder / "empty")
    full, many = actions.opened(folder / "full")
    grow(full, many, count)
    pairs = interleaved(
        lambda turn: _fill(many, f"m{turn}", EACH),
        lambda turn: _fill(few, f"m{turn}", EACH),
        ROUNDS,
    )
    costs = [ours.wall / empty_.wall for ours, empty_ in pairs]
    named = "perform in an empty journal"
    yield row(f"perform among {count:,} actions", costs, named, "<= 1.2", "cost ratio")
    empty.close()
    full.close()


def recovery(folder: Path, closed: int = 100_000) -> Iterator[Row]:
    """Recovery of unknown actions among many closed ones against among none."""
    from .grown import grow

    lossy = actions.Outside()
    alone, few = actions.opened(folder / "alone", lossy)
    among, many = actions.opened(folder / "among", lossy)
    grow(among, many, closed)

    def unknown(act: Any, turn: int) -> None:
        lossy.losing = True
        _fill(act, f"u{turn}", 100)
        lossy.losing = False

    def run(journal: Any, act: Any, turn: int) -> float:
        unknown(act, turn)
        start = time.perf_counter()
        for found in journal.journal.open_actions(most=100):
            journal.recover(found.action_id)
        return time.perf_counter() - start

    ratios: list[float] = []
    for turn in range(ROUNDS + 1):
        base = run(alone, few, turn)
        ratios.append(run(among, many, turn) / base)
    del ratios[0]
    named = "the same with no closed actions"
    name = f"recovery of {100 * ROUNDS} unknown among {closed:,} closed"
    yield row(name, ratios, named, "about 1", "cost ratio")
    alone.close()
    among.close()


def importing(folder: Path) -> Iterator[Row]:
    """`import ascertain` beyond the bare interpreter."""
    import subprocess
    import sys

    def run(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - start

    times = [(run("import ascertain") - run("pass")) * 1e3 for _ in range(ROUNDS)]
    yield row("import ascertain", times, "an empty interpreter", "<= 150", "ms above")


CASES: dict[str, Callable[[Path], Iterator[Row]]] = {
    "serial": serial,
    "shared": shared,
    "apply": apply,
    "judging": judging,
    "recovery": recovery,
    "million": million,
    "importing": importing,
}
