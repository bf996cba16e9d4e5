"""A lossy proxy between a client and any HTTP/1.1 provider, as a program of its own.

::

    python -m ascertain.testing.proxy --upstream 127.0.0.1:8420 --port 0 --seed 7 \\
        --rate drop_reply=0.1 --rate delay_request=0.1 --journal fates.jsonl

Each request meets a seeded fate (`ascertain.testing.fates`). Where a connection is broken it is
shut down, never only closed: a peer that waits in ``recv`` would wait on.

**The bound.** No request is forwarded later than ``longest_delay_ms`` after it was received, also
when its client has gone in the meantime; what would be later (the machine stood still) is dropped
and counted. An in-flight bound must exceed that figure, and the time which the provider itself
takes before a request has its effect.

Out of scope: TLS, pipelining, upgrades.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import re
import socket
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TextIO, cast

from ascertain.errors import AscertainError, DocumentMalformed, DocumentTooLarge
from ascertain.testing.fates import COURSES, Draw, Fate, Fates, Faults, parse_rates
from ascertain.testing.framing import (
    HEAD_BYTES_MAX,
    Reply,
    Request,
    read_head,
    read_reply,
    read_request_body,
)
from ascertain.testing.programs import announce, end_with_parent

GRACE_MS = 250
REPLY_WAIT_S_MAX = 120.0
IDLE_S_MAX = 300.0
REQUESTS_ON_CONNECTION_MAX = 100_000
LOST = (OSError, EOFError, TimeoutError, DocumentMalformed, DocumentTooLarge)


@dataclass(slots=True)
class Exchange:
    """One request as the proxy saw it; becomes one line of the journal of fates."""

    number: int
    request: Request
    identity: str
    draw: Draw
    received: float
    forwarded_ms: list[int] = field(default_factory=list)
    answered: list[int] = field(default_factory=list)
    copies: int = 0
    client_gone: bool = False
    too_late: int = 0
    upstream_lost: int = 0

    def line(self, ended: float) -> str:
        """The journal's line."""
        return json.dumps(
            {
                "number": self.number,
                "method": self.request.method,
                "target": self.request.target,
                "identity": self.identity,
                "occurrence": self.draw.occurrence,
                "fate": self.draw.fate.value,
                "forwarded_ms": self.forwarded_ms,
                "answered": self.answered,
                "copies": self.copies,
                "client_gone": self.client_gone,
                "too_late": self.too_late,
                "upstream_lost": self.upstream_lost,
                "took_ms": round((ended - self.received) * 1000),
            }
        )


class LossyProxy:
    """The proxy itself, on one event loop. `FaultProxy` runs it as a program of its own."""

    def __init__(
        self,
        upstream: tuple[str, int],
        fates: Fates,
        *,
        identity: re.Pattern[str] | None = None,
        journal: TextIO | None = None,
    ) -> None:
        self.upstream = upstream
        self.fates = fates
        self.longest_delay_ms = fates.faults.delay_ms_max + GRACE_MS
        self._identity = identity
        self._journal = journal
        self._open: set[int] = set()
        self._number = 0
        self._later: set[asyncio.Task[None]] = set()
        self.counts: Counter[str] = Counter()

    def facts(self) -> dict[str, object]:
        """What a caller may want to know; also the answer of the control port."""
        faults = self.fates.faults
        return {
            "upstream": f"{self.upstream[0]}:{self.upstream[1]}",
            "seed": self.fates.seed,
            "longest_delay_ms": self.longest_delay_ms,
            "rates": {fate.value: rate for fate, rate in faults.rates.items()},
            "read_scale": faults.read_scale,
            "counts": dict(self.counts),
            "in_flight": len(self._open),
        }

    def change(self, wanted: dict[str, object]) -> None:
        """Change rates or ordain coming fates. The bound never grows."""
        now = self.fates.faults
        if "rates" in wanted or "read_scale" in wanted:
            rates = parse_rates(cast(dict[str, float], wanted.get("rates", self.facts()["rates"])))
            scale = float(cast(float, wanted.get("read_scale", now.read_scale)))
            self.fates.faults = Faults(rates, scale, now.delay_ms_max, now.reply_delay_ms)
        for name, mutating in (("next", True), ("next_reads", False)):
            coming = cast(list[str], wanted.get(name, []))
            self.fates.put_next([Fate(fate) for fate in coming], mutating=mutating)

    async def serve_connection(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Carry the exchanges of one client connection, one after the other."""
        writer.transport.set_write_buffer_limits(high=0)
        try:
            for _ in range(REQUESTS_ON_CONNECTION_MAX):
                request = await _next_request(reader, writer)
                if request is None or not await self._carry(request, reader, writer):
                    break
        except LOST:
            self.counts["client_lost"] += 1
        finally:
            await _shut(writer)

    async def _carry(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """One exchange. True if the client's connection goes on."""
        received = asyncio.get_running_loop().time()
        identity = self._identify(request)
        draw = self.fates.draw(request.method, identity)
        self._number += 1
        exchange = Exchange(self._number, request, identity, draw, received)
        self._open.add(exchange.number)
        course = COURSES[draw.fate]
        extra: asyncio.Task[None] | None = None
        reply: Reply | None = None
        try:
            if course.deliveries > 1:
                extra = asyncio.create_task(self._deliver_again(exchange))
            if course.deliveries:
                reply = await self._deliver(exchange, draw.delay_ms if course.slow_request else 0)
            if course.slow_reply:
                await asyncio.sleep(self.fates.faults.reply_delay_ms / 1000)
            exchange.client_gone = reader.at_eof()
            return await _answer(exchange, reply, course.copies, writer)
        finally:
            if extra is None:
                self._close(exchange)
            else:
                self._later.add(extra)
                extra.add_done_callback(lambda task: self._close_later(exchange, task))

    def _identify(self, request: Request) -> str:
        text = f"{request.target} {request.body.decode('latin-1')}"
        found = self._identity.search(text) if self._identity else None
        if found:
            return found.group(1)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    async def _deliver_again(self, exchange: Exchange) -> None:
        await self._deliver(exchange, exchange.draw.delay_ms)

    async def _deliver(self, exchange: Exchange, delay_ms: int) -> Reply | None:
        """Send the request upstream after the delay, and read the reply. None: there is none."""
        loop = asyncio.get_running_loop()
        if delay_ms:
            await asyncio.sleep(delay_ms / 1000)
        upstream: asyncio.StreamWriter | None = None
        try:
            reader, upstream = await asyncio.open_connection(*self.upstream, limit=HEAD_BYTES_MAX)
            waited_ms = (loop.time() - exchange.received) * 1000
            if waited_ms > self.longest_delay_ms:
                exchange.too_late += 1
                return None
            upstream.write(exchange.request.raw)
            exchange.forwarded_ms.append(round(waited_ms))
            await upstream.drain()
            async with asyncio.timeout(REPLY_WAIT_S_MAX):
                reply = await read_reply(reader, exchange.request.method)
        except LOST:
            exchange.upstream_lost += 1
            return None
        finally:
            if upstream is not None:
                await _shut(upstream)
        if reply is None:
            exchange.upstream_lost += 1
        else:
            exchange.answered.append(reply.code)
        return reply

    def _close_later(self, exchange: Exchange, task: asyncio.Task[None]) -> None:
        self._later.discard(task)
        self._close(exchange)

    def _close(self, exchange: Exchange) -> None:
        self._open.discard(exchange.number)
        self.counts[exchange.draw.fate.value] += 1
        self.counts["too_late"] += exchange.too_late
        self.counts["upstream_lost"] += exchange.upstream_lost
        if self._journal is not None:
            self._journal.write(exchange.line(asyncio.get_running_loop().time()) + "\n")
            self._journal.flush()

    async def serve_control(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer one request on the control port: GET tells the facts, POST changes the faults."""
        try:
            request = await _next_request(reader, writer)
            if request is None:
                return
            code, answer = 200, b""
            try:
                if request.method == "POST":
                    self.change(json.loads(request.body))
                answer = json.dumps(self.facts()).encode()
            except (AscertainError, ValueError, TypeError) as error:
                code, answer = 400, json.dumps({"error": str(error)}).encode()
            writer.write(
                f"HTTP/1.1 {code} {'OK' if code == 200 else 'Bad Request'}\r\n"
                "Content-Type: application/json\r\nConnection: close\r\n"
                f"Content-Length: {len(answer)}\r\n\r\n".encode()
                + answer
            )
            await writer.drain()
        except LOST:
            return
        finally:
            await _shut(writer)


async def _next_request(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> Request | None:
    try:
        async with asyncio.timeout(IDLE_S_MAX):
            head = await read_head(reader)
            if head is None:
                return None
            if head.field("expect").lower() == "100-continue":
                writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            return await read_request_body(reader, head)
    except TimeoutError:
        return None


async def _answer(
    exchange: Exchange, reply: Reply | None, copies: int, writer: asyncio.StreamWriter
) -> bool:
    """Give the client what its fate leaves of the reply. True if its connection goes on."""
    if reply is None or not copies or writer.is_closing():
        return False
    writer.write(reply.raw * copies)
    try:
        await writer.drain()
    except OSError:
        return False
    exchange.copies = copies
    closes = reply.ends_connection or "close" in reply.head.field("connection").lower()
    return not (closes or exchange.request.last)


async def _shut(writer: asyncio.StreamWriter) -> None:
    """Flush, shut both ways down, close."""
    sock = writer.get_extra_info("socket")
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(1.0):
            await writer.drain()
        if writer.can_write_eof():
            writer.write_eof()
        sock.shutdown(socket.SHUT_RDWR)
    writer.close()


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m ascertain.testing.proxy",
        description="A lossy proxy in front of an HTTP/1.1 provider, on the loopback interface.",
    )
    parser.add_argument("--upstream", required=True, metavar="HOST:PORT")
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    parser.add_argument("--control-port", type=int, default=0, help="0: a free one")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--rate",
        action="append",
        default=[],
        metavar="FATE=PROBABILITY",
        help=", ".join(fate.value for fate in Fate if fate is not Fate.PASS),
    )
    parser.add_argument("--read-scale", type=float, default=0.0, help="rates of GETs: times this")
    parser.add_argument("--delay-ms-max", type=int, default=300)
    parser.add_argument("--reply-delay-ms", type=int, default=1_500)
    parser.add_argument(
        "--identity",
        help="regular expression over target and body; its group makes two requests the same one",
    )
    parser.add_argument("--journal", metavar="FILE", help="one line of JSON for each request")
    return parser.parse_args(arguments)


async def _serve(options: argparse.Namespace) -> None:
    host, _, port = str(options.upstream).rpartition(":")
    rates = parse_rates({name: float(rate) for name, _, rate in _pairs(options.rate)})
    faults = Faults(rates, options.read_scale, options.delay_ms_max, options.reply_delay_ms)
    identity = re.compile(options.identity) if options.identity else None
    with contextlib.ExitStack() as stack:
        journal = (
            stack.enter_context(open(options.journal, "a", encoding="utf-8"))
            if options.journal
            else None
        )
        proxy = LossyProxy(
            (host or "127.0.0.1", int(port)),
            Fates(faults, options.seed),
            identity=identity,
            journal=journal,
        )
        server = await asyncio.start_server(
            proxy.serve_connection, "127.0.0.1", options.port, limit=HEAD_BYTES_MAX
        )
        control = await asyncio.start_server(
            proxy.serve_control, "127.0.0.1", options.control_port, limit=HEAD_BYTES_MAX
        )
        announce(
            {
                "port": server.sockets[0].getsockname()[1],
                "control_port": control.sockets[0].getsockname()[1],
                **proxy.facts(),
            }
        )
        await server.serve_forever()


def _pairs(rates: list[str]) -> list[tuple[str, str, str]]:
    return [rate.partition("=") for rate in rates]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the proxy until it is told to end."""
    options = _parse(arguments)
    end_with_parent()
    try:
        asyncio.run(_serve(options))
    except (AscertainError, OSError, ValueError, re.error) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
