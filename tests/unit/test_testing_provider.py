"""The fake provider: each term does what it says, over real sockets and with real processes."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import pytest

from ascertain.errors import AscertainError, InputRefused
from ascertain.testing import (
    Exchange,
    FakeProvider,
    LossyProvider,
    ProviderClient,
    StartProvider,
    Terms,
    Transport,
    free_port,
)

pytest_plugins = ["ascertain.testing.fixtures"]


def pay(provider: FakeProvider, action_id: str = "a-1", amount: int = 5, key: str = "") -> Exchange:
    return provider.client().pay(action_id, payee="Northwind", amount=amount, key=key)


def seen(exchange: Exchange) -> list[dict[str, object]]:
    return cast(list[dict[str, object]], exchange.document["effects"])


def in_background(provider: FakeProvider, key: str = "", timeout_s: float = 10.0) -> list[Exchange]:
    """Send a payment from a thread; the list gets what came of it."""
    found: list[Exchange] = []
    client = provider.client(timeout_s=timeout_s)

    def send() -> None:
        found.append(client.pay("a-1", payee="Northwind", amount=5, key=key))

    threading.Thread(target=send).start()
    return found


def wait_until(holds: Callable[[], object]) -> None:
    until = time.monotonic() + 10
    while not holds() and time.monotonic() < until:
        time.sleep(0.005)
    assert holds()


def wait_for(found: list[Exchange]) -> None:
    wait_until(lambda: found)


def test_a_payment_is_committed_and_can_be_read_back(fake_provider: FakeProvider) -> None:
    assert seen(fake_provider.client().find("a-1")) == []
    exchange = pay(fake_provider)
    assert (exchange.transport, exchange.code) == (Transport.REPLIED, 201)
    (effect,) = seen(fake_provider.client().find("a-1"))
    assert effect == exchange.document
    assert effect["payload"] == {"action_id": "a-1", "payee": "Northwind", "amount": 5}
    assert fake_provider.client().get(str(effect["id"])).document == effect
    assert fake_provider.client().get("eff_999999").code == 404
    assert [request["answer"] for request in fake_provider.requests("a-1")] == ["201"]


def test_a_key_that_is_honoured_gives_the_first_result_again(fake_provider: FakeProvider) -> None:
    first, second = pay(fake_provider, key="k"), pay(fake_provider, key="k")
    assert first.document == second.document
    assert second.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers
    assert len(fake_provider.effects("a-1")) == 1
    assert len(fake_provider.requests("a-1")) == 2


def test_a_key_that_is_ignored_pays_again(start_provider: StartProvider) -> None:
    provider = start_provider(keys="ignored")
    first, second = pay(provider, key="k"), pay(provider, key="k")
    assert first.document["id"] != second.document["id"]
    assert len(provider.effects("a-1")) == 2


def test_a_key_is_pruned_after_its_retention_and_then_pays_again(
    start_provider: StartProvider,
) -> None:
    provider = start_provider(key_retention_ms=300)
    pay(provider, key="k")
    assert pay(provider, key="k").headers.get("idempotent-replayed") == "true"
    time.sleep(0.35)
    assert "idempotent-replayed" not in pay(provider, key="k").headers
    assert len(provider.effects("a-1")) == 2


@pytest.mark.parametrize("mismatch", [400, 409, 422])
def test_a_key_with_another_payload_is_refused(
    start_provider: StartProvider, mismatch: int
) -> None:
    provider = start_provider(mismatch=mismatch)
    pay(provider, key="k")
    assert pay(provider, key="k", amount=6).code == mismatch
    assert len(provider.effects()) == 1


def test_a_key_with_another_payload_can_get_the_first_result_in_silence(
    start_provider: StartProvider,
) -> None:
    provider = start_provider(mismatch=0)
    first = pay(provider, key="k")
    assert pay(provider, key="k", amount=6).document == first.document


def test_a_held_request_commits_only_when_it_is_released(fake_provider: FakeProvider) -> None:
    fake_provider.set(commit="held")
    found = in_background(fake_provider)
    assert fake_provider.wait_held() == ["a-1"]
    assert not fake_provider.effects()
    assert seen(fake_provider.client().find("a-1")) == []
    assert fake_provider.release("another") == 0
    assert fake_provider.release("a-1") == 1
    wait_for(found)
    assert found[0].code == 201
    assert len(fake_provider.effects("a-1")) == 1
    assert not fake_provider.held()


def test_a_held_request_commits_although_its_client_has_gone(fake_provider: FakeProvider) -> None:
    fake_provider.set(commit="held")
    found = in_background(fake_provider, timeout_s=0.2)
    fake_provider.wait_held()
    wait_for(found)
    assert found[0].transport is Transport.TIMED_OUT
    fake_provider.release()
    wait_until(fake_provider.effects)
    assert len(fake_provider.effects("a-1")) == 1


@pytest.mark.parametrize("concurrent", [409, 425])
def test_a_key_in_use_right_now_is_refused(start_provider: StartProvider, concurrent: int) -> None:
    provider = start_provider(commit="held", concurrent=concurrent)
    found = in_background(provider, key="k")
    provider.wait_held()
    assert pay(provider, key="k").code == concurrent
    provider.release()
    wait_for(found)
    assert pay(provider, key="k").document == found[0].document
    assert len(provider.effects()) == 1


def test_a_key_in_use_right_now_can_wait_for_the_first_result(
    start_provider: StartProvider,
) -> None:
    provider = start_provider(commit="held", concurrent=0)
    first = in_background(provider, key="k")
    provider.wait_held()
    others = [in_background(provider, key="k") for _ in range(4)]
    wait_until(lambda: len(provider.requests()) == 5)
    provider.release()
    wait_for(first)
    for other in others:
        wait_for(other)
        assert other[0].document == first[0].document
    assert len(provider.effects()) == 1


def test_a_delayed_commit_is_absent_at_first(start_provider: StartProvider) -> None:
    provider = start_provider(commit="delayed", commit_delay_ms=300)
    found = in_background(provider)
    wait_until(provider.requests)
    assert seen(provider.client().find("a-1")) == []
    wait_for(found)
    assert len(seen(provider.client().find("a-1"))) == 1


def test_an_effect_can_be_accepted_before_it_is_committed(start_provider: StartProvider) -> None:
    provider = start_provider(accept_first=True, commit="held")
    exchange = pay(provider, key="k")
    assert (exchange.code, exchange.document["state"]) == (202, "accepted")
    assert seen(provider.client().find("a-1"))[0]["state"] == "accepted"
    assert not provider.effects()
    provider.wait_held()
    provider.release()
    wait_until(provider.effects)
    assert seen(provider.client().find("a-1"))[0]["state"] == "committed"
    assert pay(provider, key="k").code == 202
    assert len(provider.effects()) == 1


def test_a_lagging_readback_says_absent_at_first(start_provider: StartProvider) -> None:
    provider = start_provider(readback_lag_ms=400)
    reference = str(pay(provider).document["id"])
    early = provider.client().find("a-1")
    assert seen(early) == []
    assert provider.client().get(reference).code == 404
    committed_ms = cast(int, provider.effects("a-1")[0]["committed_ms"])
    assert cast(int, early.document["as_of_ms"]) < committed_ms
    time.sleep(0.45)
    assert len(seen(provider.client().find("a-1"))) == 1
    assert provider.client().get(reference).code == 200


def test_reading_by_action_id_can_be_missing_or_broken(fake_provider: FakeProvider) -> None:
    reference = str(pay(fake_provider).document["id"])
    fake_provider.set(readback="none")
    assert fake_provider.client().find("a-1").code == 404
    assert fake_provider.client().get(reference).code == 200
    fake_provider.set(readback="failing")
    assert fake_provider.client().find("a-1").code == 503
    assert fake_provider.client().get(reference).code == 503


def test_a_decline_is_kept_under_its_key(fake_provider: FakeProvider) -> None:
    client = fake_provider.client()
    assert client.pay("a-1", payee="DECLINE", amount=5, key="k").code == 402
    fake_provider.set(decline_payees=[])
    again = client.pay("a-1", payee="DECLINE", amount=5, key="k")
    assert (again.code, again.headers["idempotent-replayed"]) == (402, "true")
    assert client.pay("a-1", payee="DECLINE", amount=5).code == 201
    assert len(fake_provider.effects()) == 1


@pytest.mark.parametrize(
    ("term", "code", "effects"),
    [
        ("throttle", 429, 0),
        ("error_before_commit", 500, 0),
        ("error_after_commit", 500, 1),
        ("close_before_commit", 0, 0),
        ("lose_reply", 0, 1),
        ("double", 201, 2),
    ],
)
def test_counted_faults_fall_on_so_many_requests(
    fake_provider: FakeProvider, term: str, code: int, effects: int
) -> None:
    fake_provider.set(**{term: 2})
    for number in range(3):
        exchange = pay(fake_provider, f"a-{number}", key=f"k-{number}")
        assert exchange.code == (code if number < 2 else 201)
        lost = exchange.transport is Transport.CONNECTION_LOST
        assert lost is (exchange.code == 0)
        assert len(fake_provider.effects(f"a-{number}")) == (effects if number < 2 else 1)


def test_a_fault_can_fall_on_every_request(fake_provider: FakeProvider) -> None:
    fake_provider.set(throttle=-1)
    assert [pay(fake_provider).code for _ in range(3)] == [429, 429, 429]
    assert pay(fake_provider).headers["retry-after"] == "1"
    fake_provider.set(throttle=0)
    assert pay(fake_provider).code == 201


@pytest.mark.parametrize(("keeps", "code", "effects"), [("result", 201, 1), ("error", 500, 1)])
def test_what_stands_under_the_key_after_a_500(
    start_provider: StartProvider, keeps: str, code: int, effects: int
) -> None:
    provider = start_provider(error_after_commit=1, error_keeps=keeps)
    assert pay(provider, key="k").code == 500
    assert pay(provider, key="k").code == code
    assert len(provider.effects()) == effects


def test_a_500_that_leaves_the_key_free_pays_again(start_provider: StartProvider) -> None:
    provider = start_provider(error_after_commit=1, error_keeps="nothing")
    assert [pay(provider, key="k").code for _ in range(2)] == [500, 201]
    assert len(provider.effects()) == 2


def test_a_lost_reply_is_replayed_under_the_key(fake_provider: FakeProvider) -> None:
    fake_provider.set(lose_reply=1)
    assert pay(fake_provider, key="k").transport is Transport.CONNECTION_LOST
    assert pay(fake_provider, key="k").code == 201
    assert len(fake_provider.effects()) == 1


def test_a_revoked_credential_makes_no_effect_and_still_reads(fake_provider: FakeProvider) -> None:
    pay(fake_provider)
    fake_provider.set(revoked=True)
    assert pay(fake_provider, "a-2").code == 403
    assert len(seen(fake_provider.client().find("a-1"))) == 1
    assert not fake_provider.effects("a-2")


def test_a_guard_is_checked_against_the_version(start_provider: StartProvider) -> None:
    provider = start_provider(version=41)
    client = provider.client()
    assert client.pay("a-1", payee="Northwind", amount=5, if_match='"40"').code == 412
    assert client.pay("a-1", payee="Northwind", amount=5, if_match='"41"').code == 201
    assert len(provider.effects()) == 1


def test_a_reversal_is_a_later_effect_linked_to_the_first(fake_provider: FakeProvider) -> None:
    reference = str(pay(fake_provider).document["id"])
    client = fake_provider.client()
    reversal = client.reverse(reference, "a-1.refund", key="r")
    assert reversal.code == 201
    assert client.reverse(reference, "a-1.refund", key="r").document == reversal.document
    assert client.reverse(reference, "a-1.refund").code == 409
    (effect,) = seen(client.find("a-1"))
    assert effect["state"] == "committed"
    (link,) = cast(list[dict[str, object]], effect["reversals"])
    assert (link["id"], link["action_id"]) == (reversal.document["id"], "a-1.refund")
    assert client.reverse("eff_999999", "a-9.refund").code == 404


def test_reversals_can_be_repeated_or_not_offered(start_provider: StartProvider) -> None:
    provider = start_provider(reversals="repeated")
    reference = str(pay(provider).document["id"])
    codes = [provider.client().reverse(reference, "a-1.refund").code for _ in range(2)]
    assert codes == [201, 201]
    assert len(provider.ledger()["reversals"]) == 2
    provider.set(reversals="none")
    assert provider.client().reverse(reference, "a-1.refund").code == 404


def test_a_seal_refuses_what_comes_later_and_what_was_held(start_provider: StartProvider) -> None:
    provider = start_provider(seals=True, commit="held")
    found = in_background(provider)
    provider.wait_held()
    assert provider.client().seal("a-1").code == 201
    provider.release()
    wait_for(found)
    assert found[0].code == 409
    provider.set(commit="at_once")
    assert pay(provider, "a-1").code == 409
    assert not provider.effects()
    assert pay(provider, "a-2").code == 201
    assert provider.client().seal("a-2").code == 409
    provider.set(seals=False)
    assert provider.client().seal("a-3").code == 404


def test_sixteen_at_once_under_one_key_make_one_effect(start_provider: StartProvider) -> None:
    provider = start_provider(concurrent=0, commit="delayed", commit_delay_ms=50, double=0)
    found = [in_background(provider, key="k") for _ in range(16)]
    for each in found:
        wait_for(each)
    assert {each[0].code for each in found} == {201}
    assert len(provider.effects()) == 1


def test_the_books_outlive_the_process(tmp_path: Path) -> None:
    books = tmp_path / "books.db"
    with FakeProvider(ledger=books) as provider:
        pay(provider, key="k")
        provider.program.kill()
    with FakeProvider(ledger=books) as provider:
        assert pay(provider, key="k").headers["idempotent-replayed"] == "true"
        assert len(provider.effects("a-1")) == 1


def test_a_key_in_use_at_the_death_of_the_provider_is_free_afterwards(tmp_path: Path) -> None:
    books = tmp_path / "books.db"
    with FakeProvider(ledger=books, commit="held") as provider:
        found = in_background(provider, key="k")
        provider.wait_held()
        provider.program.kill()
        wait_for(found)
        assert found[0].transport is Transport.CONNECTION_LOST
    with FakeProvider(ledger=books) as provider:
        assert not provider.effects()
        assert pay(provider, key="k").code == 201


@pytest.mark.parametrize(
    "wanted",
    [
        {"colour": "blue"},
        {"keys": "perhaps"},
        {"revoked": 1},
        {"throttle": "many"},
        {"throttle": -2},
        {"commit_delay_ms": -1},
        {"mismatch": True},
        {"decline_payees": "DECLINE"},
        {"decline_payees": [1]},
    ],
)
def test_terms_that_mean_nothing_are_refused(wanted: dict[str, object]) -> None:
    with pytest.raises(InputRefused):
        Terms().changed(wanted)


def test_a_provider_says_why_it_does_not_start_or_change(fake_provider: FakeProvider) -> None:
    with pytest.raises(AscertainError, match="no term 'colour'"):
        FakeProvider(colour="blue").start()
    with pytest.raises(AscertainError, match="no term 'colour'"):
        fake_provider.set(colour="blue")
    assert pay(fake_provider).code == 201


@pytest.mark.parametrize(
    ("method", "path", "document", "code"),
    [
        ("POST", "/v1/effects", {}, 400),
        ("POST", "/v1/effects", {"action_id": 5}, 400),
        ("GET", "/v2/effects", None, 404),
        ("GET", "/control/nothing", None, 404),
        ("POST", "/v1/effects", {"action_id": "a", "note": "x" * 70_000}, 413),
    ],
)
def test_bad_requests_get_a_clear_answer(
    fake_provider: FakeProvider,
    method: str,
    path: str,
    document: dict[str, object] | None,
    code: int,
) -> None:
    exchange = fake_provider.client().send(method, path, document)
    assert exchange.code == code
    assert exchange.document["error"]
    assert not fake_provider.effects()


def test_the_client_tells_refused_from_lost_from_late() -> None:
    client = ProviderClient(f"http://127.0.0.1:{free_port()}", timeout_s=0.2)
    refused = client.pay("a-1", payee="Northwind", amount=5)
    assert (refused.transport, refused.code) == (Transport.NOT_SENT, 0)
    assert "refused" in refused.why
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = client.through(f"http://127.0.0.1:{silent.getsockname()[1]}")
        late = client.pay("a-1", payee="Northwind", amount=5)
        assert late.transport is Transport.TIMED_OUT
        assert late.took_ms >= 200


@pytest.mark.parametrize(
    "cut", [b"", b"HTTP/1.1 2", b"HTTP/1.1 201 OK\r\nContent-Length: 9\r\n\r\n{"]
)
def test_a_reply_cut_anywhere_is_a_lost_connection(cut: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            peer, _ = listener.accept()
            with peer:
                peer.recv(65536)
                peer.sendall(cut)
                peer.shutdown(socket.SHUT_RDWR)

        thread = threading.Thread(target=serve)
        thread.start()
        client = ProviderClient(f"http://127.0.0.1:{listener.getsockname()[1]}")
        assert client.find("a-1").transport is Transport.CONNECTION_LOST
        thread.join(10)


def test_the_lossy_provider_goes_through_the_network(lossy_provider: LossyProvider) -> None:
    lossy_provider.proxy.next("drop_reply")
    assert lossy_provider.client().pay("a-1", payee="Northwind", amount=5).code == 0
    assert len(lossy_provider.effects("a-1")) == 1
    assert lossy_provider.client().find("a-1").code == 200
