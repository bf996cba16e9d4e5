"""The shared reader over forks: closed before, open again on both sides, locked for nobody."""

import os
import sqlite3
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ascertain.errors import JournalUnavailable
from ascertain.journal import reader as reader_module
from ascertain.journal.reader import SharedReader
from ascertain.journal.writer import SharedWriter

SECONDS = 60
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=30)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "journal.db"
    conn = connect(place)
    conn.execute("PRAGMA journal_mode=WAL")
    conn.execute("CREATE TABLE row (name TEXT)")
    conn.close()
    return place


@pytest.fixture
def pair(path: Path) -> Iterator[tuple[SharedWriter, SharedReader]]:
    reader = SharedReader(lambda: connect(path))
    writer = SharedWriter(lambda: connect(path), before_fork=reader.close_for_fork)
    yield writer, reader
    reader.close()
    writer.close()


def add(name: str) -> Callable[[sqlite3.Connection], None]:
    def work(conn: sqlite3.Connection) -> None:
        conn.execute("INSERT INTO row VALUES (?)", (name,))

    return work


def names(reader: SharedReader) -> list[str]:
    with reader.lock:
        return [name for (name,) in reader.open().execute("SELECT name FROM row ORDER BY rowid")]


def in_child(body: Callable[[], object]) -> int:
    pid = os.fork()
    if pid:
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    code = 1
    try:
        body()
        code = 0
    finally:
        os._exit(code)


def locks_held(path: Path) -> set[int]:
    """The processes that the kernel knows to hold a lock on the database file."""
    inode = f":{path.stat().st_ino}"
    lines = Path("/proc/locks").read_text().splitlines()
    return {int(line.split()[4]) for line in lines if line.split()[5].endswith(inode)}


def test_both_sides_read_on(pair: tuple[SharedWriter, SharedReader], path: Path) -> None:
    writer, reader = pair
    writer.submit(add("parent"))
    assert names(reader) == ["parent"]

    def child() -> None:
        assert names(reader) == ["parent"]
        assert os.getpid() in locks_held(path), "its locks are known to the kernel"
        writer.submit(add("child"))
        assert names(reader) == ["parent", "child"]

    assert in_child(child) == 0
    assert names(reader) == ["parent", "child"]


def test_forks_while_threads_read_and_write(pair: tuple[SharedWriter, SharedReader]) -> None:
    writer, reader = pair
    stop = threading.Event()

    def reading() -> None:
        while not stop.is_set():
            names(reader)

    def writing() -> None:
        while not stop.is_set():
            writer.submit(add("parent"))

    threads = [threading.Thread(target=run) for run in (reading, reading, writing)]
    for thread in threads:
        thread.start()
    codes = [in_child(lambda: names(reader) and writer.submit(add("child"))) for _ in range(15)]
    stop.set()
    for thread in threads:
        thread.join(SECONDS)
        assert not thread.is_alive()
    assert codes == [0] * 15
    assert names(reader).count("child") == 15


def test_a_reader_that_reads_on_makes_the_child_refuse(
    pair: tuple[SharedWriter, SharedReader], monkeypatch: pytest.MonkeyPatch
) -> None:
    writer, reader = pair
    names(reader)
    monkeypatch.setattr(reader_module, "_FORK_WAIT_SECONDS", 0.01)

    def child() -> None:
        with pytest.raises(JournalUnavailable, match="forked"):
            names(reader)
        with pytest.raises(JournalUnavailable, match="forked"):
            writer.submit(add("child"))

    with reader.lock:
        assert in_child(child) == 0
    writer.submit(add("parent"))
    assert names(reader) == ["parent"]


def test_a_fork_without_hooks_makes_the_child_refuse(path: Path) -> None:
    program = textwrap.dedent(
        """
        import ctypes, os, sqlite3, sys
        from ascertain.errors import JournalUnavailable
        from ascertain.journal.reader import SharedReader

        reader = SharedReader(lambda: sqlite3.connect(sys.argv[1], isolation_level=None))
        with reader.lock:
            reader.open().execute("SELECT * FROM row").fetchall()
        pid = ctypes.PyDLL(None).fork()
        if pid == 0:
            try:
                reader.open()
            except JournalUnavailable as error:
                os._exit(7)
            os._exit(9)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        reader.close()
        """
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, timeout=SECONDS
    )
    assert (ran.stdout.strip(), ran.stderr) == ("7", "")
