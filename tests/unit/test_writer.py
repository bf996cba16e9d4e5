"""The shared writer, on real files with real threads, forks, signals and full disks."""

import asyncio
import ctypes
import itertools
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import textwrap
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ascertain.errors import AmbiguousCommit, JournalError, JournalUnavailable, NotAJournal
from ascertain.journal import forks
from ascertain.journal.writer import BATCH_CAP, SharedWriter

SECONDS = 60
"""No step of a test takes longer, unless somebody is left waiting for ever."""


def opener(
    path: Path, *, timeout: float = 30.0, pages: int = 0
) -> Callable[[], sqlite3.Connection]:
    def connect() -> sqlite3.Connection:
        conn = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=timeout)
        try:
            conn.execute("PRAGMA journal_mode=WAL")
            conn.execute("PRAGMA synchronous=FULL")
            conn.execute("CREATE TABLE IF NOT EXISTS row (name TEXT UNIQUE, note TEXT)")
            if pages:
                conn.execute(f"PRAGMA max_page_count={pages}")
        except BaseException:
            conn.close()
            raise
        return conn

    return connect


def add(name: str, note: str = "") -> Callable[[sqlite3.Connection], str]:
    def work(conn: sqlite3.Connection) -> str:
        conn.execute("INSERT INTO row VALUES (?, ?)", (name, note))
        return name

    return work


def names(path: Path) -> list[str]:
    conn = sqlite3.connect(path)
    try:
        return [name for (name,) in conn.execute("SELECT name FROM row ORDER BY rowid")]
    finally:
        conn.close()


def count(conn: sqlite3.Connection) -> int:
    return int(conn.execute("SELECT count(*) FROM row").fetchone()[0])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.db"


@pytest.fixture
def writer(path: Path) -> Iterator[SharedWriter]:
    made = SharedWriter(opener(path))
    yield made
    made.close()


class Calls:
    """Runs submits on threads of their own and keeps what each of them got."""

    def __init__(self, writer: SharedWriter) -> None:
        self.writer = writer
        self.threads: list[threading.Thread] = []
        self.got: dict[str, object] = {}

    def start(self, key: str, work: Callable[[sqlite3.Connection], object]) -> threading.Thread:
        def run() -> None:
            try:
                self.got[key] = self.writer.submit(work)
            except BaseException as error:
                self.got[key] = error

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        self.threads.append(thread)
        return thread

    def join(self) -> dict[str, object]:
        until = time.monotonic() + SECONDS
        for thread in self.threads:
            thread.join(max(0.0, until - time.monotonic()))
            assert not thread.is_alive(), "a caller was left waiting"
        return self.got


class Held:
    """A work that stops the leader inside its transaction until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Event()
        self.go = threading.Event()

    def __call__(self, conn: sqlite3.Connection) -> str:
        self.entered.set()
        assert self.go.wait(SECONDS)
        return "held"


class Gate:
    """A hook after commits. It counts the rows, and can keep the seat once, after a commit."""

    def __init__(self) -> None:
        self.counts: list[int] = []
        self.closed = False
        self.entered = threading.Event()
        self.go = threading.Event()

    def __call__(self, conn: sqlite3.Connection) -> None:
        self.counts.append(count(conn))
        if self.closed:
            self.closed = False
            self.entered.set()
            assert self.go.wait(SECONDS)


def wait_until(holds: Callable[[], bool]) -> None:
    until = time.monotonic() + SECONDS
    while not holds():
        assert time.monotonic() < until, "this never became true"
        time.sleep(0.002)


def queued(writer: SharedWriter, n: int) -> None:
    wait_until(lambda: sum(not r.done for r in writer._queue) >= n)


def raise_in(thread: threading.Thread, kind: type[BaseException] = KeyboardInterrupt) -> None:
    assert thread.ident is not None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident), ctypes.py_object(kind))


# -- what is shared ---------------------------------------------------------------------------


def test_a_lone_caller_commits_on_its_own_thread(writer: SharedWriter, path: Path) -> None:
    before = set(threading.enumerate())
    assert writer.submit(lambda conn: threading.get_ident()) == threading.get_ident()
    assert writer.submit(add("a")) == "a"
    assert names(path) == ["a"]
    assert set(threading.enumerate()) == before


def test_those_that_wait_share_one_commit(path: Path) -> None:
    gate = Gate()
    writer = SharedWriter(opener(path), committed=gate)
    works = {f"n{n}": add(f"n{n}") for n in range(20)}
    assert in_one_batch(writer, gate, works) == {f"n{n}": f"n{n}" for n in range(20)}
    assert gate.counts == [0, 20]
    writer.close()


def test_those_that_come_while_works_run_are_taken_along(path: Path) -> None:
    gate = Gate()
    writer = SharedWriter(opener(path), committed=gate)
    calls, held = Calls(writer), Held()
    calls.start("held", held)
    assert held.entered.wait(SECONDS)
    for n in range(20):
        calls.start(f"n{n}", add(f"n{n}"))
    queued(writer, 20)
    held.go.set()
    assert calls.join() == {"held": "held", **{f"n{n}": f"n{n}" for n in range(20)}}
    assert gate.counts == [20]
    assert not writer._queue
    writer.close()


def test_a_batch_has_a_cap(path: Path) -> None:
    gate = Gate()
    writer = SharedWriter(opener(path), committed=gate)
    works = {f"n{n}": add(f"n{n}") for n in range(BATCH_CAP + 10)}
    in_one_batch(writer, gate, works)
    assert gate.counts == [0, BATCH_CAP, BATCH_CAP + 10]
    assert not writer._queue
    writer.close()


def test_many_threads_lose_nothing(writer: SharedWriter, path: Path) -> None:
    calls = Calls(writer)

    def loop(worker: int) -> Callable[[], None]:
        return lambda: [writer.submit(add(f"{worker}.{n}")) for n in range(50)] and None

    threads = [threading.Thread(target=loop(worker)) for worker in range(16)]
    for thread in threads:
        thread.start()
    calls.threads = threads
    calls.join()
    found = names(path)
    assert sorted(found) == sorted(f"{w}.{n}" for w in range(16) for n in range(50))
    for worker in range(16):  # each caller's own works are in its order
        own = [name for name in found if name.startswith(f"{worker}.")]
        assert own == [f"{worker}.{n}" for n in range(50)]


def test_a_returned_submit_is_seen_by_another_connection_at_once(
    writer: SharedWriter, path: Path
) -> None:
    other = opener(path)()
    for n in range(20):
        writer.submit(add(str(n)))
        assert count(other) == n + 1
    other.close()


def test_many_processes_share_the_file(path: Path) -> None:
    opener(path)().close()
    pids = []
    for worker in range(4):
        pid = os.fork()
        if not pid:
            mine = SharedWriter(opener(path))
            code = 1
            try:
                for n in range(25):
                    mine.submit(add(f"{worker}.{n}"))
                code = 0
            finally:
                os._exit(code)
        pids.append(pid)
    assert [os.waitpid(pid, 0)[1] for pid in pids] == [0] * 4
    assert sorted(names(path)) == sorted(f"{w}.{n}" for w in range(4) for n in range(25))


# -- works that fail --------------------------------------------------------------------------


def in_one_batch(
    writer: SharedWriter,
    gate: Gate,
    works: dict[str, Callable[[sqlite3.Connection], object]],
    then: Callable[[], object] = bool,
) -> dict[str, object]:
    """All the works end up in one batch, in this order, after a commit of nothing."""
    calls = Calls(writer)
    gate.closed = True
    calls.start("first", lambda conn: "first")
    assert gate.entered.wait(SECONDS)
    for n, (key, work) in enumerate(works.items(), 1):
        calls.start(key, work)
        queued(writer, n)
    then()
    gate.go.set()
    got = calls.join()
    assert got.pop("first") == "first"
    return got


def test_a_refusal_before_writing_fails_only_itself(path: Path) -> None:
    gate = Gate()
    runs: Counter[str] = Counter()
    writer = SharedWriter(opener(path), committed=gate)

    def lost(conn: sqlite3.Connection) -> None:
        runs["lost"] += 1
        raise LookupError("the lineage has moved on")

    def counted(name: str) -> Callable[[sqlite3.Connection], str]:
        def work(conn: sqlite3.Connection) -> str:
            runs[name] += 1
            return add(name)(conn)

        return work

    got = in_one_batch(writer, gate, {"a": counted("a"), "lost": lost, "b": counted("b")})
    assert (got["a"], got["b"]) == ("a", "b")
    assert isinstance(got["lost"], LookupError)
    assert names(path) == ["a", "b"]
    assert gate.counts == [0, 2]
    assert runs == {"a": 1, "lost": 1, "b": 1}
    writer.close()


def test_a_failure_after_writing_is_rolled_back_and_the_others_run_again(path: Path) -> None:
    gate = Gate()
    runs: Counter[str] = Counter()
    writer = SharedWriter(opener(path), committed=gate)

    def counted(name: str) -> Callable[[sqlite3.Connection], str]:
        def work(conn: sqlite3.Connection) -> str:
            runs[name] += 1
            return add(name)(conn)

        return work

    def broken(conn: sqlite3.Connection) -> None:
        runs["broken"] += 1
        add("half")(conn)
        raise ValueError("after the first row")

    got = in_one_batch(writer, gate, {"a": counted("a"), "broken": broken, "b": counted("b")})
    assert (got["a"], got["b"]) == ("a", "b")
    assert isinstance(got["broken"], ValueError)
    assert names(path) == ["a", "b"]
    assert runs == {"a": 2, "broken": 2, "b": 1}
    writer.close()


def test_a_broken_constraint_does_not_roll_back_the_batch(path: Path) -> None:
    gate = Gate()
    writer = SharedWriter(opener(path), committed=gate)
    writer.submit(add("taken"))
    got = in_one_batch(writer, gate, {"a": add("a"), "taken": add("taken"), "b": add("b")})
    assert isinstance(got["taken"], sqlite3.IntegrityError)
    assert names(path) == ["taken", "a", "b"]
    writer.close()


def test_a_work_that_ends_the_transaction_is_ambiguous(writer: SharedWriter) -> None:
    def ends(conn: sqlite3.Connection) -> None:
        conn.execute("COMMIT")

    with pytest.raises(AmbiguousCommit):
        writer.submit(ends)
    assert writer.submit(add("next")) == "next"


def test_a_work_may_not_submit(writer: SharedWriter, path: Path) -> None:
    with pytest.raises(JournalError, match="inside a work"):
        writer.submit(lambda conn: writer.submit(add("inner")))
    with pytest.raises(JournalError, match="inside a work"):
        writer.submit(lambda conn: writer.close())
    assert writer.submit(add("next")) == "next"
    assert names(path) == ["next"]


# -- places that refuse -----------------------------------------------------------------------


def test_a_lock_that_is_not_given_writes_nothing(path: Path) -> None:
    other = opener(path)()
    other.execute("BEGIN IMMEDIATE")
    writer = SharedWriter(opener(path, timeout=0.05))
    with pytest.raises(JournalUnavailable, match="locked") as refused:
        writer.submit(add("a"))
    assert "write lock" in refused.value.fix
    other.execute("COMMIT")
    assert writer.submit(add("b")) == "b"
    assert names(path) == ["b"]
    other.close()
    writer.close()


def test_each_of_a_batch_gets_an_error_of_its_own(path: Path) -> None:
    gate = Gate()
    other = opener(path)()
    writer = SharedWriter(opener(path, timeout=0.05), committed=gate)
    works = {f"n{n}": add(f"n{n}") for n in range(3)}
    errors = in_one_batch(writer, gate, works, lambda: other.execute("BEGIN IMMEDIATE")).values()
    assert all(isinstance(error, JournalUnavailable) for error in errors)
    assert len({id(error) for error in errors}) == 3
    other.close()
    writer.close()
    assert names(path) == []


def test_a_full_database_before_the_commit(path: Path) -> None:
    gate = Gate()
    writer = SharedWriter(opener(path, pages=12), committed=gate)
    writer.submit(add("first"))
    got = in_one_batch(
        writer,
        gate,
        {"small": add("small"), "big": add("big", "x" * 200_000), "after": add("after")},
    )
    assert (got["small"], got["after"]) == ("small", "after")
    big = got["big"]
    assert isinstance(big, JournalUnavailable)
    assert "Free space" in big.fix
    assert names(path) == ["first", "small", "after"]
    writer.close()


def test_a_missing_directory_and_a_file_that_is_no_database(tmp_path: Path) -> None:
    with pytest.raises(JournalUnavailable, match="unable to open"):
        SharedWriter(opener(tmp_path / "none" / "journal.db")).submit(add("a"))
    note = tmp_path / "note.txt"
    note.write_text("a letter to the bank, not a database\n" * 100)
    with pytest.raises(NotAJournal):
        SharedWriter(opener(note)).submit(add("a"))


def test_a_file_that_may_not_be_written(path: Path) -> None:
    opener(path)().close()

    def connect() -> sqlite3.Connection:
        uri = f"file:{path}?mode=ro"
        return sqlite3.connect(uri, uri=True, isolation_level=None, check_same_thread=False)

    writer = SharedWriter(connect)
    with pytest.raises(JournalUnavailable) as refused:
        writer.submit(add("a"))
    assert "writable" in refused.value.fix
    writer.close()


@pytest.fixture
def tiny_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=512k", "tmpfs", str(place)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("mounting is not permitted here")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_disk_that_is_full_for_good_and_then_has_room(tiny_disk: Path) -> None:
    path = tiny_disk / "journal.db"
    writer = SharedWriter(opener(path))
    kept = []
    refusal: JournalError | None = None
    for n in range(2000):
        try:
            kept.append(writer.submit(add(str(n), "x" * 8000)))
        except JournalError as error:
            refusal = error
            break
    assert isinstance(refusal, JournalUnavailable | AmbiguousCommit)
    assert names(path)[: len(kept)] == kept
    writer.close()  # writes the log back, which frees nothing that was acknowledged
    subprocess.run(["mount", "-o", "remount,size=4m", str(tiny_disk)], check=True)
    again = SharedWriter(opener(path))
    assert again.submit(add("room")) == "room"
    again.close()
    assert [n for n in names(path) if n in kept] == kept


def test_a_commit_that_fails_is_ambiguous_for_all(tiny_disk: Path) -> None:
    """The rows fit into the cache; only COMMIT writes them, and finds the disk full."""
    path = tiny_disk / "journal.db"
    gate = Gate()
    writer = SharedWriter(opener(path), committed=gate)
    writer.submit(add("first"))
    got = in_one_batch(writer, gate, {"a": add("a", "x" * 400_000), "b": add("b", "x" * 400_000)})
    assert isinstance(got["a"], AmbiguousCommit)
    assert isinstance(got["b"], AmbiguousCommit)
    assert got["a"] is not got["b"]
    assert writer.submit(add("small")) == "small"
    writer.close()
    assert names(path) == ["first", "small"]


def test_a_read_only_file_system(tiny_disk: Path) -> None:
    path = tiny_disk / "journal.db"
    opener(path)().close()
    subprocess.run(["mount", "-o", "remount,ro", str(tiny_disk)], check=True)
    writer = SharedWriter(opener(path))
    with pytest.raises(JournalUnavailable):
        writer.submit(add("a"))
    writer.close()


# -- the hook after a commit ------------------------------------------------------------------


def test_the_hook_runs_before_any_caller_goes_on(path: Path) -> None:
    seen: list[int] = []
    writer = SharedWriter(opener(path), committed=lambda conn: seen.append(count(conn)))
    for n in range(3):
        writer.submit(add(str(n)))
        assert seen[-1] == n + 1
    writer.close()


def test_nothing_is_written_while_the_hook_fails(path: Path) -> None:
    broken = False

    def committed(conn: sqlite3.Connection) -> None:
        assert not conn.in_transaction
        if broken:
            raise OSError("the witness is gone")

    writer = SharedWriter(opener(path), committed=committed)
    writer.submit(add("a"))
    broken = True
    assert writer.submit(add("b")) == "b"  # it is durable, whatever the hook does
    for _ in range(2):
        with pytest.raises(JournalUnavailable, match="the witness is gone"):
            writer.submit(add("c"))
    broken = False
    assert writer.submit(add("d")) == "d"
    assert names(path) == ["a", "b", "d"]
    writer.close()


def test_a_closed_writer_refuses(path: Path) -> None:
    writer = SharedWriter(opener(path))
    writer.submit(add("a"))
    writer.close()
    writer.close()
    with pytest.raises(JournalUnavailable, match="closed"):
        writer.submit(add("b"))
    with pytest.raises(JournalUnavailable, match="closed"):
        asyncio.run(writer.submit_async(add("b")))
    assert names(path) == ["a"]


# -- async callers ----------------------------------------------------------------------------


async def test_async_callers_share_commits_with_threads(path: Path) -> None:
    gate = Gate()
    writer = SharedWriter(opener(path), committed=gate)
    calls, held = Calls(writer), Held()
    calls.start("held", held)
    assert held.entered.wait(SECONDS)
    awaited = [asyncio.create_task(writer.submit_async(add(f"a{n}"))) for n in range(10)]
    await asyncio.sleep(0)  # the loop is free while the leader is held
    for n in range(10):
        calls.start(f"t{n}", add(f"t{n}"))
    queued(writer, 20)
    held.go.set()
    async with asyncio.timeout(SECONDS):
        assert await asyncio.gather(*awaited) == [f"a{n}" for n in range(10)]
    calls.join()
    assert gate.counts == [20]
    writer.close()


async def test_an_async_error_reaches_its_own_caller(writer: SharedWriter) -> None:
    def broken(conn: sqlite3.Connection) -> None:
        add("half")(conn)
        raise ValueError("no")

    got = await asyncio.gather(
        writer.submit_async(add("a")),
        writer.submit_async(broken),
        writer.submit_async(add("b")),
        return_exceptions=True,
    )
    assert (got[0], got[2]) == ("a", "b")
    assert isinstance(got[1], ValueError)


async def test_a_cancelled_await_does_not_break_the_batch(writer: SharedWriter, path: Path) -> None:
    calls, held = Calls(writer), Held()
    calls.start("held", held)
    assert held.entered.wait(SECONDS)
    tasks = [asyncio.create_task(writer.submit_async(add(f"a{n}"))) for n in range(6)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    tasks[3].cancel()
    await asyncio.sleep(0)
    held.go.set()
    async with asyncio.timeout(SECONDS):
        got = await asyncio.gather(*tasks, return_exceptions=True)
    assert [g for g in got if isinstance(g, str)] == ["a1", "a2", "a4", "a5"]
    assert {"a1", "a2", "a4", "a5"} <= set(names(path))
    calls.join()


async def test_cancelling_at_random_leaves_nobody_waiting(writer: SharedWriter, path: Path) -> None:
    chance = random.Random(7)
    kept: list[str] = []

    async def one(name: str) -> None:
        kept.append(await writer.submit_async(add(name)))

    async with asyncio.timeout(SECONDS):
        for wave in range(10):
            tasks = [asyncio.create_task(one(f"{wave}.{n}")) for n in range(30)]
            for task in tasks:
                if chance.random() < 0.3:
                    task.cancel()
                if chance.random() < 0.2:
                    await asyncio.sleep(0)
            await asyncio.gather(*tasks, return_exceptions=True)
    found = names(path)
    assert set(kept) <= set(found)
    assert len(found) == len(set(found))


def test_two_event_loops_share_one_writer(writer: SharedWriter, path: Path) -> None:
    async def some(tag: str) -> None:
        await asyncio.gather(*[writer.submit_async(add(f"{tag}{n}")) for n in range(40)])

    threads = [threading.Thread(target=asyncio.run, args=(some(tag),)) for tag in "xy"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive()
    assert len(names(path)) == 80


def test_a_loop_that_is_gone_harms_nobody(writer: SharedWriter) -> None:
    calls, held = Calls(writer), Held()
    calls.start("held", held)
    assert held.entered.wait(SECONDS)

    async def leaves() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(writer.submit_async(add("left")), 0.01)

    asyncio.run(leaves())
    calls.start("after", add("after"))
    held.go.set()
    assert calls.join()["after"] == "after"


# -- interrupts -------------------------------------------------------------------------------


def test_an_interrupted_leader_loses_nobody(writer: SharedWriter, path: Path) -> None:
    """It is interrupted inside the work of a follower, with its own work already run."""
    calls, held = Calls(writer), Held()
    leader = calls.start("leader", lambda conn: add("leader")(conn) and held(conn))
    assert held.entered.wait(SECONDS)
    runs: list[int] = []
    running = threading.Event()

    def slow(conn: sqlite3.Connection) -> str:
        runs.append(threading.get_ident())
        add("slow")(conn)
        running.set()
        while len(runs) == 1:  # for ever, for the leader
            time.sleep(0.001)
        return "slow"

    follower = calls.start("slow", slow)
    queued(writer, 1)
    calls.start("b", add("b"))
    queued(writer, 2)
    held.go.set()
    assert running.wait(SECONDS)
    raise_in(leader)
    got = calls.join()
    assert isinstance(got["leader"], KeyboardInterrupt)
    assert (got["slow"], got["b"]) == ("slow", "b")
    assert runs == [leader.ident, follower.ident]
    assert names(path) == ["slow", "b"]


def test_an_interrupted_follower_leaves_the_others_alone(writer: SharedWriter, path: Path) -> None:
    calls, held = Calls(writer), Held()
    calls.start("held", held)
    assert held.entered.wait(SECONDS)
    follower = calls.start("follower", add("follower"))
    queued(writer, 1)
    calls.start("b", add("b"))
    queued(writer, 2)
    raise_in(follower)  # seen when the wait looks again
    follower.join(SECONDS)
    held.go.set()
    got = calls.join()
    assert isinstance(got["follower"], KeyboardInterrupt)
    assert got["b"] == "b"
    assert names(path) == ["b"]


@pytest.mark.parametrize("seed", range(3))
def test_interrupts_at_any_point_wedge_and_lose_nobody(path: Path, seed: int) -> None:
    """Asynchronous exceptions fall between any two bytecodes of the writer, in any role."""
    chance = random.Random(seed)
    writer = SharedWriter(opener(path))
    told: dict[str, str] = {}
    stop = threading.Event()

    numbers = [itertools.count() for _ in range(8)]

    def loop(worker: int) -> None:
        while not stop.is_set():
            name = f"{worker}.{next(numbers[worker])}"
            try:
                try:
                    writer.submit(add(name))
                    told[name] = "durable"
                except KeyboardInterrupt:
                    told[name] = "open"
            except KeyboardInterrupt:  # it fell between the return and the note
                told.setdefault(name, "open")

    def body(worker: int) -> None:
        while not stop.is_set():
            try:
                loop(worker)
            except KeyboardInterrupt:
                continue

    threads = [threading.Thread(target=body, args=(w,), daemon=True) for w in range(8)]
    for thread in threads:
        thread.start()
    for _ in range(1500):
        raise_in(chance.choice(threads))
        time.sleep(chance.random() * 0.001)
    stop.set()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive(), "a caller was left waiting"
    assert writer.submit(add("end")) == "end"
    assert not writer._seat
    assert not [r for r in writer._queue if not r.done]
    writer.close()
    found = names(path)
    assert len(found) == len(set(found))
    assert {name for name, how in told.items() if how == "durable"} <= set(found)


def test_ctrl_c_in_the_main_thread(path: Path, tmp_path: Path) -> None:
    """A program with threads takes SIGINT again and again; only its main thread sees it."""
    program = textwrap.dedent(
        """
        import json, signal, sqlite3, sys, threading, time
        from ascertain.journal.writer import SharedWriter

        def connect():
            conn = sqlite3.connect(sys.argv[1], isolation_level=None, check_same_thread=False)
            conn.execute("PRAGMA synchronous=FULL")
            return conn

        writer = SharedWriter(connect)
        durable, interrupts, stop = [], 0, False

        def add(name):
            return lambda conn: conn.execute("INSERT INTO row VALUES (?, '')", (name,)) and name

        def loop(worker):
            n = 0
            while not stop:
                durable.append(writer.submit(add(f"{worker}.{n}")))
                n += 1

        threads = [threading.Thread(target=loop, args=(w,)) for w in range(4)]
        [t.start() for t in threads]
        print("ready", flush=True)
        n = 0
        while interrupts < 200:
            try:
                while True:
                    n += 1
                    durable.append(writer.submit(add(f"main.{n}")))
            except KeyboardInterrupt:
                interrupts += 1
                print("again", flush=True)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        stop = True
        [t.join() for t in threads]
        writer.close()
        json.dump(durable, open(sys.argv[2], "w"))
        """
    )
    opener(path)().close()
    out = tmp_path / "durable.json"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path), str(out)], stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        for _ in range(200):
            assert running.stdout.readline(), "it ended early"
            time.sleep(0.002)
            running.send_signal(signal.SIGINT)
        running.stdout.readline()
        assert running.wait(SECONDS) == 0
    found = names(path)
    assert len(found) == len(set(found))
    assert set(json.loads(out.read_text())) <= set(found)


# -- fork -------------------------------------------------------------------------------------


def in_child(body: Callable[[], object]) -> int:
    """Fork; the child's exit code is 0 if ``body`` returned."""
    pid = os.fork()
    if pid:
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            done, code = os.waitpid(pid, os.WNOHANG)
            if done:
                return os.waitstatus_to_exitcode(code)
            time.sleep(0.002)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return -1
    code = 1
    try:
        body()
        code = 0
    finally:
        os._exit(code)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_opens_the_journal_for_itself(writer: SharedWriter, path: Path) -> None:
    writer.submit(add("parent"))
    assert in_child(lambda: writer.submit(add("child"))) == 0
    writer.submit(add("parent again"))
    assert names(path) == ["parent", "child", "parent again"]


def test_a_childs_commits_outlive_the_parent(path: Path) -> None:
    """What the child was told is durable stays, though parent and others come and go."""
    writer = SharedWriter(opener(path))
    writer.submit(add("parent"))
    ready, go = os.pipe(), os.pipe()
    pid = os.fork()
    if not pid:
        writer.submit(add("child"))
        os.write(ready[1], b".")
        os.read(go[0], 1)
        writer.submit(add("child, later"))
        os._exit(0)
    os.read(ready[0], 1)
    writer.close()
    third = SharedWriter(opener(path))
    third.submit(add("third"))
    os.write(go[1], b".")
    assert os.waitpid(pid, 0)[1] == 0
    third.close()
    assert sorted(names(path)) == ["child", "child, later", "parent", "third"]
    for end in (*ready, *go):
        os.close(end)


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_fork_waits_for_the_commit_under_way(writer: SharedWriter, path: Path) -> None:
    calls, held = Calls(writer), Held()
    calls.start("held", held)
    assert held.entered.wait(SECONDS)
    calls.start("queued", add("queued"))
    queued(writer, 1)
    threading.Timer(0.05, held.go.set).start()
    assert in_child(lambda: writer.submit(add("child"))) == 0
    assert calls.join() == {"held": "held", "queued": "queued"}
    assert sorted(names(path)) == ["child", "queued"]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_forks_while_threads_write(writer: SharedWriter, path: Path) -> None:
    stop = threading.Event()
    told: list[str] = []

    def loop(worker: int) -> None:
        n = 0
        while not stop.is_set():
            n += 1
            told.append(writer.submit(add(f"{worker}.{n}")))

    threads = [threading.Thread(target=loop, args=(w,)) for w in range(4)]
    for thread in threads:
        thread.start()
    codes = [in_child(lambda n=n: writer.submit(add(f"child{n}"))) for n in range(15)]
    stop.set()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive()
    assert codes == [0] * 15
    found = names(path)
    assert set(told) | {f"child{n}" for n in range(15)} == set(found)
    assert len(found) == len(set(found))


def test_a_fork_inside_a_work_makes_the_child_refuse(writer: SharedWriter, path: Path) -> None:
    def forks(conn: sqlite3.Connection) -> int:
        conn.execute("INSERT INTO row VALUES ('parent', '')")

        def body() -> None:
            with pytest.raises(JournalUnavailable, match="forked"):
                writer.submit(add("child"))
            with pytest.raises(JournalUnavailable, match="forked"):
                writer.submit(add("child"))

        return in_child(body)

    assert writer.submit(forks) == 0
    assert writer.submit(add("after")) == "after"
    assert names(path) == ["parent", "after"]


def test_a_fork_without_hooks_makes_the_child_refuse(path: Path) -> None:
    """Code that forks in C may tell Python only in the child, or not at all."""
    program = textwrap.dedent(
        """
        import ctypes, os, sqlite3, sys
        from ascertain.errors import JournalUnavailable
        from ascertain.journal.writer import SharedWriter

        writer = SharedWriter(lambda: sqlite3.connect(sys.argv[1], isolation_level=None))
        writer.submit(lambda conn: conn.execute("INSERT INTO row VALUES ('parent', '')") and 1)
        pid = ctypes.PyDLL(None).fork()
        if pid == 0:
            try:
                writer.submit(lambda conn: conn.execute("INSERT INTO row VALUES ('child', '')"))
            except JournalUnavailable as error:
                os._exit(7 if "forked" in str(error) else 8)
            os._exit(9)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        writer.close()
        """
    )
    opener(path)().close()
    ran = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, timeout=SECONDS
    )
    assert (ran.stdout.strip(), ran.stderr) == ("7", "")
    assert names(path) == ["parent"]


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_other_connections_are_closed_before_a_fork(path: Path) -> None:
    others = [opener(path)()]

    def close() -> None:
        while others:
            others.pop().close()

    writer = SharedWriter(opener(path), before_fork=close)
    assert in_child(lambda: writer.submit(add("child"))) == 0
    assert others == []
    writer.close()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_child_refuses_where_the_others_could_not_be_closed(path: Path) -> None:
    def close() -> None:
        raise OSError("it would not close")

    def body() -> None:
        with pytest.raises(JournalUnavailable, match="forked"):
            writer.submit(add("child"))

    writer = SharedWriter(opener(path), before_fork=close)
    assert in_child(body) == 0
    assert writer.submit(add("parent")) == "parent"
    assert names(path) == ["parent"]
    writer.close()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_async_callers_after_a_fork(writer: SharedWriter, path: Path) -> None:
    asyncio.run(writer.submit_async(add("parent")))
    assert in_child(lambda: asyncio.run(writer.submit_async(add("child")))) == 0
    asyncio.run(writer.submit_async(add("parent again")))
    assert names(path) == ["parent", "child", "parent again"]


def test_writers_are_forgotten_when_nobody_has_them(path: Path) -> None:
    before = len(forks._followers)
    SharedWriter(opener(path)).close()
    assert len(forks._followers) == before


# -- death ------------------------------------------------------------------------------------


def test_sigkill_loses_nothing_that_was_acknowledged(path: Path) -> None:
    program = textwrap.dedent(
        """
        import sqlite3, sys, threading
        from ascertain.journal.writer import SharedWriter

        def connect():
            conn = sqlite3.connect(sys.argv[1], isolation_level=None, check_same_thread=False)
            conn.execute("PRAGMA synchronous=FULL")
            return conn

        writer = SharedWriter(connect)

        def loop(worker):
            for n in range(10**6):
                name = f"{worker}.{n}"
                writer.submit(lambda conn: conn.execute("INSERT INTO row VALUES (?, '')", (name,)))
                sys.stdout.write(name + "\\n")
                sys.stdout.flush()

        for worker in range(4):
            threading.Thread(target=loop, args=(worker,)).start()
        """
    )
    opener(path)().close()
    with subprocess.Popen(
        [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        told = [running.stdout.readline().strip() for _ in range(200)]
        running.kill()
        told += running.stdout.read().split("\n")[:-1]
    assert set(told) <= set(names(path))
