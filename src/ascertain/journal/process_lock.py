"""Proof of death: a lock that the operating system releases (DESIGN 6, *quiet*).

An executor holds ``flock`` on a file of its own. The lock belongs to the open file description:
a forked child shares it, and so does a program that was passed the descriptor. When nobody holds
it any more, nothing of that executor can act. This holds on one host and on local file systems.

A program that an adapter starts *without* the descriptor could act after the lock is free. Such a
start is seen (`watch`) and marked in the file before the program runs: that executor's death is
then never proved. What Python does not audit is not seen: C code that forks, a daemon that closes
its descriptors and runs on, and a process that existed before the call and is handed the work.
"""

from __future__ import annotations

import contextlib
import contextvars
import fcntl
import os
import re
import secrets
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any

import msgspec

from ascertain.errors import JournalUnavailable
from ascertain.journal.machine import boot, file_system, is_local, machine

__all__ = ["Alive", "Gone", "ProcessLock", "SpawnWatch", "Unprovable", "outside_calls"]
__all__ += ["prove_gone", "watch"]

_HALF = 512  # the file: who holds it, then the taint, each a padded line
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}\Z")
_STARTS = frozenset(
    {"os.exec", "os.posix_spawn", "os.spawn", "os.system", "pty.spawn", "subprocess.Popen"}
)
_STARTERS = frozenset({"multiprocessing.popen_forkserver", "multiprocessing.popen_spawn_posix"})


@dataclass(frozen=True, slots=True)
class Gone:
    """Proved to be gone, with all that it started. ``proof``: how, in words."""

    proof: str


@dataclass(frozen=True, slots=True)
class Alive:
    """Somebody holds the lock: the executor, a child, or a program that it started."""


@dataclass(frozen=True, slots=True)
class Unprovable:
    """Nothing can be said, and ``why``, in words."""

    why: str


class _Holder(msgspec.Struct, frozen=True):
    """Who holds the lock. ``inode``: of the file itself, so that a copy of it is recognised."""

    executor: str
    machine: str | None
    boot: str
    host: str
    pid: int
    started: str
    inode: int


class _Taint(msgspec.Struct, frozen=True):
    tainted: str


# -- the lock ---------------------------------------------------------------------------------


class ProcessLock:
    """The lock of one executor, held for as long as its process and its children live.

    Attributes:
        executor_id: one process's own name; a name is never used twice.
        fd: the descriptor, closed when a program is started, unless it is passed.
    """

    def __init__(self, executor_id: str, fd: int, inode: int) -> None:
        self.executor_id = executor_id
        self.fd = fd
        self._inode = inode
        self._taint = ""

    @classmethod
    def hold(cls, directory: Path, executor_id: str) -> ProcessLock:
        """Make the executor's lock file, locked from the moment that it can be seen.

        Args:
            directory: made if it is missing; on a local disk, or death is never proved.
            executor_id: letters, digits, ``.``, ``_`` and ``-``; new for each process.

        Raises:
            JournalUnavailable: the file cannot be made, or the name was used before.
        """
        if not _ID.match(executor_id):
            raise JournalUnavailable(
                f"{executor_id!r} cannot name an executor",
                fix="Use up to 200 letters, digits, dots, underscores and hyphens.",
            )
        path = directory / f"{executor_id}.lock"
        new = directory / f".{executor_id[:100]}.{secrets.token_hex(8)}.new"
        fd = -1
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            fd = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                inode = os.fstat(fd).st_ino
                os.pwrite(fd, _line(_holder(executor_id, inode)) + _line(None), 0)
                os.link(new, path)
            finally:
                new.unlink()
            _sync(fd, directory)
        except OSError as error:
            if fd >= 0:
                os.close(fd)
            raise _not_held(path, error) from error
        return cls(executor_id, fd, inode)

    @property
    def tainted(self) -> str:
        """Why the executor's death will not be proved, or ""."""
        return self._taint

    def check(self) -> None:
        """Raise JournalUnavailable if somebody closed the descriptor, and the lock with it."""
        try:
            if os.fstat(self.fd).st_ino == self._inode:
                return
        except OSError:
            pass
        raise JournalUnavailable(
            f"The lock of executor {self.executor_id} was closed under the running process",
            fix="Open the journal after becoming a daemon, and close no descriptors of others.",
        )

    def inheritable_fd(self) -> int:
        """The descriptor, to be passed to a program that an adapter starts: ``call.lock_fd``.

        ``subprocess`` needs ``pass_fds=(call.lock_fd,)``. With ``os.posix_spawn``, ``os.system``
        and ``os.exec*`` the program keeps it by itself from here on.
        """
        call = _call.get()
        if call is not None and call.lock is self:
            call.taken = True
        os.set_inheritable(self.fd, True)
        return self.fd

    def taint(self, reason: str) -> None:
        """Mark that something may outlive the lock; it survives SIGKILL. The first reason stays.

        Raises:
            OSError: it cannot be written; then the start that it is about must not happen.
        """
        if not self._taint:
            os.pwrite(self.fd, _line(_Taint(reason[:200])), _HALF)
            self._taint = reason


def _holder(executor_id: str, inode: int) -> _Holder:
    return _Holder(
        executor=executor_id,
        machine=machine(),
        boot=boot(),
        host=os.uname().nodename,
        pid=os.getpid(),
        started=datetime.now(UTC).isoformat(timespec="seconds"),
        inode=inode,
    )


def _line(content: msgspec.Struct | None) -> bytes:
    text = b"" if content is None else msgspec.json.encode(content)
    if len(text) >= _HALF:
        raise OSError("the line is too long for the lock file")
    return text.ljust(_HALF - 1) + b"\n"


def _sync(fd: int, directory: Path) -> None:
    os.fsync(fd)
    folder = os.open(directory, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _not_held(path: Path, error: OSError) -> JournalUnavailable:
    if isinstance(error, FileExistsError) and path.exists():
        return JournalUnavailable(
            f"The executor's name was used before: {path} exists",
            fix="Give each process a name of its own; a name stands for one process for ever.",
        )
    return JournalUnavailable(
        f"{path} cannot be locked: {error.strerror or error}",
        fix="Make the journal's folder writable for this user, on a local disk with room.",
    )


# -- the proof --------------------------------------------------------------------------------


def prove_gone(directory: Path, executor_id: str) -> Gone | Alive | Unprovable:
    """Is that executor gone, with everything that it started? Never guessed.

    Args:
        directory: as given to `ProcessLock.hold`.
        executor_id: as recorded with the attempt.

    Returns:
        `Gone` if its lock is free on a file system where that means something, or if this very
        machine was started again since; `Alive` if somebody holds it; else `Unprovable`.
    """
    if not _ID.match(executor_id):
        return Unprovable("its name is not one of an executor")
    path = directory / f"{executor_id}.lock"
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # a description of its own
    except FileNotFoundError:
        return Unprovable("its lock file is not here")
    except OSError as error:
        return Unprovable(f"its lock file cannot be opened: {error.strerror}")
    try:
        return _judge(fd, path)
    except OSError as error:
        return Unprovable(f"its lock file cannot be used: {error.strerror}")
    except msgspec.MsgspecError:
        return Unprovable("its lock file is damaged")
    finally:
        os.close(fd)


def _judge(fd: int, path: Path) -> Gone | Alive | Unprovable:
    holder = msgspec.json.decode(os.pread(fd, _HALF, 0), type=_Holder)
    if os.fstat(fd).st_ino != holder.inode:
        return Unprovable("its lock file is a copy, or was restored: the lock is on another one")
    kind = file_system(path)
    if not is_local(kind):
        return Unprovable(f"its lock is on a file system that may be shared ({kind or 'unknown'})")
    # Shared, so that two who look at once do not take each other for the executor.
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return Alive()
    fcntl.flock(fd, fcntl.LOCK_UN)
    now = boot()
    if holder.boot and holder.boot == now:
        mark = os.pread(fd, _HALF, _HALF).strip()  # read last: it is written until the end
        if mark:
            return Unprovable(msgspec.json.decode(mark, type=_Taint).tainted)
        return Gone("its lock is free: the operating system released it when the last one ended")
    if holder.boot and now and holder.machine and holder.machine == machine():
        return Gone("the machine was started again since, so nothing of it runs any more")
    return Unprovable(f"it ran on another host ({holder.host}), or on one that cannot be told")


# -- programs that are started without the lock -----------------------------------------------


class SpawnWatch:
    """For the time of an adapter's call: sees programs that are started without the lock.

    A context manager, used once. What the call starts, in its thread, its tasks and the children
    that it forks, is known by a context variable. A start on a thread that no call runs on may be
    a worker's of the adapter, and counts for every call under way; see `outside_calls`.

    Attributes:
        lock: the executor's.
        taken: the call has asked for `ProcessLock.inheritable_fd`.
    """

    def __init__(self, lock: ProcessLock) -> None:
        self.lock = lock
        self.taken = False
        self.thread = 0
        self._before: contextvars.Token[SpawnWatch | None] | None = None

    def __enter__(self) -> SpawnWatch:
        _install()
        self.lock.check()
        self.thread = threading.get_ident()
        _under_way[id(self)] = self
        self._before = _call.set(self)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        _under_way.pop(id(self), None)
        if self._before is not None:
            _call.reset(self._before)

    def passes(self, frame: FrameType | None) -> bool:
        """Does the program that ``frame`` starts keep the lock? Only where that is known."""
        if frame is not None and frame.f_code.co_name == "_execute_child":
            named = frame.f_locals
            if "pass_fds" in named and "close_fds" in named:
                return any(_is_the_lock(fd, self.lock) for fd in named["pass_fds"]) or (
                    not named["close_fds"] and os.get_inheritable(self.lock.fd)
                )
        return self.taken


_call: contextvars.ContextVar[SpawnWatch | None] = contextvars.ContextVar(
    "ascertain_call", default=None
)
_outside: contextvars.ContextVar[bool] = contextvars.ContextVar("ascertain_outside", default=False)
_under_way: dict[int, SpawnWatch] = {}
_installed: dict[str, object] = {}


def watch(lock: ProcessLock) -> SpawnWatch:
    """See `SpawnWatch`: ``with watch(lock): adapter(call)``.

    Raises:
        JournalUnavailable: on entering, if the lock was lost.
    """
    return SpawnWatch(lock)


@contextlib.contextmanager
def outside_calls() -> Iterator[None]:
    """Say that programs started here belong to no adapter's call, though calls are under way."""
    before = _outside.set(True)
    try:
        yield
    finally:
        _outside.reset(before)


def _install() -> None:
    if _installed.setdefault("hook", mine := object()) is mine:
        sys.addaudithook(_audited)
        os.register_at_fork(after_in_child=_forked)


def _audited(event: str, args: tuple[Any, ...]) -> None:
    """Called for every audit event; an error that is raised here stops what it is about."""
    if event not in _STARTS and not (event == "open" and args and type(args[0]) is int):
        return
    if not _under_way and _call.get() is None:
        return
    frame = sys._getframe(1)
    if event == "open":  # how these two hand the work to the process that they just started
        if frame.f_globals.get("__name__") not in _STARTERS:
            return
        event = "multiprocessing"
    for call in _calls_concerned():
        if not call.lock.tainted and not call.passes(frame):
            call.lock.taint(f"it started a program without the lock ({event})")


def _calls_concerned() -> list[SpawnWatch]:
    own = _call.get()
    if own is not None:
        return [own]
    under_way = list(_under_way.values())
    here = threading.get_ident()
    if _outside.get() or any(call.thread == here for call in under_way):
        return []  # another task of a thread whose calls are known by their contexts
    return under_way


def _forked() -> None:
    """In a child: of the calls under way, those that it may belong to."""
    concerned = _calls_concerned()
    _under_way.clear()
    _under_way.update({id(call): call for call in concerned})


def _is_the_lock(fd: int, lock: ProcessLock) -> bool:
    try:
        return fd == lock.fd or os.path.sameopenfile(fd, lock.fd)
    except OSError:
        return False
