"""The fake provider's wire: HTTP/1.1 on the loopback interface, one thread for each connection."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import cast
from urllib.parse import parse_qsl, unquote, urlsplit

from ascertain.errors import InputRefused

BODY_BYTES_MAX = 64 * 1024
DISCARDED_BYTES_MAX = 8 * 1024 * 1024
IDLE_S_MAX = 300.0


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request as it came in. Header names are in small letters."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    def header(self, name: str) -> str:
        """The value of a header field, or an empty text."""
        return self.headers.get(name, "")

    def document(self) -> dict[str, object]:
        """The body as a JSON object."""
        try:
            document = json.loads(self.body or b"{}")
        except ValueError as error:
            raise InputRefused("the body is not JSON") from error
        if not isinstance(document, dict):
            raise InputRefused("the body is not a JSON object")
        return cast(dict[str, object], document)


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer; ``code`` 0 stands for none: the connection is shut down."""

    code: int
    body: Mapping[str, object] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def raw(self) -> bytes:
        """Head and body in one piece."""
        body = json.dumps(self.body, sort_keys=True).encode()
        reason = HTTPStatus(self.code).phrase if self.code in set(HTTPStatus) else "Unknown"
        fields = {
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **self.headers,
        }
        lines = [f"HTTP/1.1 {self.code} {reason}", *(f"{k}: {v}" for k, v in fields.items())]
        return "\r\n".join([*lines, "", ""]).encode() + body


def refused(
    code: int, message: str, *, reason: str = "", headers: Mapping[str, str] | None = None
) -> Answer:
    """An answer that says no."""
    return Answer(code, {"error": message, "reason": reason}, headers or {})


class Server(ThreadingHTTPServer):
    """Gives each request to one callable; the port is known as soon as it exists."""

    daemon_threads = True
    request_queue_size = 128

    def __init__(self, port: int, answer: Callable[[Arrival], Answer]) -> None:
        self.answer = answer
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return self.server_port

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that went away is nothing to report."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = IDLE_S_MAX

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        length = self.headers.get("Content-Length") or "0"
        if not length.isdecimal() or int(length) > BODY_BYTES_MAX:
            self._refuse_body(int(length) if length.isdecimal() else 0)
            return
        target = urlsplit(self.path)
        arrival = Arrival(
            method=self.command,
            path=unquote(target.path),
            query=dict(parse_qsl(target.query)),
            headers={name.lower(): value for name, value in self.headers.items()},
            body=self.rfile.read(int(length)),
        )
        answer = cast(Server, self.server).answer(arrival)
        if answer.code:
            self.wfile.write(answer.raw)
            return
        self.close_connection = True
        self.connection.shutdown(socket.SHUT_RDWR)

    def _refuse_body(self, length: int) -> None:
        """Let the client finish sending, or it would not see the answer."""
        self.close_connection = True
        for _ in range(min(length, DISCARDED_BYTES_MAX) // BODY_BYTES_MAX + 1):
            length -= len(self.rfile.read(min(length, BODY_BYTES_MAX)))
        self.wfile.write(refused(413, "the body is too large").raw)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: the ledger has it all."""
