"""Real processes that are really killed: forked from a warm parent, each in a group of its own.

A `Point` says where a child dies: before or after an op of the seam, at a line of Ascertain's own
code, or before an SQL statement. The parent checks of each child that it died by SIGKILL, and
counts.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sqlite3
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import ascertain

T = TypeVar("T")

SOURCE = str(Path(next(iter(ascertain.__path__)))) + os.sep
UNTRACED = tuple(SOURCE + part + os.sep for part in ("core", "signing", "testing", "demo", "cli"))
"""Pure code: a process that dies there dies between the same two effects as one line above."""

WAIT_S_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Point:
    """Where to die: ``op-before``, ``op-after``, ``line`` or ``sql``, and the how-manieth.

    ``name``: of an op, where the how-manieth of that kind is meant.
    """

    kind: str
    number: int
    name: str = ""


@dataclass(slots=True)
class Ended:
    """How a child ended: by which signal, or with which value."""

    pid: int
    signal: int
    code: int
    value: Any = None
    error: str = ""

    @property
    def killed(self) -> bool:
        """Did it die by SIGKILL?"""
        return self.signal == signal.SIGKILL


def strike() -> None:
    """Die here and now."""
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)  # never returns


class Striker:
    """The seam of a process that dies at a point; it counts all points on the way."""

    def __init__(self, point: Point | None = None, act: Callable[[], None] = strike) -> None:
        self.point = point
        self.act = act
        self.active = False
        self.counts = {"op": 0, "line": 0, "sql": 0}
        self.ops: list[str] = []

    def op(self, kind: str, call: Callable[[], T]) -> T:
        """One step, or the end."""
        if not self.active:
            return call()
        self.counts["op"] += 1
        self.ops.append(kind)
        self._at("op-before", kind)
        try:
            return call()
        finally:
            self._at("op-after", kind)

    def _at(self, kind: str, name: str) -> None:
        point = self.point
        if point is None or point.kind != kind:
            return
        if point.name:
            if point.name == name and self.ops.count(name) == point.number:
                self.act()
        elif self.counts["op"] == point.number:
            self.act()

    def _line(self, frame: FrameType, event: str, arg: object) -> Any:
        if event == "line":
            self.counts["line"] += 1
            point = self.point
            if point is not None and point.kind == "line" and point.number == self.counts["line"]:
                sys.settrace(None)
                self.act()
        return self._line

    def _call(self, frame: FrameType, event: str, arg: object) -> Any:
        name = frame.f_code.co_filename
        if name.startswith(SOURCE) and not name.startswith(UNTRACED):
            return self._line
        return None

    def statement(self, text: str) -> None:
        """SQLite is about to run a statement."""
        if not self.active or text.startswith("--"):
            return
        self.counts["sql"] += 1
        point = self.point
        if point is not None and point.kind == "sql" and point.number == self.counts["sql"]:
            self.act()

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Count, and strike, in this block."""
        self.active = True
        if self.point is None or self.point.kind == "line":
            sys.settrace(self._call)
        try:
            yield
        finally:
            sys.settrace(None)
            self.active = False

    def follow_sql(self) -> None:
        """Every SQLite connection of this process from now on tells of its statements."""
        plain = sqlite3.connect

        def connect(*args: Any, **named: Any) -> sqlite3.Connection:
            conn = plain(*args, **named)
            conn.set_trace_callback(self.statement)
            return conn

        sqlite3.connect = connect  # type: ignore[assignment]
        sqlite3.dbapi2.connect = connect  # type: ignore[attr-defined]


class Child:
    """A forked process that runs one function; its value comes back as JSON."""

    def __init__(self, function: Callable[..., Any], *args: Any) -> None:
        read, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)
            self.pid = os.fork()
        if self.pid == 0:
            os.close(read)
            _run(function, args, write)
        os.close(write)
        with suppress(OSError):
            os.setpgid(self.pid, self.pid)
        self._read = read
        self._ended: Ended | None = None

    def send(self, number: int) -> None:
        """Send it a signal."""
        os.kill(self.pid, number)

    def end(self) -> None:
        """Kill it, if it has not ended by itself."""
        if self._ended is None:
            with suppress(OSError):
                os.killpg(self.pid, signal.SIGKILL)
            with suppress(OSError):
                os.waitpid(self.pid, 0)

    def wait(self, *, timeout_s: float = WAIT_S_MAX) -> Ended:
        """Wait until it has ended; a child that does not end is killed, and fails the test."""
        if self._ended is None:
            self._ended = self._collect(timeout_s)
        return self._ended

    def _collect(self, timeout_s: float) -> Ended:
        """Read and wait: what it started itself may keep the pipe open for longer."""
        raw, until, word = b"", time.monotonic() + timeout_s, -1
        while word < 0:
            ready, _, _ = select.select([self._read], [], [], 0.02)
            chunk = os.read(self._read, 65536) if ready else b""
            raw += chunk
            if not chunk:
                done, status = os.waitpid(self.pid, os.WNOHANG if not ready else 0)
                word = status if done else -1
            if time.monotonic() > until:
                with suppress(OSError):
                    os.killpg(self.pid, signal.SIGKILL)
                os.waitpid(self.pid, 0)
                os.close(self._read)
                raise AssertionError(f"a child was not done within {timeout_s:g} s")
        while select.select([self._read], [], [], 0)[0] and (chunk := os.read(self._read, 65536)):
            raw += chunk
        os.close(self._read)
        killed = os.WTERMSIG(word) if os.WIFSIGNALED(word) else 0
        code = os.WEXITSTATUS(word) if os.WIFEXITED(word) else -1
        said = json.loads(raw) if raw else {}
        return Ended(self.pid, killed, code, said.get("value"), said.get("error", ""))


def _run(function: Callable[..., Any], args: tuple[Any, ...], write: int) -> None:
    code = 1
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        said = {"value": function(*args)}
        code = 0
    except BaseException as error:
        said = {"error": "".join(traceback.format_exception(error))}
    try:
        os.write(write, json.dumps(said, default=str).encode() + b"\n")
    finally:
        os._exit(code)


def run(function: Callable[..., Any], *args: Any) -> Ended:
    """Run it in a child and wait."""
    return Child(function, *args).wait()


def value(function: Callable[..., Any], *args: Any) -> Any:
    """Run it in a child that must not fail; what it returned."""
    ended = run(function, *args)
    assert not ended.error, ended.error
    assert ended.code == 0, ended
    return ended.value


@dataclass(slots=True)
class Kills:
    """How many kills were asked for and how many were delivered."""

    asked: int = 0
    delivered: int = 0
    missed: list[str] = field(default_factory=list)

    def kill(self, function: Callable[..., Any], *args: Any) -> Ended:
        """Run a child that is to be killed on the way."""
        self.asked += 1
        ended = run(function, *args)
        if ended.killed:
            self.delivered += 1
        else:
            self.missed.append(f"{args}: {ended.error or ended}")
        return ended

    def check(self, least: int) -> None:
        """Every kill that was asked for was delivered, and they were enough."""
        assert not self.missed, self.missed[:3]
        assert self.delivered == self.asked >= least, self


def ops(names: list[str], stride: int = 1) -> Iterator[Point]:
    """Before and after each op of a flow."""
    for number in range(1, len(names) + 1, stride):
        yield Point("op-before", number)
        yield Point("op-after", number)


def numbered(kind: str, most: int, stride: int = 1, first: int = 1) -> Iterator[Point]:
    """Every ``stride``-th line or statement."""
    for number in range(first, most + 1, stride):
        yield Point(kind, number)
