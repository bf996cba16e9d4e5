"""One writer for each process: threads and async callers share the journal's commits (DESIGN §10).

Whoever comes first takes the *seat* and commits for those that wait; a lone caller commits on
its own thread. While one commit waits for the disk, newcomers queue, and the next leader takes
the whole queue as one batch. `SharedWriter.submit` returns only once the COMMIT that contains its
work has returned, so a return value is a durable one.

Rules that the code below keeps, under interrupts at any point:

* A request stays in the queue until it is *done*; a leader copies, it never pops what is open. So
  a leader that is interrupted loses nobody: it rolls back, frees the seat, wakes the next.
* The seat is a dict entry that names its owner, won by ``setdefault`` (one atomic call): a thread
  that is interrupted between winning and noticing still finds that it is the owner.
* "COMMIT was begun" and "COMMIT has returned" are noted by the same C call that runs it, so no
  interrupt falls between the fact and its note.
* Whoever frees the seat wakes the head of the queue; a waiter also looks for itself, rarely.

Fork: SQLite keeps its file locks by process in memory of its own. A child that opens the file
while it has inherited an open connection believes that it holds locks which the operating system
gave to its parent alone; commits that were acknowledged are then lost when the parent ends. So the
connection is *closed before* a fork, with nobody in a transaction, and opened again on both sides.
Where that was not possible (a fork from inside a work, or by code that runs no Python fork hooks)
the child refuses: it must not open that file at all.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from typing import Any, TypeVar

from ascertain.errors import JournalError, JournalUnavailable
from ascertain.journal.forks import follow_forks, keep_for_ever
from ascertain.journal.sqlite_errors import ambiguous, is_refusal, unavailable

__all__ = ["BATCH_CAP", "SharedWriter", "unavailable"]

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

BATCH_CAP = 256
"""The most works that share one commit."""

_SEAT = 0
_BEGUN = (None,)
_COMMIT = ("COMMIT",)
_LOOK_AGAIN_SECONDS = 0.5  # only matters where a wake-up was lost to a second interrupt
_FOR_EVER = float("inf")


class _Request:
    """One caller's work on its way into a commit."""

    __slots__ = ("done", "error", "reply", "thread", "value", "wake", "work")

    def __init__(self, work: Work[Any], thread: int) -> None:
        self.work = work
        self.thread = thread
        self.done = False
        self.value: Any = None
        self.error: BaseException | None = None
        self.wake: threading.Lock | None = None
        self.reply: asyncio.Future[Any] | None = None


class SharedWriter:
    """Runs works in shared, durable transactions on one connection.

    Args:
        connect: opens the connection: ``isolation_level=None``, ``check_same_thread=False``, and a
            busy timeout. Called lazily, and again after a fork.
        committed: called after each COMMIT that returned, once for the batch, outside the
            transaction and before any caller of the batch goes on. It must not write. If it
            raises, the commit stands; it is called again before the next batch, and while it
            keeps raising nothing further is written.
        before_fork: called in the parent before a fork, with nobody in a transaction. It must
            close every other connection of this process to the same file.

    A work gets the connection inside ``BEGIN IMMEDIATE``. It returns plain values (no open
    cursor), neither begins nor ends a transaction, makes no DDL and calls neither `submit` nor
    `close`. It must be *re-runnable*: after a rollback that is not its fault it is run again, so
    it reads what it decides on inside itself and has no effect but rows. It may run on another
    caller's thread, and what it raises is an ``Exception``.
    """

    def __init__(
        self,
        connect: Callable[[], sqlite3.Connection],
        *,
        committed: Callable[[sqlite3.Connection], None] | None = None,
        before_fork: Callable[[], None] | None = None,
    ) -> None:
        self._connect = connect
        self._committed = committed
        self._close_others = before_fork
        self._closed = False
        self._inherited = False
        self._conn: sqlite3.Connection | None = None
        self._owed = False  # `committed` has still to be called for a commit that stands
        self._start_over()
        follow_forks(self)

    def _start_over(self) -> None:
        self._pid = os.getpid()
        self._seat: dict[int, _Request] = {}
        self._queue: list[_Request] = []  # iterating a deque fails when others append meanwhile
        self._wanted: deque[_Request] = deque()  # who wants the seat and no commit: close, fork
        self._forking: dict[int, _Request] = {}
        # What the COMMIT under way is for, and its marks: [], [begun] or [begun, returned].
        self._batch: tuple[list[_Request], list[object]] = ([], [])
        self._awaited: deque[_Request] = deque()
        self._pumping: dict[int, object] = {}
        self._pool: ThreadPoolExecutor | None = None

    # -- callers ----------------------------------------------------------------------------

    def submit(self, work: Work[T]) -> T:
        """Run ``work`` in a shared transaction; return its value once that is durable.

        Args:
            work: called with the connection inside the transaction (see the class).

        Returns:
            What ``work`` returned in the run that was committed.

        Raises:
            Exception: what ``work`` itself raised; nothing of it was written.
            JournalUnavailable: nothing was written.
            AmbiguousCommit: COMMIT failed; it may or may not be durable, for the whole batch.
            KeyboardInterrupt: an interrupt while waiting or committing. The work may be committed
                all the same, by this caller or a moment later by another: the outcome is whatever
                the journal says.
        """
        if self._pid != os.getpid():
            self.after_fork_in_child()
        request = _Request(work, threading.get_ident())
        try:
            if self._seat.setdefault(_SEAT, request) is request:
                self._lead(request)
            else:
                request.wake = _locked()
                self._queue.append(request)
                self._see_through(request)
        except BaseException:
            try:
                self._leave(request)
            finally:
                self._leave(request)  # again: an interrupt may have cut the first one short
            raise
        if request.error is not None:
            try:
                raise request.error
            finally:
                del request  # no cycle through the traceback
        value: T = request.value
        return value

    async def submit_async(self, work: Work[T]) -> T:
        """`submit` for a coroutine: the same batches, and the event loop is never blocked.

        Cancelling the await leaves the batch alone. The work may be committed all the same: the
        outcome is whatever the journal says. Raises what `submit` raises.
        """
        if self._pid != os.getpid():
            self.after_fork_in_child()
        request = _Request(work, 0)
        request.wake = _locked()
        request.reply = asyncio.get_running_loop().create_future()
        try:
            self._queue.append(request)
            self._awaited.append(request)
            self._start_pump()
            value: T = await request.reply
        except BaseException:
            request.done = True
            raise
        return value

    def close(self) -> None:
        """Wait for the commit under way, close the connection and refuse further work.

        Raises:
            JournalError: called from inside a work.
        """
        if self._pid != os.getpid():
            self.after_fork_in_child()
        owner = _Request(bool, threading.get_ident())
        try:
            self._take_seat(owner, _FOR_EVER)
            self._closed = True
            self._drop_connection()
        finally:
            self._free_seat(owner)
        if self._pool is not None:
            self._pool.shutdown(wait=True)

    # -- waiting and handing over -----------------------------------------------------------

    def _see_through(self, request: _Request) -> None:
        """Wait until a leader has settled the queued request, or lead."""
        while not request.done:
            if self._seat.setdefault(_SEAT, request) is request:
                return self._lead(request)
            self._refuse_nesting(request)
            if request.wake is not None:
                request.wake.acquire(timeout=_LOOK_AGAIN_SECONDS)

    def _refuse_nesting(self, request: _Request) -> None:
        owner = self._seat.get(_SEAT)
        if owner is not None and owner is not request and owner.thread == request.thread:
            raise JournalError(
                "The writer was called from inside a work of the same writer",
                fix="Do in one work what belongs together; submit the rest after it returned.",
            )

    def _lead(self, own: _Request) -> None:
        """The seat is ``own``'s: commit for it and for all that wait, then hand over."""
        if not own.done:  # it may have been settled between the last look and the seat
            self._attempt([own], own)
        self._free_seat(own)

    def _free_seat(self, own: _Request) -> None:
        queue = self._queue
        if self._seat.get(_SEAT) is own:
            if queue:  # only the owner of the seat removes
                opens = (n for n, request in enumerate(queue) if not request.done)
                del queue[: next(opens, len(queue))]
            if self._wanted:
                self._seat[_SEAT] = self._wanted.popleft()
                return
            del self._seat[_SEAT]
        for request in queue:
            if not request.done:
                _wake(request)
                return

    def _take_seat(self, owner: _Request, until: float) -> None:
        """Get the seat from its present owner, ahead of all that queue for a commit."""
        self._wanted.append(owner)
        try:
            while self._seat.setdefault(_SEAT, owner) is not owner:
                self._refuse_nesting(owner)
                if time.monotonic() > until:
                    raise JournalUnavailable("Another caller keeps the writer", fix="Call again.")
                time.sleep(0.0005)
        finally:
            with contextlib.suppress(ValueError):
                self._wanted.remove(owner)
                until = 0.0
            while until and self._seat.get(_SEAT, owner) is not owner:
                time.sleep(0.0005)  # it is being handed over: take it, so that it can be freed

    def _leave(self, request: _Request) -> None:
        """An interrupt goes through this caller: leave nothing of the others undone."""
        request.done = True
        if self._seat.get(_SEAT) is request:
            requests, marks = self._batch
            if len(marks) == 1:
                self._roll_back()
                self._fail(requests, ambiguous)
            elif marks:
                _settle(requests)
            else:
                self._roll_back()
        self._free_seat(request)

    # -- the transaction --------------------------------------------------------------------

    def _attempt(self, requests: list[_Request], leader: _Request | None = None) -> None:
        """One transaction for ``requests`` and, under a leader, for all that queue.

        After a rollback that one of them caused, one transaction for each.
        """
        marks: list[object] = []
        self._batch = (requests, marks)
        try:
            conn = self._conn
            if conn is None or self._owed:
                conn = self._ready()
            conn.execute("BEGIN IMMEDIATE")
        except Exception as error:
            self._roll_back()
            cause = error
            if leader is not None:  # nor would those that wait fare better, one after the other
                requests += [r for r in self._queue if not r.done and r is not leader]
            self._fail(requests, lambda: unavailable(cause))
            return
        if not self._run(conn, requests, leader):
            self._roll_back()
            if len(requests) == 1:
                _settle(requests)
                return
            for request in requests:
                if not request.done:
                    self._attempt([request])
            return
        try:
            marks.extend(chain(_BEGUN, map(conn.execute, _COMMIT)))
        except sqlite3.Error as error:
            self._roll_back()
            cause = error
            self._fail(requests, lambda: ambiguous(cause))
            return
        if self._committed is not None:
            self._call_committed(conn)
        _settle(requests)

    def _run(
        self, conn: sqlite3.Connection, requests: list[_Request], leader: _Request | None
    ) -> bool:
        """Run each work, and those that queue meanwhile, which are added to ``requests``.

        False if one failed after it wrote, so that all must be rolled back.
        """
        seen = 0
        for request in requests:  # it may grow while the loop runs
            if not _run_one(conn, request):
                return False
            if leader is not None and self._queue and request is requests[-1]:
                waiting = self._queue[seen : seen + BATCH_CAP - len(requests)]
                seen += len(waiting)
                requests += [r for r in waiting if not r.done and r is not leader]
        return True

    def _call_committed(self, conn: sqlite3.Connection) -> Exception | None:
        self._owed = True
        try:
            if self._committed is not None:
                self._committed(conn)
        except Exception as error:
            return error  # the commit stands; nothing further is written until it is mended
        self._owed = False
        return None

    def _ready(self) -> sqlite3.Connection:
        if self._closed:
            raise JournalUnavailable("The journal is closed", fix="Open it again.")
        if self._inherited:
            raise JournalUnavailable(
                "This process was forked while the journal was open, in a way that gave no chance "
                "to close it; opening it here could lose commits of other processes",
                fix="Fork with os.fork or multiprocessing outside of journal calls, or open the "
                "journal only in the child (uWSGI: lazy-apps = true).",
            )
        conn = self._conn
        if conn is None:
            conn = self._conn = self._connect()
        if self._owed and (error := self._call_committed(conn)) is not None:
            raise JournalUnavailable(
                f"What must follow each commit cannot be done: {error}",
                fix="Mend it (the witness file beside the journal, its disk or its rights). "
                "Nothing further is written before that.",
            ) from error
        return conn

    def _roll_back(self) -> None:
        try:
            if self._conn is not None and self._conn.in_transaction:
                self._conn.execute("ROLLBACK")
        except sqlite3.Error:
            self._drop_connection()

    def _drop_connection(self) -> None:
        conn, self._conn = self._conn, None
        if conn is not None:
            with contextlib.suppress(sqlite3.Error):
                conn.close()

    def _fail(self, requests: list[_Request], error: Callable[[], JournalError]) -> None:
        for request in requests:
            request.error = error()  # one for each: a traceback belongs to one caller
        _settle(requests)

    # -- async callers ----------------------------------------------------------------------

    def _start_pump(self) -> None:
        if self._pumping.setdefault(_SEAT, mine := object()) is not mine:
            return
        try:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(1, thread_name_prefix="ascertain-journal")
            self._pool.submit(self._pump)
        except BaseException as error:
            self._pumping.pop(_SEAT, None)
            if not isinstance(error, RuntimeError):
                raise
            raise JournalUnavailable(
                "The journal is closed, or the interpreter is shutting down",
                fix="Await the journal's calls before closing it; nothing was written.",
            ) from error

    def _pump(self) -> None:
        """Drain what async callers queued, on the one thread of the pool."""
        while True:
            while self._awaited:
                request = self._awaited.popleft()
                request.thread = threading.get_ident()
                try:
                    self._see_through(request)
                except BaseException as error:
                    request.error = error
                    _settle([request])
                    self._leave(request)
            self._pumping.pop(_SEAT, None)
            if not self._awaited or self._pumping.setdefault(_SEAT, mine := object()) is not mine:
                return

    # -- fork -------------------------------------------------------------------------------

    def before_fork(self, until: float) -> None:
        """Close all connections to the file and keep the seat over the fork, if possible."""
        owner = _Request(bool, threading.get_ident())
        self._forking[owner.thread] = owner
        try:
            self._take_seat(owner, until)
            self._drop_connection()
            if self._close_others is not None:
                self._close_others()
            owner.done = True
        except Exception as error:
            owner.error = error  # the child will refuse

    def after_fork_in_parent(self) -> None:
        """Let the others go on."""
        owner = self._forking.pop(threading.get_ident(), None)
        if owner is not None:
            self._free_seat(owner)

    def after_fork_in_child(self) -> None:
        """Forget all that belongs to the parent, without touching its connection."""
        conn, self._conn = self._conn, None
        owner = self._forking.get(threading.get_ident())
        self._inherited |= conn is not None or (owner is not None and not owner.done)
        self._start_over()
        if conn is not None:
            keep_for_ever(conn)


def _run_one(conn: sqlite3.Connection, request: _Request) -> bool:
    """Run the work; False if it failed in a way that needs a rollback."""
    before = conn.total_changes
    try:
        request.error = None
        request.value = request.work(conn)
    except Exception as error:
        bad_place = is_refusal(error)
        request.error = unavailable(error) if bad_place else error
        return not bad_place and conn.total_changes == before and conn.in_transaction
    return True


def _settle(requests: list[_Request]) -> None:
    """Tell every caller of the batch. May run twice after an interrupt; that changes nothing."""
    loops: dict[asyncio.AbstractEventLoop, list[_Request]] | None = None
    for request in requests:
        if request.reply is not None and not request.done:
            loops = {} if loops is None else loops
            loops.setdefault(request.reply.get_loop(), []).append(request)
    if loops is not None:
        for loop, of_loop in loops.items():
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody awaits any more
                loop.call_soon_threadsafe(_answer, of_loop)
    for request in requests:
        request.done = True
        if request.wake is not None:
            _wake(request)


def _answer(requests: Iterable[_Request]) -> None:
    for request in requests:
        if (reply := request.reply) is None or reply.done():
            continue
        if request.error is not None:
            reply.set_exception(request.error)
        else:
            reply.set_result(request.value)


def _wake(request: _Request) -> None:
    try:
        if request.wake is not None:
            request.wake.release()
    except RuntimeError:  # it was released before: a second wake-up is harmless
        return


def _locked() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock
