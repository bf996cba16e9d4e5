"""Where one HTTP/1.1 message ends and the next begins, with its bytes left as they came."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from ascertain.errors import DocumentMalformed, DocumentTooLarge

HEAD_BYTES_MAX = 64 * 1024
BODY_BYTES_MAX = 16 * 1024 * 1024
INTERIM_REPLIES_MAX = 10


@dataclass(frozen=True, slots=True)
class Head:
    """Start line and header fields; ``raw`` is what came, with the empty line."""

    start: tuple[str, str, str]
    fields: tuple[tuple[str, str], ...]
    raw: bytes

    def field(self, name: str) -> str:
        """The value of a header field, or an empty text."""
        return next((value for key, value in self.fields if key == name.lower()), "")

    @property
    def chunked(self) -> bool:
        """True if the body is sent in chunks."""
        return self.field("transfer-encoding").lower().endswith("chunked")


@dataclass(frozen=True, slots=True)
class Request:
    """One request: its head, and its body with the chunk framing as it came."""

    head: Head
    body: bytes

    @property
    def method(self) -> str:
        """The method, in capitals."""
        return self.head.start[0]

    @property
    def target(self) -> str:
        """The request target as it was sent."""
        return self.head.start[1]

    @property
    def raw(self) -> bytes:
        """The bytes to forward."""
        return self.head.raw + self.body

    @property
    def last(self) -> bool:
        """True if the client wants the connection closed after the reply."""
        connection = self.head.field("connection").lower()
        return "close" in connection or (
            self.head.start[2] == "HTTP/1.0" and "keep-alive" not in connection
        )


@dataclass(frozen=True, slots=True)
class Reply:
    """One reply. ``ends_connection``: only the end of the connection delimits it."""

    head: Head
    body: bytes
    ends_connection: bool

    @property
    def code(self) -> int:
        """The three digits."""
        return int(self.head.start[1])

    @property
    def raw(self) -> bytes:
        """The bytes to forward."""
        return self.head.raw + self.body


async def read_head(reader: asyncio.StreamReader) -> Head | None:
    """The next head, or None if the peer ended the connection before its first byte."""
    try:
        raw = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as end:
        if not end.partial.strip():
            return None
        raise
    except asyncio.LimitOverrunError as overrun:
        raise DocumentTooLarge(f"an HTTP head above {HEAD_BYTES_MAX} bytes") from overrun
    lines = raw.decode("latin-1").strip("\r\n").split("\r\n")
    start = lines[0].split(" ", 2)
    if len(start) == 2:
        start.append("")
    fields = [line.partition(":") for line in lines[1:]]
    if len(start) != 3 or any(not colon for _, colon, _ in fields):
        raise DocumentMalformed("not an HTTP/1.1 head")
    pairs = tuple((name.strip().lower(), value.strip()) for name, _, value in fields)
    return Head((start[0], start[1], start[2]), pairs, raw)


async def read_request_body(reader: asyncio.StreamReader, head: Head) -> Request:
    """The rest of the request whose head was read."""
    if head.chunked:
        return Request(head, await _read_chunks(reader))
    return Request(head, await _read_sized(reader, head.field("content-length") or "0"))


async def read_reply(reader: asyncio.StreamReader, method: str) -> Reply | None:
    """The final reply to a request of this method, without interim ones; None at an early end."""
    for _ in range(INTERIM_REPLIES_MAX):
        head = await read_head(reader)
        if head is None:
            return None
        if not (head.start[1].isdecimal() and len(head.start[1]) == 3):
            raise DocumentMalformed("not an HTTP/1.1 reply")
        code = int(head.start[1])
        if code < 200:
            continue
        if method == "HEAD" or code in (204, 304):
            return Reply(head, b"", ends_connection=False)
        if head.chunked:
            return Reply(head, await _read_chunks(reader), ends_connection=False)
        if length := head.field("content-length"):
            return Reply(head, await _read_sized(reader, length), ends_connection=False)
        return Reply(head, await _read_to_end(reader), ends_connection=True)
    raise DocumentMalformed(f"more than {INTERIM_REPLIES_MAX} interim replies")


async def _read_sized(reader: asyncio.StreamReader, length: str) -> bytes:
    if not length.isdecimal():
        raise DocumentMalformed("Content-Length is not a number")
    if int(length) > BODY_BYTES_MAX:
        raise DocumentTooLarge(f"an HTTP body above {BODY_BYTES_MAX} bytes")
    return await reader.readexactly(int(length))


async def _read_to_end(reader: asyncio.StreamReader) -> bytes:
    body = bytearray()
    while chunk := await reader.read(64 * 1024):
        body += chunk
        if len(body) > BODY_BYTES_MAX:
            raise DocumentTooLarge(f"an HTTP body above {BODY_BYTES_MAX} bytes")
    return bytes(body)


async def _read_chunks(reader: asyncio.StreamReader) -> bytes:
    """A chunked body up to its last chunk and trailers, with the framing kept."""
    body = bytearray()
    while len(body) <= BODY_BYTES_MAX:
        line = await reader.readuntil(b"\r\n")
        body += line
        try:
            size = int(line.split(b";")[0].strip(), 16)
        except ValueError as error:
            raise DocumentMalformed("a chunk without a size") from error
        if size == 0:
            while len(body) <= BODY_BYTES_MAX:
                trailer = await reader.readuntil(b"\r\n")
                body += trailer
                if trailer == b"\r\n":
                    return bytes(body)
        if size > BODY_BYTES_MAX:
            break
        body += await reader.readexactly(size + 2)
    raise DocumentTooLarge(f"an HTTP body above {BODY_BYTES_MAX} bytes")
