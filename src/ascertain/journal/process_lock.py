"""Proof of death: a lock that the operating system releases (DESIGN 6, *quiet*).

An executor holds ``flock`` on a file of its own. The lock belongs to the open file
description: a forked child shares it, and so does a program that was passed the
descriptor. When nobody holds it any more, nothing of that executor can act. It holds on
one host, and not on network file systems.

A program that an adapter starts *without* the descriptor could act after the lock is
free. Such a start is seen (`watch`) and marked in the file, durably for as long as the
machine runs: that executor's death is then never proved.
"""

from __future__ import annotations

import contextvars
import fcntl
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ascertain.errors import JournalUnavailable

_NETWORK = frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs"})
_TAINT = b"tainted\n"
_SPAWNS = frozenset(
    {"subprocess.Popen", "os.system", "os.posix_spawn", "os.exec", "os.spawn", "pty.spawn"}
)


@dataclass(frozen=True, slots=True)
class Gone:
    """Proved to be gone. ``proof``: how, in words."""

    proof: str


@dataclass(frozen=True, slots=True)
class Alive:
    """Somebody holds the lock: the executor, a child, or a program that it started."""


@dataclass(frozen=True, slots=True)
class Unprovable:
    """Nothing can be said, and ``why``."""

    why: str


def _read_text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""


def machine() -> str:
    """This machine's name for itself, the same after a restart."""
    return _read_text("/etc/machine-id") or f"host {socket.gethostname()}"


def boot() -> str:
    """This start of the machine, "" where the system does not say."""
    return _read_text("/proc/sys/kernel/random/boot_id")


class ProcessLock:
    """The lock of one executor, held for as long as its process and its children live."""

    def __init__(self, executor_id: str, fd: int) -> None:
        self.executor_id = executor_id
        self.fd = fd
        self._tainted = False

    @classmethod
    def hold(cls, directory: Path, executor_id: str) -> ProcessLock:
        """Make and lock the executor's file. Raises JournalUnavailable."""
        path = directory / f"{executor_id}.lock"
        try:
            directory.mkdir(parents=True, exist_ok=True, mode=0o700)
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            head = f"{'':8}\n{machine()}\n{boot()}\npid {os.getpid()}\n"
            os.pwrite(fd, head.encode("ascii", "replace"), 0)
        except OSError as error:
            raise JournalUnavailable(
                f"{path} cannot be locked: {error.strerror}",
                fix="Make the journal's folder writable for this user, on a local disk.",
            ) from None
        return cls(executor_id, fd)

    def inheritable_fd(self) -> int:
        """The descriptor, to be passed to a program that an adapter starts."""
        taken = _taken.get()
        if taken is not None:
            taken.append(self.fd)
        return self.fd

    def taint(self) -> None:
        """Mark that a program was started without the lock; its death is never proved."""
        if not self._tainted:
            os.pwrite(self.fd, _TAINT, 0)
            self._tainted = True


_holding: contextvars.ContextVar[ProcessLock | None] = contextvars.ContextVar(
    "ascertain_holding", default=None
)
_taken: contextvars.ContextVar[list[int] | None] = contextvars.ContextVar(
    "ascertain_taken", default=None
)
_hooked = False


def _spawned(event: str, args: object) -> None:
    if event not in _SPAWNS:
        return
    lock = _holding.get()
    if lock is not None and not _taken.get():
        lock.taint()


@contextmanager
def watch(lock: ProcessLock) -> Iterator[None]:
    """For the time of an adapter's call: see programs that it starts without the lock.

    Programs that are started by C code, or by threads of the adapter's own, are not seen.
    """
    global _hooked
    if not _hooked:
        _hooked = True
        sys.addaudithook(_spawned)
    first, second = _holding.set(lock), _taken.set([])
    try:
        yield
    finally:
        _holding.reset(first)
        _taken.reset(second)


def prove_gone(directory: Path, executor_id: str) -> Gone | Alive | Unprovable:
    """Is that executor gone, with everything that it started? Never guessed."""
    path = directory / f"{executor_id}.lock"
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        return Unprovable("its lock file is not here")
    except OSError as error:
        return Unprovable(f"its lock file cannot be opened: {error.strerror}")
    try:
        lines = os.pread(fd, 4096, 0).decode("ascii", "replace").splitlines()
        if len(lines) < 4 or lines[1] != machine():
            return Unprovable("it ran on another host")
        if lines[0].startswith("tainted"):
            return Unprovable("it started a program without the lock")
        if _on_network(path):
            return Unprovable("its lock is on a network file system")
        if lines[2] and boot() and lines[2] != boot():
            return Gone("the machine was started again since")
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return Alive()
        return Gone("its lock is free")
    finally:
        os.close(fd)


def _on_network(path: Path) -> bool:
    """Is the file on a file system whose locks may not be the machine's own?"""
    best, kind = "", ""
    where = str(path.resolve())
    for line in _read_text("/proc/mounts").splitlines():
        parts = line.split()
        if len(parts) < 3:
            continue
        mount = parts[1].rstrip("/") + "/"
        if where.startswith(mount) and len(mount) >= len(best):
            best, kind = mount, parts[2]
    return kind in _NETWORK or (kind.startswith("fuse.") and kind != "fuse.overlayfs")
