"""What replies and readbacks of a real provider prove, over HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ascertain as a
from ascertain.testing import Fate, StartProvider, StartProxy
from tests.interrupt.paying import KEYED, READ, Payments, terms
from tests.interrupt.scene import word

pytest_plugins = ["ascertain.testing.fixtures"]


def test_a_throttled_payment_may_run_again_at_once(
    tmp_path: Path, start_provider: StartProvider
) -> None:
    provider = start_provider(throttle=1)
    shop = Payments(tmp_path, provider.url, terms())
    first = shop.perform("pay")
    assert (word(first), len(provider.effects("pay"))) == ("NotApplied", 0)
    assert word(shop.perform("pay")) == "Applied"
    assert len(provider.effects("pay")) == 1


def test_recovery_runs_a_throttled_payment_again(
    tmp_path: Path, start_provider: StartProvider
) -> None:
    provider = start_provider(throttle=1)
    shop = Payments(tmp_path, provider.url, terms())
    shop.perform("pay")
    found = shop.journal.recover("pay")
    assert (found.decision, word(found.outcome), found.acted) == ("execute", "Applied", True)


def test_a_refused_connection_may_run_again_at_once(
    tmp_path: Path, start_provider: StartProvider
) -> None:
    provider = start_provider()
    shop = Payments(tmp_path, "http://127.0.0.1:1", terms())
    assert word(shop.perform("pay")) == "NotApplied"
    shop.client = provider.client()
    assert word(shop.perform("pay")) == "Applied"
    assert len(provider.effects("pay")) == 1


def test_a_decline_is_terminal(tmp_path: Path, start_provider: StartProvider) -> None:
    provider = start_provider(decline_payees=["DECLINE"])
    shop = Payments(tmp_path, provider.url, terms())
    assert word(shop.perform("pay", payee="DECLINE")) == "Rejected"
    provider.set(decline_payees=[])
    assert word(shop.perform("pay", payee="DECLINE")) == "Rejected"
    found = shop.journal.recover("pay")
    assert (found.decision, word(found.outcome), found.acted) == ("adopt", "Rejected", False)
    assert (shop.sent, provider.effects("pay")) == (1, [])


@pytest.mark.parametrize(
    ("fault", "effects"),
    [
        ("error_before_commit", 0),
        ("error_after_commit", 1),
        ("lose_reply", 1),
        ("close_before_commit", 0),
    ],
)
def test_what_leaves_it_open_is_unknown_and_then_found_out(
    tmp_path: Path, start_provider: StartProvider, fault: str, effects: int
) -> None:
    provider = start_provider(**{fault: 1})
    shop = Payments(tmp_path, provider.url, terms())
    assert word(shop.perform("pay")) == "Unknown"
    assert len(provider.effects("pay")) == effects
    found = shop.journal.recover("pay")
    assert word(found.outcome) == ("Applied" if effects else "Unknown"), found
    if not effects:
        time.sleep(0.35)
        found = shop.journal.recover("pay")
        assert (found.decision, word(found.outcome)) == ("execute", "Applied")
    assert len(provider.effects("pay")) == 1


def test_a_key_in_use_is_unknown(tmp_path: Path, start_provider: StartProvider) -> None:
    provider = start_provider(commit="held")
    shop = Payments(tmp_path, provider.url, terms(**KEYED), keyed=True, timeout_s=0.3)
    assert word(shop.perform("pay")) == "Unknown"  # timed out
    found = shop.journal.recover("pay")
    assert (found.decision, word(found.outcome)) == ("execute", "Unknown")  # 409
    provider.release()
    until = time.monotonic() + 5
    while not provider.effects("pay") and time.monotonic() < until:
        time.sleep(0.02)
    found = shop.journal.recover("pay")
    assert word(found.outcome) == "Applied", found
    assert len(provider.effects("pay")) == 1


def test_an_accepted_payment_is_pending_until_it_is_committed(
    tmp_path: Path, start_provider: StartProvider
) -> None:
    provider = start_provider(accept_first=True, commit="held")
    shop = Payments(tmp_path, provider.url, terms())
    assert word(shop.perform("pay")) == "Pending"
    assert word(shop.journal.recover("pay").outcome) == "Pending"
    provider.release()
    until = time.monotonic() + 5
    while not provider.effects("pay") and time.monotonic() < until:
        time.sleep(0.02)
    assert word(shop.journal.recover("pay").outcome) == "Applied"
    assert shop.sent == 1


# --- readbacks ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "readback",
    [
        a.Readback(by="action_id", consistency=a.Consistency.EVENTUAL),
        a.Readback(
            by="action_id",
            consistency=a.Consistency.BOUNDED,
            lag=5 * a.SECOND,
            keeps_records=True,
            retention=a.DAY,
        ),
    ],
    ids=["eventual", "bounded"],
)
def test_a_readback_that_lags_and_says_absent_is_unknown(
    tmp_path: Path, start_provider: StartProvider, readback: a.Readback
) -> None:
    provider = start_provider(lose_reply=1, readback_lag_ms=900)
    shop = Payments(tmp_path, provider.url, terms(readback=readback))
    said: list[str] = [word(shop.perform("pay"))]
    until = time.monotonic() + 10
    while said[-1] == "Unknown" and time.monotonic() < until:
        time.sleep(0.1)
        found = shop.journal.recover("pay")
        assert found.decision in ("verify", "adopt"), found
        said.append(word(found.outcome))
    assert set(said) == {"Unknown", "Applied"}
    assert len(said) > 2, "it never said absent"
    assert (shop.sent, len(provider.effects("pay"))) == (1, 1)


def rubbish(question: a.Question) -> Any:
    return {"effects": 0}


def raising(question: a.Question) -> Any:
    raise RuntimeError("readback is down")


def nothing(question: a.Question) -> Any:
    return None


def empty(question: a.Question) -> Any:
    return []


def another(question: a.Question) -> Any:
    return a.Seen("eff-other", action_id="another", fields={"payee": "X", "amount": 1})


def unkeepable(question: a.Question) -> Any:
    return a.Seen("eff", fields={"amount": 1.5})


def wrong_level(question: a.Question) -> Any:
    return a.Seen("eff", reaches="done")


@pytest.mark.parametrize("observe", [rubbish, raising, nothing, empty, unkeepable, wrong_level])
def test_a_readback_that_cannot_be_read_proves_nothing(
    tmp_path: Path, start_provider: StartProvider, observe: Callable[..., Any]
) -> None:
    provider = start_provider(close_before_commit=1)
    shop = Payments(tmp_path, provider.url, terms())
    shop.look = observe  # type: ignore[method-assign]
    shop.pay.declared.observers[0].function = observe  # type: ignore[attr-defined]
    assert word(shop.perform("pay")) == "Unknown"
    time.sleep(0.35)
    for _ in range(3):
        found = shop.journal.recover("pay")
        assert (found.decision, word(found.outcome)) == ("verify", "Unknown")
    assert shop.sent == 1


def test_a_record_of_another_action_is_a_conflict(
    tmp_path: Path, start_provider: StartProvider
) -> None:
    provider = start_provider(close_before_commit=1)
    shop = Payments(tmp_path, provider.url, terms())
    shop.pay.declared.observers[0].function = another  # type: ignore[attr-defined]
    assert word(shop.perform("pay")) == "Unknown"
    found = shop.journal.recover("pay")
    assert found.decision == "quarantine", found
    assert word(found.outcome) == "Conflict"


def test_looking_ends_and_a_person_is_asked(tmp_path: Path, start_provider: StartProvider) -> None:
    provider = start_provider(close_before_commit=1, readback="failing")
    looks = a.Observation(looks=3)
    shop = Payments(tmp_path, provider.url, terms(observation=looks, in_flight=a.InFlight()))
    assert word(shop.perform("pay")) == "Unknown"
    decisions = [shop.journal.recover("pay").decision for _ in range(5)]
    assert decisions[-1] == "quarantine", decisions
    assert "execute" not in decisions
    said = shop.journal.attest(
        "pay", claim="not_applied", operator="ada", reason="asked the bank", authority="policy 7"
    )
    assert word(said) == "NotApplied"
    assert word(shop.perform("pay")) == "Applied"


# --- the network between -------------------------------------------------------------------------

FATES = [
    Fate.DROP_REQUEST, Fate.DROP_REPLY, Fate.DELAY_REQUEST, Fate.DELAY_REPLY,
]  # fmt: skip


@pytest.mark.parametrize("fate", FATES)
def test_every_fate_on_the_network_ends_with_one_effect(
    tmp_path: Path, start_provider: StartProvider, start_proxy: StartProxy, fate: Fate
) -> None:
    provider = start_provider()
    proxy = start_proxy(provider.address, delay_ms_max=200, reply_delay_ms=600)
    flight = a.InFlight(after_release=0, after_close=(proxy.longest_delay_ms + 100) * 1000)
    shop = Payments(tmp_path, proxy.url, terms(in_flight=flight), timeout_s=0.4)
    shop.reading = provider.client()
    proxy.next(fate)
    outcome = word(shop.perform("pay"))
    rounds = 0
    while outcome != "Applied" and rounds < 60:
        rounds += 1
        found = shop.journal.recover("pay")
        outcome = word(found.outcome)
        assert outcome in ("Applied", "Unknown"), found
        time.sleep(0.05)
    proxy.wait_idle()
    assert (outcome, len(provider.effects("pay"))) == ("Applied", 1)


def test_the_readback_terms_of_this_module() -> None:
    assert READ.consistency is a.Consistency.LINEARIZABLE
