"""The test kit's handles: each starts a program of its own, and ends it with its block."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, cast

from ascertain.errors import AscertainError
from ascertain.testing.client import Exchange, ProviderClient, Transport
from ascertain.testing.fates import Fate
from ascertain.testing.programs import Program

POLL_S = 0.01


class _Served:
    """A program of ours with a port to control it by."""

    module = ""

    def __init__(self, arguments: Sequence[str]) -> None:
        self._arguments = list(arguments)
        self._program: Program | None = None
        self._facts: dict[str, object] = {}

    @property
    def program(self) -> Program:
        """The running program, to be suspended or killed."""
        if self._program is None:
            raise AscertainError(f"{self.module} is not running", fix="Use it as `with … as …`.")
        return self._program

    def _fact(self, name: str) -> int:
        self.program  # noqa: B018 - refuses before the start
        return cast(int, self._facts[name])

    @property
    def port(self) -> int:
        """The port that it serves on."""
        return self._fact("port")

    @property
    def address(self) -> str:
        """``host:port``."""
        return f"127.0.0.1:{self.port}"

    @property
    def url(self) -> str:
        """``http://host:port``."""
        return f"http://{self.address}"

    def start(self) -> Self:
        """Start the program and wait until it is ready."""
        self._program = Program.of_ours(self.module, self._arguments)
        try:
            self._facts = self._program.announcement()
        except BaseException:
            self.stop()
            raise
        return self

    def stop(self) -> None:
        """End the program. May be called again."""
        if self._program is not None:
            self._program.stop()
            self._program = None

    def __enter__(self) -> Self:
        """Start."""
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self.stop()

    def _ask(
        self, port: int, method: str, path: str, document: Mapping[str, object] | None = None
    ) -> dict[str, object]:
        client = ProviderClient(f"http://127.0.0.1:{port}", timeout_s=10.0)
        reply: Exchange = client.send(method, path, document)
        if reply.transport is not Transport.REPLIED or reply.code != 200:
            raise AscertainError(
                f"{self.module} did not do {method} {path}",
                fix=f"It answered {reply.code or reply.transport.value}: "
                f"{reply.document.get('error') or reply.why}",
            )
        return reply.document


class FakeProvider(_Served):
    """A stateful provider whose properties can be switched: ``FakeProvider(keys="ignored")``.

    ``ledger`` names a file that outlives the program. For the properties see
    `ascertain.testing.Terms`.
    """

    module = "ascertain.testing.provider"

    def __init__(self, *, ledger: Path | str | None = None, port: int = 0, **terms: object) -> None:
        arguments = ["--port", str(port)]
        if ledger is not None:
            arguments += ["--ledger", str(ledger)]
        for name, value in terms.items():
            arguments += ["--term", f"{name}={json.dumps(value)}"]
        super().__init__(arguments)

    def client(self, *, timeout_s: float = 2.0, connect_timeout_s: float = 1.0) -> ProviderClient:
        """A plain client of this provider."""
        return ProviderClient(self.url, timeout_s, connect_timeout_s)

    def set(self, **terms: object) -> None:
        """Change properties from now on."""
        self._ask(self.port, "POST", "/control/set", terms)

    def ledger(self) -> dict[str, list[dict[str, object]]]:
        """The truth: effects, reversals, requests, seals."""
        books = self._ask(self.port, "GET", "/control/ledger")
        return cast(dict[str, list[dict[str, object]]], books)

    def effects(self, action_id: str | None = None) -> list[dict[str, object]]:
        """The committed effects of an action, or of all, whatever readbacks say."""
        return [
            effect
            for effect in self.ledger()["effects"]
            if effect["state"] == "committed" and action_id in (None, effect["action_id"])
        ]

    def requests(self, action_id: str | None = None) -> list[dict[str, object]]:
        """The mutating requests that arrived, and how each was answered."""
        found = self.ledger()["requests"]
        return [each for each in found if action_id in (None, each["action_id"])]

    def held(self) -> list[str]:
        """Action ids of the requests that wait for `release`."""
        return cast(list[str], self._ask(self.port, "GET", "/control/held")["held"])

    def wait_held(self, count: int = 1, *, timeout_s: float = 10.0) -> list[str]:
        """Wait until so many requests are held."""
        until = time.monotonic() + timeout_s
        held = self.held()
        while len(held) < count and time.monotonic() < until:
            time.sleep(POLL_S)
            held = self.held()
        if len(held) < count:
            raise AscertainError(f"{len(held)} of {count} requests are held after {timeout_s:g} s")
        return held

    def release(self, action_id: str | None = None) -> int:
        """Let held requests commit; how many they were."""
        wanted = {} if action_id is None else {"action_id": action_id}
        return cast(int, self._ask(self.port, "POST", "/control/release", wanted)["released"])


class FaultProxy(_Served):
    """A lossy network in front of a provider: ``FaultProxy(provider.address, drop_reply=0.2)``.

    Rates are given by the fate's name (`ascertain.testing.Fate`). Nothing is forwarded later than
    ``longest_delay_ms`` after it was received.
    """

    module = "ascertain.testing.proxy"

    def __init__(
        self,
        upstream: str,
        *,
        seed: int = 1,
        port: int = 0,
        read_scale: float = 0.0,
        delay_ms_max: int = 300,
        reply_delay_ms: int = 1_500,
        identity: str = "",
        journal: Path | str | None = None,
        **rates: float,
    ) -> None:
        self._journal = None if journal is None else Path(journal)
        arguments = ["--upstream", upstream, "--seed", str(seed), "--port", str(port)]
        arguments += ["--read-scale", str(read_scale), "--delay-ms-max", str(delay_ms_max)]
        arguments += ["--reply-delay-ms", str(reply_delay_ms)]
        if identity:
            arguments += ["--identity", identity]
        if journal is not None:
            arguments += ["--journal", str(journal)]
        for name, rate in rates.items():
            arguments += ["--rate", f"{name}={rate}"]
        super().__init__(arguments)

    @property
    def longest_delay_ms(self) -> int:
        """The bound: a request is forwarded within it, or never."""
        return self._fact("longest_delay_ms")

    def facts(self) -> dict[str, object]:
        """Seed, rates, counts, and how many requests are under way."""
        return self._ask(self._fact("control_port"), "GET", "/")

    def counts(self) -> dict[str, int]:
        """How often each fate has fallen; also ``too_late``, ``upstream_lost``, ``client_lost``."""
        return cast(dict[str, int], self.facts()["counts"])

    def next(self, *fates: Fate | str, reads: bool = False) -> None:
        """Ordain the fates of the coming requests, in this order."""
        names = [Fate(fate).value for fate in fates]
        self._change({"next_reads" if reads else "next": names})

    def set(self, *, read_scale: float | None = None, **rates: float) -> None:
        """Replace the rates from now on."""
        wanted: dict[str, object] = {"rates": rates}
        if read_scale is not None:
            wanted["read_scale"] = read_scale
        self._change(wanted)

    def quiet(self) -> None:
        """No more faults from now on."""
        self.set(read_scale=0.0)

    def wait_idle(self, *, timeout_s: float = 10.0) -> None:
        """Wait until no request is under way."""
        until = time.monotonic() + timeout_s
        while self.facts()["in_flight"]:
            if time.monotonic() > until:
                raise AscertainError(f"requests are still under way after {timeout_s:g} s")
            time.sleep(POLL_S)

    def entries(self) -> list[dict[str, object]]:
        """The journal of fates: one entry for each request that has met its own.

        An entry is written when all is over, a moment after the client has its reply: `wait_idle`.
        """
        if self._journal is None:
            raise AscertainError("this proxy keeps no journal", fix="Start it with journal=FILE.")
        lines = self._journal.read_text(encoding="utf-8").splitlines()
        return [cast(dict[str, object], json.loads(line)) for line in lines]

    def _change(self, wanted: Mapping[str, object]) -> None:
        self._ask(self._fact("control_port"), "POST", "/", wanted)


class LossyProvider:
    """A fake provider behind a lossy network. ``url`` goes through the network."""

    def __init__(self, provider: FakeProvider, proxy: FaultProxy) -> None:
        self.provider = provider
        self.proxy = proxy

    @property
    def url(self) -> str:
        """The way through the lossy network."""
        return self.proxy.url

    def client(self, *, timeout_s: float = 1.0) -> ProviderClient:
        """A plain client whose requests go through the lossy network."""
        return ProviderClient(self.url, timeout_s)

    def effects(self, action_id: str | None = None) -> list[dict[str, object]]:
        """The truth, asked of the provider directly."""
        return self.provider.effects(action_id)


StartProvider = Callable[..., FakeProvider]
"""What the fixture ``start_provider`` gives."""
StartProxy = Callable[..., FaultProxy]
"""What the fixture ``start_proxy`` gives."""
