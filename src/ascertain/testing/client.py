"""A plain client that says what became of one request, and nothing more.

One connection for each request, no retries: the answer is about exactly one request, as an adapter
needs it. The words are those of the record `AttemptReturned`.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Self, cast
from urllib.parse import quote, urlencode, urlsplit

REPLY_BYTES_MAX = 16 * 1024 * 1024


class Transport(Enum):
    """What is known of one request on the wire; nothing about its effect."""

    REPLIED = "replied"
    TIMED_OUT = "timed_out"
    CONNECTION_LOST = "connection_lost"
    NOT_SENT = "not_sent"
    """Refused, or never connected: no byte of the request left."""


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and what came back. ``code`` is 0 unless it was replied to."""

    transport: Transport
    code: int = 0
    headers: Mapping[str, str] = field(default_factory=dict)
    raw: bytes = b""
    why: str = ""
    took_ms: int = 0

    @property
    def document(self) -> dict[str, object]:
        """The reply's body as a JSON object; empty if it is none."""
        try:
            document = json.loads(self.raw)
        except ValueError:
            return {}
        return cast(dict[str, object], document) if isinstance(document, dict) else {}


class _Deadline:
    def __init__(self, timeout_s: float) -> None:
        self._until = time.monotonic() + timeout_s

    def left(self) -> float:
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError("the deadline has passed")
        return left


@dataclass(frozen=True, slots=True)
class ProviderClient:
    """Speaks to the fake provider, through a proxy or not."""

    url: str
    timeout_s: float = 2.0
    connect_timeout_s: float = 1.0

    def through(self, url: str) -> Self:
        """The same client by another way, a proxy's for instance."""
        return type(self)(url, self.timeout_s, self.connect_timeout_s)

    def pay(
        self, action_id: str, *, payee: str, amount: int, key: str = "", if_match: str = ""
    ) -> Exchange:
        """Ask for an effect."""
        headers = {"Idempotency-Key": key} if key else {}
        if if_match:
            headers["If-Match"] = if_match
        document = {"action_id": action_id, "payee": payee, "amount": amount}
        return self.send("POST", "/v1/effects", document, headers=headers)

    def find(self, action_id: str) -> Exchange:
        """Read by the action's identity."""
        return self.send("GET", f"/v1/effects?{urlencode({'action_id': action_id})}")

    def get(self, reference: str) -> Exchange:
        """Read by the provider's reference."""
        return self.send("GET", f"/v1/effects/{quote(reference, safe='')}")

    def reverse(self, reference: str, action_id: str, *, key: str = "") -> Exchange:
        """Ask for the reversal of an effect, under the reversal's own action id."""
        path = f"/v1/effects/{quote(reference, safe='')}/reversals"
        headers = {"Idempotency-Key": key} if key else {}
        return self.send("POST", path, {"action_id": action_id}, headers=headers)

    def seal(self, action_id: str) -> Exchange:
        """Ask that this action id be refused from now on."""
        return self.send("POST", "/v1/seals", {"action_id": action_id})

    def send(
        self,
        method: str,
        path: str,
        document: Mapping[str, object] | None = None,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> Exchange:
        """One request on a connection of its own."""
        started = time.monotonic()
        place = urlsplit(self.url)
        connection = http.client.HTTPConnection(
            place.hostname or "127.0.0.1", place.port, timeout=self.connect_timeout_s
        )
        try:
            transport, reply = self._exchange(connection, method, path, document, headers or {})
        finally:
            connection.close()
        took_ms = round((time.monotonic() - started) * 1000)
        return Exchange(transport, *reply, took_ms=took_ms)

    def _exchange(
        self,
        connection: http.client.HTTPConnection,
        method: str,
        path: str,
        document: Mapping[str, object] | None,
        headers: Mapping[str, str],
    ) -> tuple[Transport, tuple[int, dict[str, str], bytes, str]]:
        def nothing(error: Exception) -> tuple[int, dict[str, str], bytes, str]:
            return 0, {}, b"", f"{type(error).__name__}: {error}"

        try:
            connection.connect()
        except OSError as error:
            return Transport.NOT_SENT, nothing(error)
        deadline = _Deadline(self.timeout_s)
        body = None if document is None else json.dumps(document).encode()
        fields = {"Connection": "close", "Content-Type": "application/json", **headers}
        try:
            connection.sock.settimeout(deadline.left())
            connection.request(method, path, body, fields)
            connection.sock.settimeout(deadline.left())
            reply = connection.getresponse()
            if (reply.length or 0) > REPLY_BYTES_MAX:
                raise http.client.HTTPException(f"a reply above {REPLY_BYTES_MAX} bytes")
            raw = reply.read()
        except TimeoutError as error:
            return Transport.TIMED_OUT, nothing(error)
        except (OSError, http.client.HTTPException) as error:
            return Transport.CONNECTION_LOST, nothing(error)
        found = {name.lower(): value for name, value in reply.getheaders()}
        return Transport.REPLIED, (reply.status, found, raw, "")
