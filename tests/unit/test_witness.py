"""The witness file: always one whole slot, for many processes, after any death."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest

from ascertain.errors import IncarnationChanged, JournalError, JournalUnavailable
from ascertain.journal.witness import Witness, Witnessed

SECONDS = 60
ONE, TWO = "1" * 32, "2" * 32
SLOT = 256


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "witness"


def digest(n: int) -> bytes:
    return n.to_bytes(32, "big")


def seen(path: Path) -> Witnessed:
    witness = Witness.open(path)
    found = witness.read()
    witness.close()
    assert found is not None
    return found


def begun(path: Path, incarnation: str = ONE) -> Witness:
    witness = Witness.open(path)
    witness.begin(incarnation, 77)
    return witness


def test_a_new_one_has_seen_nothing(path: Path) -> None:
    witness = Witness.open(path)
    assert witness.read() is None
    witness.update(1, 1, digest(1))
    assert witness.read() is None, "nobody has said what it witnesses"
    assert path.stat().st_mode & 0o777 == 0o600
    witness.close()


def test_it_sees_what_is_shown_last(path: Path) -> None:
    witness = begun(path)
    found = seen(path)
    assert (found.incarnation, found.inode, found.position) == (ONE, 77, 0)
    for n in range(1, 20):
        witness.update(n, n * n, digest(n))
        found = seen(path)
        assert (found.lineage, found.position, found.digest) == (n, n * n, digest(n))
        assert (found.incarnation, found.inode) == (ONE, 77)
    witness.close()
    again = Witness.open(path)
    again.update(40, 2, digest(40))
    assert seen(path).lineage == 40
    again.close()


def test_turns_only_grow(path: Path) -> None:
    witness = begun(path)
    turns = [seen(path).turn]
    for n in range(200):
        witness.update(1, n, digest(n))
        turns.append(seen(path).turn)
    assert turns == sorted(set(turns))
    witness.close()


def test_a_torn_write_leaves_the_one_before(path: Path) -> None:
    """Every prefix of the last write, over what stood there."""
    witness = begun(path)
    witness.update(1, 1, digest(1))
    before = path.read_bytes()
    witness.update(2, 2, digest(2))
    after = path.read_bytes()
    witness.close()
    changed = [n for n in range(len(after)) if before[n : n + 1] != after[n : n + 1]]
    assert len({n // SLOT for n in changed}) == 1, "one slot is written at a time"
    for n in changed:
        path.write_bytes(after[:n] + before[n:])
        assert seen(path).position == 1
    path.write_bytes(after)
    assert seen(path).position == 2


def test_every_bit_that_turns_is_noticed(path: Path) -> None:
    witness = begun(path)
    witness.update(1, 1, digest(1))
    witness.update(2, 2, digest(2))
    witness.close()
    whole = path.read_bytes()
    newest = next(n for n in (0, SLOT) if digest(2) in whole[n : n + SLOT])
    length = whole[newest : newest + SLOT].rstrip(b"\0")
    for n in range(len(length)):
        for bit in (1, 128):
            damaged = bytearray(whole)
            damaged[newest + n] ^= bit
            path.write_bytes(damaged)
            assert seen(path).position == 1


@pytest.mark.parametrize(
    "content", [b"x", b"a letter\n" * 100, os.urandom(4096), b"\0" * 40 + b"y"]
)
def test_what_is_no_witness(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    witness = Witness.open(path)
    with pytest.raises(JournalError, match="is not a witness") as refused:
        witness.read()
    assert "reconcile" in refused.value.fix
    with pytest.raises(JournalError, match="is not a witness"):
        witness.update(1, 1, digest(1))
    assert path.read_bytes() == content
    witness.begin(TWO, 5)
    assert seen(path).incarnation == TWO
    witness.update(1, 1, digest(1))
    assert seen(path).position == 1
    witness.close()


def test_a_new_incarnation_leaves_nothing_of_the_old_one(path: Path) -> None:
    witness = begun(path)
    witness.update(1, 1, digest(1))
    witness.begin(TWO, 78)
    witness.close()
    whole = path.read_bytes()
    for n in (0, SLOT):  # whichever slot is lost
        path.write_bytes(whole[:n] + b"\0" * SLOT + whole[n + SLOT :])
        assert (seen(path).incarnation, seen(path).position) == (TWO, 0)


def test_an_incarnation_has_a_length(path: Path) -> None:
    witness = Witness.open(path)
    with pytest.raises(JournalError, match="longer"):
        witness.begin("1" * 33, 1)
    assert witness.read() is None
    witness.close()


def test_a_process_that_still_has_the_old_incarnation_is_stopped(path: Path) -> None:
    old = begun(path)
    old.update(1, 1, digest(1))
    new = begun(path, TWO)
    for _ in range(3):
        with pytest.raises(IncarnationChanged, match="while this process had it open"):
            old.update(2, 2, digest(2))
        assert seen(path).incarnation == TWO
        new.update(3, 3, digest(3))
    assert seen(path).lineage == 3
    old.close()
    new.close()


def test_reading_only(path: Path, tmp_path: Path) -> None:
    with pytest.raises(JournalUnavailable):
        Witness.open(path, read_only=True)
    assert not path.exists()
    begun(path).close()
    witness = Witness.open(path, read_only=True)
    found = witness.read()
    assert found is not None
    assert found.incarnation == ONE
    with pytest.raises(OSError, match="Bad file descriptor"):
        witness.update(1, 1, digest(1))
    witness.close()
    with pytest.raises(JournalUnavailable, match="cannot be opened"):
        Witness.open(tmp_path / "none" / "witness")


HAMMER = textwrap.dedent(
    """
    import sys
    from pathlib import Path
    from ascertain.journal.witness import Witness

    witness = Witness.open(Path(sys.argv[1]))
    worker, n = int(sys.argv[2]), 0
    print("ready", flush=True)
    while True:
        n += 1
        witness.update(worker, n, (worker * 10**9 + n).to_bytes(32, "big"))
        if n % 500 == 0:
            print(n, flush=True)
    """
)


def hammer(path: Path, worker: int) -> subprocess.Popen[str]:
    running = subprocess.Popen(
        [sys.executable, "-c", HAMMER, str(path), str(worker)], stdout=subprocess.PIPE, text=True
    )
    assert running.stdout is not None
    assert running.stdout.readline() == "ready\n"
    return running


def test_many_processes_write_and_one_reads(path: Path) -> None:
    """What is read is always whole, and of one writer."""
    begun(path).close()
    running = [hammer(path, worker) for worker in range(1, 5)]
    reader = Witness.open(path, read_only=True)
    until = time.monotonic() + 1.5
    workers = set()
    while time.monotonic() < until:
        found = reader.read()
        assert found is not None
        if found.position:
            assert found.digest == digest(found.lineage * 10**9 + found.position)
            workers.add(found.lineage)
    reader.close()
    for one in running:
        one.kill()
        one.communicate(timeout=SECONDS)
    assert len(workers) > 1
    assert seen(path).incarnation == ONE


def test_killed_at_any_moment(path: Path) -> None:
    """The next process goes on from what the killed one had shown at least."""
    begun(path).close()
    for n in range(8):
        running = hammer(path, n + 1)
        assert running.stdout is not None
        told = int(running.stdout.readline())
        time.sleep(0.002 * n)
        running.send_signal(signal.SIGKILL)
        told = max([told, *map(int, running.communicate(timeout=SECONDS)[0].split())])
        found = seen(path)
        assert (found.lineage, found.position >= told) == (n + 1, True)


def test_threads_at_once(path: Path) -> None:
    witness = begun(path)
    failed: list[BaseException] = []

    def loop(worker: int) -> None:
        try:
            for n in range(1, 500):
                witness.update(worker, n, digest(worker * 10**9 + n))
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=loop, args=(worker,)) for worker in range(1, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(SECONDS)
    assert failed == []
    found = seen(path)
    assert found.digest == digest(found.lineage * 10**9 + found.position)
    witness.close()


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_goes_on_with_it(path: Path) -> None:
    witness = begun(path)
    witness.update(1, 1, digest(1))
    pid = os.fork()
    if not pid:
        try:
            witness.update(2, 1, digest(2))
            witness.update(2, 2, digest(3))
        finally:
            os._exit(0)
    os.waitpid(pid, 0)
    assert (seen(path).lineage, seen(path).position) == (2, 2)
    witness.update(1, 2, digest(4))
    assert (seen(path).lineage, seen(path).position) == (1, 2)
    witness.close()
