"""The demo's provider: localstripe and a lossy proxy in front of it, each a program of its own.

What localstripe 1.15 does, as a contract must know it:

- ``Idempotency-Key`` is ignored: the same request twice is two payments.
- A payment can be read back by listing PaymentIntents; ``metadata`` stays as it was sent. There is
  no filter and no search. Lists are complete and immediate, oldest first.
- It answers one request after the other. A request that it has read is carried out, whether its
  client is there or not. Each takes 10 to 50 ms, a list of 100 about 150 ms, more with every
  payment it holds: that comes on top of the network's ``longest_delay_ms``.
- A declined payment is a 402 with code ``card_declined``, and a PaymentIntent that never succeeds.
- A payment can be refunded twice.
- It listens on every interface, and writes ``localstripe.pickle`` to ``/tmp``.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, cast
from urllib.parse import urlencode

from ascertain.errors import AscertainError
from ascertain.testing import FaultProxy, Program, ProviderClient, Transport, free_port

API_KEY = "sk_test_demo"
CLIENT_TIMEOUT_S = 0.6
NETWORK = {
    "drop_request": 0.05,
    "delay_request": 0.08,
    "drop_reply": 0.08,
    "delay_reply": 0.04,
    "double_reply": 0.08,
}
READ_SCALE = 0.25
DELAY_MS_MAX = 750
REPLY_DELAY_MS = 900
IDENTITY = r"action_id(?:\]|%5D)=([^&]+)"
PICKLE = Path("/tmp/localstripe.pickle")
READY_S_MAX = 20.0
STARTS_MAX = 3
PAGE = 100
PAGES_MAX = 1_000
FIX = 'Install what the demo needs with: pip install "ascertain[demo]"'


def load_stripe() -> Any:
    """The official client's library. Raises AscertainError where it is not installed.

    The asynchronous libraries that it would load too are kept from it: they are not used
    here, and make a quarter of a worker's start.
    """
    for name in ("aiohttp", "anyio", "httpx"):
        cast(Any, sys.modules).setdefault(name, None)
    try:
        import stripe
    except ModuleNotFoundError as error:
        raise AscertainError("the stripe client is not installed", fix=FIX) from error
    stripe.enable_telemetry = False
    return stripe


@dataclass(frozen=True, slots=True)
class Effect:
    """One payment that truly happened, as the provider lists it."""

    reference: str
    action_id: str
    amount_pence: int
    reversed: bool


class Provider:
    """Both programs, from the start of a ``with`` block to its end."""

    def __init__(self, *, seed: int, journal: Path | None = None) -> None:
        self._seed = seed
        self._journal = journal
        self._stack = ExitStack()
        self._direct = ProviderClient("")
        self.payment_method = ""
        self._proxy: FaultProxy | None = None

    @property
    def proxy(self) -> FaultProxy:
        """The lossy network."""
        if self._proxy is None:
            raise AscertainError("the demo's provider is not running")
        return self._proxy

    @property
    def url(self) -> str:
        """The way for payments: through the lossy network."""
        return self.proxy.url

    @property
    def direct_url(self) -> str:
        """The way for counting: straight to the provider."""
        return self._direct.url

    @property
    def longest_delay_ms(self) -> int:
        """How late the network still delivers; the provider's own time comes on top."""
        return self.proxy.longest_delay_ms

    def __enter__(self) -> Self:
        """Start both and wait until they answer."""
        if importlib.util.find_spec("localstripe") is None:
            raise AscertainError("localstripe is not installed", fix=FIX)
        _check_pickle()
        if not PICKLE.exists():
            self._stack.callback(PICKLE.unlink, missing_ok=True)
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop both."""
        self._stack.close()

    def _start(self) -> None:
        port = self._start_localstripe()
        self._direct = ProviderClient(f"http://127.0.0.1:{port}", timeout_s=30.0)
        self.payment_method = self._make_payment_method()
        proxy = FaultProxy(
            f"127.0.0.1:{port}",
            seed=self._seed,
            port=0,
            read_scale=READ_SCALE,
            delay_ms_max=DELAY_MS_MAX,
            reply_delay_ms=REPLY_DELAY_MS,
            identity=IDENTITY,
            journal=self._journal,
            **NETWORK,
        )
        self._proxy = self._stack.enter_context(proxy)

    def _start_localstripe(self) -> int:
        """Start it on a free port; on another one if somebody was faster there."""
        for left in reversed(range(STARTS_MAX)):
            port = free_port()
            command = [sys.executable, "-m", "localstripe", "--port", str(port), "--from-scratch"]
            program = Program.guarded(command, name="localstripe")
            self._stack.callback(program.stop)
            client = ProviderClient(f"http://127.0.0.1:{port}", timeout_s=5.0)
            until = time.monotonic() + READY_S_MAX
            while program.running and time.monotonic() < until:
                if client.send("GET", "/").code:
                    return port
                time.sleep(0.02)
            if not left:
                raise program.failure("did not start")
        raise AssertionError("unreachable: the last start returns or raises")

    def _make_payment_method(self) -> str:
        card = {"number": "4242424242424242", "exp_month": 12, "exp_year": 2040, "cvc": "123"}
        reply = self._call("POST", "/v1/payment_methods", {"type": "card", "card": card})
        return str(reply["id"])

    def _call(
        self, method: str, path: str, document: dict[str, object] | None = None
    ) -> dict[str, object]:
        credential = b64encode(f"{API_KEY}:".encode()).decode()
        exchange = self._direct.send(
            method, path, document, headers={"Authorization": f"Basic {credential}"}
        )
        if exchange.transport is not Transport.REPLIED or exchange.code != 200:
            raise AscertainError(
                f"localstripe did not do {method} {path}",
                fix=f"It answered {exchange.code or exchange.why}.",
            )
        return exchange.document

    def effects(self) -> list[Effect]:
        """Every payment that succeeded, counted at the provider once the network is empty."""
        self.proxy.wait_idle(timeout_s=30.0)
        return [
            _effect(intent) for intent in self._payment_intents() if intent["status"] == "succeeded"
        ]

    def _payment_intents(self) -> Iterator[dict[str, object]]:
        query = {"limit": str(PAGE)}
        for _ in range(PAGES_MAX):
            page = self._call("GET", f"/v1/payment_intents?{urlencode(query)}")
            intents = cast(list[dict[str, object]], page["data"])
            yield from intents
            if not page["has_more"] or not intents:
                return
            query["starting_after"] = str(intents[-1]["id"])
        raise AscertainError(f"more than {PAGES_MAX * PAGE} payments at the provider")


def _effect(intent: dict[str, object]) -> Effect:
    charge = cast(dict[str, object], intent["latest_charge"])
    return Effect(
        reference=str(intent["id"]),
        action_id=cast(dict[str, str], intent["metadata"]).get("action_id", ""),
        amount_pence=cast(int, intent["amount"]),
        reversed=bool(charge["refunded"]),
    )


def _check_pickle() -> None:
    """localstripe answers nothing if it cannot write its file; say so before it happens."""
    place = PICKLE if PICKLE.exists() else PICKLE.parent
    if not os.access(place, os.W_OK):
        raise AscertainError(
            f"localstripe has to write {PICKLE}, and may not",
            fix=f"Remove {PICKLE}, or run the demo as the user that it belongs to.",
        )
