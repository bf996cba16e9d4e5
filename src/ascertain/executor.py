"""This process as an executor: a name, and a lock that proves when it is gone (DESIGN 6)."""

from __future__ import annotations

import os
import secrets
import threading
from pathlib import Path
from typing import Any

from ascertain.journal.process_lock import Gone, ProcessLock, prove_gone, watch


class LockingExecutor:
    """Holds one lock for each process; a forked child makes its own, and keeps its parent's.

    The lock is taken when the name is first asked for, so that a process that only reads
    holds none.
    """

    def __init__(self, locks: Path) -> None:
        self._locks = locks
        self._lock: ProcessLock | None = None
        self._inherited: list[ProcessLock | None] = []
        self._making = threading.Lock()
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        """A child makes a lock of its own; the parent's stays held by both."""
        self._making = threading.Lock()
        self._inherited.append(self._lock)
        self._lock = None

    @property
    def lock(self) -> ProcessLock:
        """This process's lock."""
        lock = self._lock
        if lock is None:
            with self._making:
                lock = self._lock
                if lock is None:
                    name = f"ex-{os.getpid()}-{secrets.token_hex(8)}"
                    lock = self._lock = ProcessLock.hold(self._locks, name)
        return lock

    @property
    def name(self) -> str:
        """This process's name as an executor."""
        return self.lock.executor_id

    def enter(self) -> Any:
        """See `runtime.Executor`."""
        return watch(self.lock)

    def gone(self, executor: str) -> str | None:
        """See `runtime.Executor`."""
        found = prove_gone(self._locks, executor)
        return found.proof if isinstance(found, Gone) else None

    def lock_fd(self) -> int:
        """See `runtime.Executor`."""
        return self.lock.inheritable_fd()


class ReadingExecutor:
    """For a journal that is opened to be read: it drives nothing, and holds no lock."""

    name = "reader"

    def __init__(self, locks: Path) -> None:
        self._locks = locks

    def enter(self) -> Any:
        """See `runtime.Executor`; nothing is released here."""
        raise RuntimeError("a journal opened read-only releases nothing")

    def gone(self, executor: str) -> str | None:
        """See `runtime.Executor`."""
        found = prove_gone(self._locks, executor)
        return found.proof if isinstance(found, Gone) else None

    def lock_fd(self) -> int:
        """See `runtime.Executor`."""
        raise RuntimeError("a journal opened read-only holds no lock")
