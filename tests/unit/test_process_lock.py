"""Proof of death with real processes: killed, stopped, forked, and with programs of their own."""

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from ascertain.errors import JournalUnavailable
from ascertain.journal import process_lock
from ascertain.journal.machine import boot, file_system, is_local
from ascertain.journal.process_lock import (
    Alive,
    Gone,
    ProcessLock,
    Unprovable,
    prove_gone,
    watch,
)

SECONDS = 60

# A program that lives until its standard input is closed.
WAITS = [sys.executable, "-c", "import sys; sys.stdin.read()"]


@pytest.fixture
def locks(tmp_path: Path) -> Path:
    return tmp_path / "locks"


class Holder:
    """A process of its own that holds the lock of ``ex`` and runs ``body`` inside a call.

    ``body`` may start things; they end when ``gate`` is closed. It prints ``ready`` after it.
    """

    def __init__(self, locks: Path, body: str = "", *, inside: bool = True) -> None:
        read, self.gate = os.pipe()
        program = textwrap.dedent(
            """
            import asyncio, ctypes, multiprocessing, os, pty, shlex, signal, subprocess, sys
            import threading, time, warnings
            from concurrent.futures import ThreadPoolExecutor
            from contextlib import nullcontext
            from pathlib import Path
            from ascertain.journal.process_lock import ProcessLock, outside_calls, watch

            warnings.simplefilter("ignore")
            GATE = int(sys.argv[2])
            WAITS = [sys.executable, "-c", f"import os; os.read({GATE}, 1)"]

            def waits():
                os.read(GATE, 1)

            def body(lock):
                {body}

            if __name__ == "__main__":
                pool = ThreadPoolExecutor(1)
                pool.submit(int).result()
                lock = ProcessLock.hold(Path(sys.argv[1]), "ex")
                with watch(lock) if {inside} else nullcontext():
                    body(lock)
                print("ready", flush=True)
                time.sleep({seconds})
            """
        )
        lines = textwrap.indent(textwrap.dedent(body).strip() or "pass", " " * 4).strip()
        file = locks.parent / "holder.py"
        file.write_text(
            program.replace("{body}", lines)
            .replace("{inside}", str(inside))
            .replace("{seconds}", str(SECONDS))
        )
        self.process = subprocess.Popen(
            [sys.executable, str(file), str(locks), str(read)],
            stdout=subprocess.PIPE,
            text=True,
            pass_fds=(read,),
        )
        os.close(read)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line == "ready\n", "the holder failed"

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(SECONDS)

    def let_go(self) -> None:
        """End what the holder started."""
        if self.gate >= 0:
            os.close(self.gate)
            self.gate = -1

    def end(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.kill()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.let_go()


@pytest.fixture
def holder(locks: Path) -> Iterator[Callable[..., Holder]]:
    made: list[Holder] = []

    def make(body: str = "", *, inside: bool = True) -> Holder:
        made.append(Holder(locks, body, inside=inside))
        return made[-1]

    yield make
    for one in made:
        one.end()


def becomes(locks: Path, kind: type) -> Gone | Alive | Unprovable:
    until = time.monotonic() + SECONDS
    while not isinstance(found := prove_gone(locks, "ex"), kind):
        assert time.monotonic() < until, f"it stays {found}"
        time.sleep(0.01)
    return found


Start = Callable[..., Holder]

# -- death ------------------------------------------------------------------------------------


def test_a_running_holder_is_alive_and_a_killed_one_is_gone(locks: Path, holder: Start) -> None:
    running = holder()
    assert prove_gone(locks, "ex") == Alive()
    running.kill()
    assert isinstance(prove_gone(locks, "ex"), Gone)
    assert isinstance(prove_gone(locks, "ex"), Gone), "the file stays"


def test_a_stopped_holder_is_alive(locks: Path, holder: Start) -> None:
    running = holder()
    running.process.send_signal(signal.SIGSTOP)
    assert prove_gone(locks, "ex") == Alive()
    running.process.send_signal(signal.SIGCONT)
    running.kill()
    assert isinstance(prove_gone(locks, "ex"), Gone)


def test_a_forked_child_keeps_the_lock(locks: Path, holder: Start) -> None:
    running = holder("if os.fork() == 0: waits(); os._exit(0)")
    running.kill()
    assert prove_gone(locks, "ex") == Alive()
    running.let_go()
    becomes(locks, Gone)


def test_a_worker_of_multiprocessing_fork_keeps_the_lock(locks: Path, holder: Start) -> None:
    running = holder('multiprocessing.get_context("fork").Process(target=waits).start()')
    running.kill()
    assert prove_gone(locks, "ex") == Alive()
    running.let_go()
    becomes(locks, Gone)


PASSED = {
    "Popen": "subprocess.Popen(WAITS, pass_fds=(lock.inheritable_fd(), GATE))",
    "a duplicate": "fd = os.dup(lock.inheritable_fd()); "
    "subprocess.Popen(WAITS, pass_fds=(fd, GATE)); os.close(fd)",
    "close_fds": "lock.inheritable_fd(); subprocess.Popen(WAITS, close_fds=False)",
    "asyncio": "asyncio.run(asyncio.create_subprocess_exec("
    "*WAITS, pass_fds=(lock.inheritable_fd(), GATE)))",
    "posix_spawn": "lock.inheritable_fd(); os.posix_spawn(WAITS[0], WAITS, os.environ)",
    "system": "lock.inheritable_fd(); os.system(shlex.join(WAITS) + ' &')",
    "fork and exec": """
        lock.inheritable_fd()
        if os.fork() == 0:
            os.execv(WAITS[0], WAITS)
        """,
    "the pool": "pool.submit(lambda: subprocess.Popen("
    "WAITS, pass_fds=(lock.inheritable_fd(), GATE))).result()",
}


@pytest.mark.parametrize("how", PASSED)
def test_a_program_with_the_descriptor_keeps_the_lock(locks: Path, holder: Start, how: str) -> None:
    running = holder(PASSED[how])
    running.kill()
    assert prove_gone(locks, "ex") == Alive()
    running.let_go()
    becomes(locks, Gone)


TAINTED = {
    "Popen": ("subprocess.Popen(WAITS, pass_fds=(GATE,))", "subprocess.Popen"),
    "taken and not passed": (
        "lock.inheritable_fd(); subprocess.Popen(WAITS, pass_fds=(GATE,))",
        "subprocess.Popen",
    ),
    "run": ("subprocess.run(['true'])", "subprocess.Popen"),
    "asyncio": (
        "asyncio.run(asyncio.create_subprocess_exec(*WAITS, pass_fds=(GATE,)))",
        "subprocess.Popen",
    ),
    "posix_spawn": ("os.posix_spawn(WAITS[0], WAITS, os.environ)", "os.posix_spawn"),
    "system": ("os.system('true')", "os.system"),
    "popen": ("os.popen('true').close()", "subprocess.Popen"),
    "fork and exec": ("if os.fork() == 0: os.execv(WAITS[0], WAITS)\nelse: os.wait()", "os.exec"),
    "pty": ("pty.spawn(['true'], lambda fd: b'')", "pty.spawn"),
    "multiprocessing spawn": (
        'multiprocessing.get_context("spawn").Process(target=int).start()',
        "multiprocessing",
    ),
    "multiprocessing forkserver": (
        'multiprocessing.get_context("forkserver").Process(target=int).start()',
        "multiprocessing",
    ),
    "a new thread": (
        "t = threading.Thread(target=os.system, args=('true',)); t.start(); t.join()",
        "os.system",
    ),
    "the pool": ("pool.submit(os.system, 'true').result()", "os.system"),
    "a forked child's program": (
        "if os.fork() == 0: os.system('true'); os._exit(0)\nelse: os.wait()",
        "os.system",
    ),
    "to_thread": ("asyncio.run(asyncio.to_thread(os.system, 'true'))", "os.system"),
}


@pytest.mark.parametrize("how", TAINTED)
def test_a_program_without_the_descriptor_taints(locks: Path, holder: Start, how: str) -> None:
    body, event = TAINTED[how]
    if "os.execv" in body:
        body = body.replace("WAITS[0], WAITS", "'/bin/true', ['true']")
    running = holder(body)
    assert prove_gone(locks, "ex") == Alive()
    running.kill()
    found = becomes(locks, Unprovable)
    assert found == Unprovable(f"it started a program without the lock ({event})")
    running.let_go()
    assert isinstance(prove_gone(locks, "ex"), Unprovable), "it is never proved again"


def test_the_taint_is_there_before_the_program_is(locks: Path, holder: Start) -> None:
    """The program kills its starter at once."""
    program = "import os, signal; os.kill(os.getppid(), signal.SIGKILL)"
    body = f"""
        def kill():
            subprocess.run([sys.executable, "-c", {program!r}])
        print("ready", flush=True)
        kill()
        """
    running = holder(body)
    running.process.wait(SECONDS)
    assert isinstance(prove_gone(locks, "ex"), Unprovable)


def test_outside_of_calls_programs_are_free(locks: Path, holder: Start) -> None:
    running = holder("subprocess.run(['true'])", inside=False)
    running.kill()
    assert isinstance(prove_gone(locks, "ex"), Gone)


def test_a_thread_may_say_that_it_is_outside(locks: Path, holder: Start) -> None:
    running = holder(
        """
        def unrelated():
            with outside_calls():
                subprocess.run(["true"])
        pool.submit(unrelated).result()
        """
    )
    running.kill()
    assert isinstance(prove_gone(locks, "ex"), Gone)


# -- who is told apart ------------------------------------------------------------------------


def test_another_task_of_the_loop_is_not_the_call(locks: Path) -> None:
    lock = ProcessLock.hold(locks, "ex")

    async def call(entered: asyncio.Event, done: asyncio.Event) -> None:
        with watch(lock):
            entered.set()
            await done.wait()

    async def main() -> None:
        entered, done = asyncio.Event(), asyncio.Event()
        other = asyncio.create_task(call(entered, done))
        await entered.wait()
        started = await asyncio.create_subprocess_exec("true")
        await started.wait()
        done.set()
        await other

    asyncio.run(main())
    assert lock.tainted == ""
    os.close(lock.fd)


def test_a_task_of_the_call_is_the_call(locks: Path) -> None:
    lock = ProcessLock.hold(locks, "ex")

    async def main() -> None:
        with watch(lock):
            started = await asyncio.create_task(asyncio.create_subprocess_exec("true"))
            await started.wait()

    asyncio.run(main())
    assert "subprocess.Popen" in lock.tainted
    os.close(lock.fd)


def test_two_calls_at_once_answer_for_their_own(locks: Path) -> None:
    one, two = ProcessLock.hold(locks, "one"), ProcessLock.hold(locks, "two")
    both = threading.Barrier(2)

    def call(lock: ProcessLock, careful: bool) -> None:
        with watch(lock):
            both.wait(SECONDS)
            fds = (lock.inheritable_fd(),) if careful else ()
            subprocess.run(["true"], pass_fds=fds, check=True)
            both.wait(SECONDS)

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(call, one, True), pool.submit(call, two, False)]:
            done.result(SECONDS)
    assert (one.tainted, bool(two.tainted)) == ("", True)
    os.close(one.fd)
    os.close(two.fd)


def test_a_start_that_cannot_be_marked_does_not_happen(locks: Path, tmp_path: Path) -> None:
    lock = ProcessLock.hold(locks, "ex")
    trace = tmp_path / "ran"
    with watch(lock):
        os.close(lock.fd)
        with pytest.raises(OSError, match="Bad file descriptor"):
            subprocess.run(["touch", str(trace)], check=True)
    assert not trace.exists()
    with pytest.raises(JournalUnavailable, match="closed under the running process"), watch(lock):
        raise AssertionError("the call must not begin")


# -- what is not proved -----------------------------------------------------------------------


def test_a_name_is_used_once(locks: Path) -> None:
    lock = ProcessLock.hold(locks, "ex")
    with pytest.raises(JournalUnavailable, match="used before"):
        ProcessLock.hold(locks, "ex")
    assert prove_gone(locks, "ex") == Alive()
    os.close(lock.fd)
    with pytest.raises(JournalUnavailable, match="used before"):
        ProcessLock.hold(locks, "ex")
    assert [file.name for file in locks.iterdir()] == ["ex.lock"]


@pytest.mark.parametrize("name", ["", "../ex", ".ex", "a/b", "x" * 201, "ex\n"])
def test_a_name_that_is_none(locks: Path, name: str) -> None:
    with pytest.raises(JournalUnavailable):
        ProcessLock.hold(locks, name)
    assert isinstance(prove_gone(locks, name), Unprovable)


def test_a_missing_file(locks: Path) -> None:
    assert prove_gone(locks, "ex") == Unprovable("its lock file is not here")


@pytest.mark.parametrize("content", [b"", b"pid 1\n", b"{}", b"\0" * 1024, b"[" * 600])
def test_a_damaged_file(locks: Path, content: bytes) -> None:
    locks.mkdir()
    (locks / "ex.lock").write_bytes(content)
    assert prove_gone(locks, "ex") == Unprovable("its lock file is damaged")


def test_a_copy_of_the_file_proves_nothing(locks: Path, tmp_path: Path) -> None:
    """The folder was restored from a backup while the process still runs."""
    lock = ProcessLock.hold(locks, "ex")
    shutil.copytree(locks, tmp_path / "backup")
    shutil.rmtree(locks)
    shutil.copytree(tmp_path / "backup", locks)
    found = prove_gone(locks, "ex")
    assert isinstance(found, Unprovable)
    assert "restored" in found.why
    os.close(lock.fd)


def rewrite(file: Path, **changes: object) -> None:
    raw = file.read_bytes()
    head = json.loads(raw[:512]) | changes
    with file.open("r+b") as out:  # the same file: its inode stays
        out.write(json.dumps(head).encode().ljust(511) + b"\n")


def test_people_can_read_who_holds_it(locks: Path) -> None:
    lock = ProcessLock.hold(locks, "ex")
    head = json.loads((locks / "ex.lock").read_text().splitlines()[0])
    assert head["pid"] == os.getpid()
    assert head["boot"] == boot()
    os.close(lock.fd)


def test_another_host(locks: Path) -> None:
    os.close(ProcessLock.hold(locks, "ex").fd)
    rewrite(locks / "ex.lock", machine="f" * 32, boot="another", host="elsewhere")
    found = prove_gone(locks, "ex")
    assert isinstance(found, Unprovable)
    assert "elsewhere" in found.why


def test_a_machine_without_a_name_does_not_prove_its_restart(locks: Path) -> None:
    """A pod of the same name may have been started on another node."""
    os.close(ProcessLock.hold(locks, "ex").fd)
    rewrite(locks / "ex.lock", machine=None, boot="another")
    assert isinstance(prove_gone(locks, "ex"), Unprovable)


def test_the_same_machine_started_again(locks: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process_lock, "machine", lambda: "a" * 32)  # a container has none
    lock = ProcessLock.hold(locks, "ex")
    lock.taint("it started a program")
    rewrite(locks / "ex.lock", boot="the one before")
    assert prove_gone(locks, "ex") == Alive(), "a lock that is held is held"
    os.close(lock.fd)
    found = prove_gone(locks, "ex")
    assert isinstance(found, Gone), "its programs ended with the machine, too"
    assert "started again" in found.proof


def test_those_who_look_at_once_do_not_see_each_other(locks: Path) -> None:
    os.close(ProcessLock.hold(locks, "ex").fd)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: prove_gone(locks, "ex"), range(400)))
    assert all(isinstance(one, Gone) for one in found)


def test_the_lock_is_held_from_the_moment_that_it_is_seen(locks: Path) -> None:
    names = [f"ex{n}" for n in range(200)]
    seen: list[object] = []
    stop = threading.Event()

    def look() -> None:
        while not stop.is_set():
            for name in names:
                if isinstance(found := prove_gone(locks, name), Gone):
                    seen.append(found)

    looking = threading.Thread(target=look)
    looking.start()
    held = [ProcessLock.hold(locks, name) for name in names]
    stop.set()
    looking.join(SECONDS)
    assert seen == []
    for lock in held:
        os.close(lock.fd)


def test_file_systems(tmp_path: Path) -> None:
    assert is_local(file_system(tmp_path))
    assert file_system(Path("/proc/self")) == "proc"
    for kind in ("nfs", "nfs4", "cifs", "fuse.sshfs", "9p", "virtiofs", "proc", ""):
        assert not is_local(kind)


def test_a_mount_of_its_own(tmp_path: Path) -> None:
    place = tmp_path / "a place" / "mounted"
    place.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "ramfs", "none", str(place)], capture_output=True, check=False
    )
    if mounted.returncode:
        pytest.skip("mounting is not permitted here")
    try:
        assert file_system(place) == "ramfs"
        assert file_system(place / "locks") == "ramfs"
        assert file_system(place.parent) != "ramfs"
        link = tmp_path / "link"
        link.symlink_to(place)
        assert file_system(link) == "ramfs"
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_folder_that_may_not_be_written(tmp_path: Path) -> None:
    (tmp_path / "locks").write_text("a file where the folder should be")
    with pytest.raises(JournalUnavailable, match="cannot be locked"):
        ProcessLock.hold(tmp_path / "locks", "ex")
