"""The lossy proxy: each fate does what it says, over real sockets and against a real program."""

from __future__ import annotations

import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import cast

import pytest

from ascertain.errors import AscertainError, InputRefused
from ascertain.testing import (
    Fate,
    FaultProxy,
    LossyProvider,
    Program,
    StartProvider,
    StartProxy,
    Transport,
    free_port,
)
from ascertain.testing.fates import COURSES, Fates, Faults
from ascertain.testing.programs import SOURCE_ROOT

pytest_plugins = ["ascertain.testing.fixtures"]


@pytest.fixture
def lossy(start_provider: StartProvider, start_proxy: StartProxy) -> LossyProvider:
    provider = start_provider(keys="ignored")
    proxy = start_proxy(provider.address, delay_ms_max=200, reply_delay_ms=700)
    return LossyProvider(provider, proxy)


@pytest.mark.parametrize(
    ("fate", "transport", "effects", "copies"),
    [
        (Fate.PASS, Transport.REPLIED, 1, 1),
        (Fate.DROP_REQUEST, Transport.CONNECTION_LOST, 0, 0),
        (Fate.DELAY_REQUEST, Transport.REPLIED, 1, 1),
        (Fate.DROP_REPLY, Transport.CONNECTION_LOST, 1, 0),
        (Fate.DELAY_REPLY, Transport.TIMED_OUT, 1, 1),
        (Fate.DOUBLE_REPLY, Transport.REPLIED, 1, 2),
        (Fate.DOUBLE_REQUEST, Transport.REPLIED, 2, 1),
    ],
)
def test_each_fate_does_what_it_says(
    lossy: LossyProvider, fate: Fate, transport: Transport, effects: int, copies: int
) -> None:
    lossy.proxy.next(fate)
    exchange = lossy.client(timeout_s=0.5).pay("a-1", payee="Northwind", amount=5)
    assert exchange.transport is transport
    lossy.proxy.wait_idle()
    assert len(lossy.effects("a-1")) == effects
    (entry,) = lossy.proxy.entries()
    assert (entry["fate"], entry["copies"]) == (fate.value, copies)
    assert len(cast(list[int], entry["forwarded_ms"])) == COURSES[fate].deliveries == effects
    assert lossy.proxy.counts()[fate.value] == 1


def test_a_delayed_request_lands_after_its_client_has_gone_and_within_the_bound(
    lossy: LossyProvider,
) -> None:
    lossy.proxy.next(*[Fate.DELAY_REQUEST] * 8)
    client = lossy.client(timeout_s=0.001)
    for number in range(8):
        exchange = client.pay(f"a-{number}", payee="Northwind", amount=5)
        assert exchange.transport is Transport.TIMED_OUT
    lossy.proxy.wait_idle()
    assert len(lossy.effects()) == 8
    for entry in lossy.proxy.entries():
        (forwarded_ms,) = cast(list[int], entry["forwarded_ms"])
        assert 1 <= forwarded_ms <= lossy.proxy.longest_delay_ms
        assert entry["client_gone"]


def test_a_request_that_would_be_later_than_the_bound_is_dropped_and_counted(
    start_provider: StartProvider, start_proxy: StartProxy
) -> None:
    provider = start_provider()
    proxy = start_proxy(
        provider.address, seed=5, delay_ms_max=1_000, identity=r'"action_id": "([^"]+)"'
    )
    fates = Fates(Faults(delay_ms_max=1_000), seed=5)
    late = next(f"a-{n}" for n in range(99) if fates.draw("POST", f"a-{n}").delay_ms > 800)
    proxy.next(Fate.DELAY_REQUEST)
    client = provider.client(timeout_s=10.0).through(proxy.url)
    sender = threading.Thread(target=lambda: client.pay(late, payee="Northwind", amount=5))
    sender.start()
    until = time.monotonic() + 5
    while not proxy.facts()["in_flight"] and time.monotonic() < until:
        time.sleep(0.001)
    proxy.program.suspend()
    time.sleep(proxy.longest_delay_ms / 1000 + 0.1)
    proxy.program.resume()
    sender.join(10)
    proxy.wait_idle()
    assert proxy.counts()["too_late"] == 1
    assert not provider.requests()


def test_reads_pass_unless_they_have_a_rate_of_their_own(lossy: LossyProvider) -> None:
    lossy.proxy.set(drop_request=1.0)
    client = lossy.client()
    assert client.find("a-1").code == 200
    assert client.pay("a-1", payee="Northwind", amount=5).code == 0
    lossy.proxy.set(read_scale=1.0, drop_request=1.0)
    assert client.find("a-1").code == 0
    lossy.proxy.quiet()
    assert client.find("a-1").code == 200
    assert client.pay("a-1", payee="Northwind", amount=5).code == 201
    lossy.proxy.next("drop_reply", reads=True)
    assert client.pay("a-2", payee="Northwind", amount=5).code == 201
    assert client.find("a-2").transport is Transport.CONNECTION_LOST


def test_a_connection_is_kept_for_the_next_request_and_shut_after_a_drop(
    lossy: LossyProvider,
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", lossy.proxy.port, timeout=5)
    with closing(connection):
        connection.connect()
        first = connection.sock.getsockname()
        for number in range(3):
            connection.request("GET", f"/v1/effects?action_id=a-{number}")
            assert connection.getresponse().read()
            assert connection.sock.getsockname() == first
        lossy.proxy.next(Fate.DROP_REPLY)
        connection.request("POST", "/v1/effects", b'{"action_id": "a-1"}')
        with pytest.raises(http.client.RemoteDisconnected):
            connection.getresponse()


def test_a_doubled_reply_comes_twice_on_the_same_connection(lossy: LossyProvider) -> None:
    body = b'{"action_id": "a-1"}'
    request = (
        b"POST /v1/effects HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    )
    lossy.proxy.next(Fate.DOUBLE_REPLY)
    with socket.create_connection(("127.0.0.1", lossy.proxy.port), timeout=5) as peer:
        peer.sendall(request)
        received = b""
        while received.count(b"eff_000001") < 2:
            received += peer.recv(65536)
        half = len(received) // 2
        assert received[:half] == received[half:]
        peer.sendall(request.replace(b"a-1", b"a-2"))
        assert b"eff_000002" in peer.recv(65536)
    assert len(lossy.effects()) == 2


@contextmanager
def upstream_that(answer: Callable[[socket.socket, bytes], None]) -> Iterator[int]:
    """A raw upstream for one connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.settimeout(5)
                answer(peer, peer.recv(65536))
                peer.shutdown(socket.SHUT_RDWR)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(10)


@pytest.mark.parametrize(
    ("reply", "body"),
    [
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", b"until the end"),
        (
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"4;x=y\r\nin c\r\n5\r\nhunks\r\n0\r\nTrailer: t\r\n\r\n",
            b"in chunks",
        ),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 7\r\n\r\n", b""),
    ],
)
def test_replies_of_every_framing_are_carried(
    start_proxy: StartProxy, reply: bytes, body: bytes
) -> None:
    with upstream_that(lambda peer, _: peer.sendall(reply)) as port:
        proxy = start_proxy(f"127.0.0.1:{port}")
        connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=5)
        with closing(connection):
            connection.request("GET", "/")
            assert connection.getresponse().read() == body


def test_a_chunked_request_is_carried_whole(start_proxy: StartProxy) -> None:
    seen: list[bytes] = []

    def answer(peer: socket.socket, first: bytes) -> None:
        while not first.endswith(b"0\r\n\r\n"):
            first += peer.recv(65536)
        seen.append(first)
        peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    with upstream_that(answer) as port:
        proxy = start_proxy(f"127.0.0.1:{port}")
        connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=5)
        with closing(connection):
            connection.request("POST", "/", iter([b"one", b"two"]), encode_chunked=True)
            assert connection.getresponse().read() == b"ok"
    assert seen[0].endswith(b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")


def test_a_reply_cut_short_reaches_nobody(start_proxy: StartProxy) -> None:
    cut = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort"
    with upstream_that(lambda peer, _: peer.sendall(cut)) as port:
        proxy = start_proxy(f"127.0.0.1:{port}")
        connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=5)
        with closing(connection):
            connection.request("GET", "/")
            with pytest.raises(http.client.RemoteDisconnected):
                connection.getresponse()
        assert proxy.counts()["upstream_lost"] == 1


def test_an_upstream_that_is_not_there_is_a_lost_connection(start_proxy: StartProxy) -> None:
    proxy = start_proxy(f"127.0.0.1:{free_port()}")
    connection = http.client.HTTPConnection("127.0.0.1", proxy.port, timeout=5)
    with closing(connection):
        connection.request("GET", "/")
        with pytest.raises(http.client.RemoteDisconnected):
            connection.getresponse()
    assert proxy.counts()["upstream_lost"] == 1


@pytest.mark.parametrize(
    "nonsense",
    [
        b"hello\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: ten\r\n\r\n",
        b"x" * 70_000 + b"\r\n\r\n",
    ],
)
def test_nonsense_ends_its_own_connection_only(lossy: LossyProvider, nonsense: bytes) -> None:
    with socket.create_connection(("127.0.0.1", lossy.proxy.port), timeout=5) as peer:
        peer.sendall(nonsense)
        with suppress(ConnectionResetError):
            assert peer.recv(100) == b""
    assert lossy.client().find("a-1").code == 200
    assert not lossy.provider.requests()


def test_the_same_seed_gives_each_request_the_same_fate_in_any_order_of_arrival() -> None:
    faults = Faults({Fate.DROP_REPLY: 0.3, Fate.DELAY_REQUEST: 0.3})
    names = [f"a-{number % 50}" for number in range(150)]

    def fates(seed: int, order: list[str]) -> dict[tuple[str, int], tuple[Fate, int]]:
        drawn = Fates(faults, seed)
        found = {}
        for name in order:
            draw = drawn.draw("POST", name)
            found[name, draw.occurrence] = (draw.fate, draw.delay_ms)
        return found

    assert fates(7, names) == fates(7, names[::-1]) == fates(7, sorted(names))
    assert fates(7, names) != fates(8, names)


def test_rates_are_kept() -> None:
    fates = Fates(Faults({Fate.DROP_REQUEST: 0.1, Fate.DOUBLE_REPLY: 0.25}, read_scale=0.5), 3)
    posts = Counter(fates.draw("POST", str(number)).fate for number in range(4_000))
    gets = Counter(fates.draw("GET", str(number)).fate for number in range(4_000))
    assert 320 < posts[Fate.DROP_REQUEST] < 480
    assert 900 < posts[Fate.DOUBLE_REPLY] < 1_100
    assert 140 < gets[Fate.DROP_REQUEST] < 260
    assert set(posts) == {Fate.PASS, Fate.DROP_REQUEST, Fate.DOUBLE_REPLY}


@pytest.mark.parametrize(
    "faults",
    [
        {"rates": {Fate.DROP_REPLY: 0.6, Fate.DROP_REQUEST: 0.6}},
        {"rates": {Fate.DROP_REPLY: -0.1}},
        {"rates": {Fate.PASS: 0.5}},
        {"read_scale": 2.0},
        {"delay_ms_max": 0},
    ],
)
def test_faults_that_mean_nothing_are_refused(faults: dict[str, object]) -> None:
    with pytest.raises(InputRefused):
        Faults(**faults)  # type: ignore[arg-type]


def test_a_proxy_that_cannot_start_says_why() -> None:
    with pytest.raises(AscertainError, match="no such fate: lose_everything"):
        FaultProxy("127.0.0.1:1", lose_everything=0.1).start()
    with pytest.raises(AscertainError, match="not running"):
        FaultProxy("127.0.0.1:1").url  # noqa: B018


def test_a_running_proxy_refuses_faults_that_mean_nothing(lossy: LossyProvider) -> None:
    with pytest.raises(AscertainError, match="together at most 1"):
        lossy.proxy.set(drop_reply=2.0)
    with pytest.raises(ValueError, match="sideways"):
        lossy.proxy.next("sideways")


def test_an_identity_pattern_makes_requests_the_same_one(
    start_provider: StartProvider, start_proxy: StartProxy
) -> None:
    provider = start_provider(keys="ignored")
    proxy = start_proxy(provider.address, identity=r'"action_id": "([^"]+)"')
    client = provider.client().through(proxy.url)
    client.pay("a-1", payee="Northwind", amount=5)
    client.pay("a-1", payee="Southwind", amount=6)
    proxy.wait_idle()
    found = [(entry["identity"], entry["occurrence"]) for entry in proxy.entries()]
    assert found == [("a-1", 1), ("a-1", 2)]


def test_the_programs_end_when_the_process_that_started_them_is_killed() -> None:
    source = (
        "import time; from ascertain.testing import FaultProxy, Program\n"
        "proxy = FaultProxy('127.0.0.1:1').start()\n"
        "guarded = Program.guarded(['sleep', '600'], name='sleep')\n"
        "print(proxy.port, guarded.pid, flush=True); time.sleep(600)\n"
    )
    environment = {**os.environ, "PYTHONPATH": SOURCE_ROOT}
    parent = subprocess.Popen(
        [sys.executable, "-c", source], stdout=subprocess.PIPE, text=True, env=environment
    )
    assert parent.stdout is not None
    port, guard = map(int, parent.stdout.readline().split())
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    until = time.monotonic() + 10
    while (_listens(port) or _runs(guard)) and time.monotonic() < until:
        time.sleep(0.02)
    assert not _listens(port)
    assert not _runs(guard)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _runs(pid: int) -> bool:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_program_that_is_never_ready_is_reported_with_what_it_said() -> None:
    quiet = [sys.executable, "-c", "import sys, time; sys.stderr.write('hm'); time.sleep(60)"]
    with pytest.raises(AscertainError, match=r"not ready within 0\.\d s\n.*"):
        Program(quiet, name="quiet").announcement(ready_s_max=0.3)
