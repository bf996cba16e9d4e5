"""The seam: every step outside the core is one `Op`, run by one driver (DESIGN 11).

`perform`, `apply` and recovery are generators that yield ops and get their results.
Behind an op stands one of four ports: ``journal``, ``adapter`` (the user's code and
whatever it calls), ``clock`` and ``ids``. The same generator serves threads,
coroutines, and a fault explorer that decides what becomes of each op.
"""

from __future__ import annotations

import inspect
import secrets
import time
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeVar

from ascertain.journal import Journal, Transaction

T = TypeVar("T")


class Op(NamedTuple):
    """One step outside the core. ``kind``: ``port.step``, as ``journal.claim``.

    ``call`` does it. Where it is a journal transaction, ``work`` is what runs in it.
    """

    kind: str
    call: Callable[[], Any]
    work: Callable[[Transaction], Any] | None = None


Steps = Generator[Op, Any, T]
"""A flow: yields ops, gets their results, returns T."""


class Seam(Protocol):
    """Runs ops. A fault explorer or a test stands here."""

    def op(self, kind: str, call: Callable[[], T]) -> T:
        """Run the step, or what is to happen in its place."""


class Direct:
    """The seam of production: each step is simply run."""

    def op(self, kind: str, call: Callable[[], T]) -> T:
        """Run the step."""
        return call()


class SystemClock:
    """Wall-clock time that never steps back within a process.

    Order comes from position; a clock that is set back must not make a lease or a
    validity last longer, so the largest time seen counts.
    """

    def __init__(self) -> None:
        self._seen = 0

    def now(self) -> int:
        """Microseconds since 1970-01-01T00:00:00Z."""
        now = time.time_ns() // 1000
        if now < self._seen:
            return self._seen
        self._seen = now
        return now


class Clock(Protocol):
    """Where the time comes from."""

    def now(self) -> int:
        """Microseconds since 1970-01-01T00:00:00Z."""


class Ids(Protocol):
    """Where new names come from."""

    def new(self, prefix: str) -> str:
        """A name that nobody else has."""


class RandomIds:
    """128 random bits behind a prefix."""

    def new(self, prefix: str) -> str:
        """A name that nobody else has."""
        return f"{prefix}-{secrets.token_hex(16)}"


class Ports:
    """The four ports and the seam in front of them. Its methods make ops."""

    def __init__(
        self,
        journal: Journal,
        *,
        clock: Clock | None = None,
        ids: Ids | None = None,
        seam: Seam | None = None,
    ) -> None:
        self.journal = journal
        self.clock = clock or SystemClock()
        self.ids = ids or RandomIds()
        self.seam = seam or Direct()

    def now(self) -> Op:
        """The time."""
        return Op("clock.now", self.clock.now)

    def new_id(self, prefix: str) -> Op:
        """A new name."""
        return Op("ids.new", lambda: self.ids.new(prefix))

    def transact(self, step: str, work: Callable[[Transaction], Any]) -> Op:
        """A durable transaction: one barrier."""
        return Op(f"journal.{step}", partial(self.journal.transact, work), work)

    def read(self, step: str, call: Callable[[], Any]) -> Op:
        """A read of the journal."""
        return Op(f"journal.{step}", call)

    def adapter(self, step: str, call: Callable[[], Any]) -> Op:
        """The user's code: a release, a look, a seal, a policy."""
        return Op(f"adapter.{step}", call)

    def drive(self, steps: Steps[T]) -> T:
        """Run a flow to its end on this thread. Raises what the flow raises."""
        run = None if type(self.seam) is Direct else self.seam.op
        try:
            op = next(steps)
            while True:
                try:
                    result = op.call() if run is None else run(op.kind, op.call)
                except BaseException as error:
                    op = steps.throw(error)
                else:
                    op = steps.send(result)
        except StopIteration as stop:
            value: T = stop.value
            return value

    async def drive_async(self, steps: Steps[T]) -> T:
        """Run a flow to its end in this coroutine; transactions share the same commits."""
        run = self.seam.op
        try:
            op = next(steps)
            while True:
                try:
                    result = run(op.kind, self._awaited(op))
                    if inspect.isawaitable(result):
                        result = await result
                except BaseException as error:
                    op = steps.throw(error)
                else:
                    op = steps.send(result)
        except StopIteration as stop:
            value: T = stop.value
            return value

    def _awaited(self, op: Op) -> Callable[[], Any]:
        work = op.work
        if work is None:
            return op.call

        def transact() -> Awaitable[Any]:
            return self.journal.transact_async(work)

        return transact
