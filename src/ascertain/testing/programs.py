"""Programs that run beside a test or a demo and end with it.

A program of ours announces itself with one line of JSON on its standard output, and ends when its
standard input does: so nothing is left behind when the process that started it is killed.
Other people's programs are started through ``guard.py``, which does the same for them.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, cast

import ascertain
from ascertain.errors import AscertainError

READY_S_MAX = 20.0
STOP_S_MAX = 3.0
ANNOUNCEMENT_BYTES_MAX = 64 * 1024
SOURCE_ROOT = str(Path(next(iter(ascertain.__path__))).parent)
GUARD = str(Path(__file__).with_name("guard.py"))


def free_port() -> int:
    """A TCP port on the loopback interface that nobody listened on a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return cast(int, probe.getsockname()[1])


def announce(facts: Mapping[str, object]) -> None:
    """Say on standard output, in one line of JSON, that this program is ready."""
    sys.stdout.write(json.dumps(facts) + "\n")
    sys.stdout.flush()


def end_with_parent() -> None:
    """End this program when its standard input ends, unless somebody types there."""
    if sys.stdin is None or sys.stdin.closed or sys.stdin.isatty():
        return

    def watch() -> None:
        while os.read(0, 4096):
            pass
        os._exit(0)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()


class Program:
    """A child process in a session of its own, with its error output kept for the report."""

    def __init__(self, command: Sequence[str], *, name: str) -> None:
        self.name = name
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop()
        environment = dict(os.environ)
        roots = [SOURCE_ROOT, environment.get("PYTHONPATH", "")]
        environment["PYTHONPATH"] = os.pathsep.join(root for root in roots if root)
        self._process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            env=environment,
            start_new_session=True,
        )

    @classmethod
    def of_ours(cls, module: str, arguments: Sequence[str]) -> Program:
        """``python -m module arguments``."""
        return cls([sys.executable, "-m", module, *arguments], name=module)

    @classmethod
    def guarded(cls, command: Sequence[str], *, name: str) -> Program:
        """Somebody else's program; its output goes to the kept errors."""
        return cls([sys.executable, GUARD, *command], name=name)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def running(self) -> bool:
        """True until the process has ended."""
        return self._process.poll() is None

    def announcement(self, *, ready_s_max: float = READY_S_MAX) -> dict[str, object]:
        """Wait for the line of JSON with which a program of ours says that it is ready."""
        output = self._process.stdout
        assert output is not None
        line = b""
        until = time.monotonic() + ready_s_max
        while not line.endswith(b"\n") and len(line) < ANNOUNCEMENT_BYTES_MAX:
            ready, _, _ = select.select([output], [], [], max(0.0, until - time.monotonic()))
            if not ready:
                raise self.failure(f"was not ready within {ready_s_max:g} s")
            chunk = os.read(output.fileno(), 4096)
            if not chunk:
                raise self.failure("ended before it was ready")
            line += chunk
        return cast(dict[str, object], json.loads(line))

    def failure(self, what: str) -> AscertainError:
        """Stop the program; an error with the last of what it wrote to its error output."""
        self._end_process()
        said = self._said()
        self.stop()
        return AscertainError(
            f"the program {self.name} {what}", fix=f"It said: {said or 'nothing'}"
        )

    def _said(self) -> str:
        if self._errors.closed:
            return ""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace")[-2_000:].strip()

    def suspend(self) -> None:
        """SIGSTOP: the process is there, and does nothing."""
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        """End the program, politely first. May be called again."""
        self._end_process()
        self._errors.close()

    def _end_process(self) -> None:
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGCONT)
            self._process.terminate()
            try:
                self._process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                self._process.kill()
        self._process.wait()

    def __enter__(self) -> Self:
        """The program itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop it."""
        self.stop()
