import copy
import itertools
from typing import Any

import pytest

from ascertain.signing.consistency import consistency
from ascertain.signing.schema import problems
from tests.unit.test_signing_examples import COMMITTED, variant

STATUSES = ["not_started", "unknown", "committed", "rejected"]
DECISIONS = ["execute", "adopt", "verify", "reauthorise", "compensate", "quarantine"]
IMPOSSIBLE = {
    ("not_started", "adopt"),
    ("not_started", "compensate"),
    ("unknown", "adopt"),
    ("unknown", "compensate"),
    ("committed", "execute"),
    ("rejected", "execute"),
    ("rejected", "compensate"),
}


@pytest.mark.parametrize(("status", "decision"), list(itertools.product(STATUSES, DECISIONS)))
def test_which_decisions_can_stand_beside_which_effect(status: str, decision: str) -> None:
    predicate = variant(status, decision)
    assert problems(predicate) == []
    assert bool(consistency(predicate)) == ((status, decision) in IMPOSSIBLE)


def test_a_replay_needs_an_idempotency_key() -> None:
    predicate = variant("unknown", "execute")
    predicate["action"]["idempotency_scope"] = "none"
    assert consistency(predicate) == [
        "execute stands beside an unknown effect of an action without an idempotency key"
    ]
    predicate["effect"] = {"status": "not_started"}
    assert consistency(predicate) == []


def test_references() -> None:
    predicate = copy.deepcopy(COMMITTED)
    predicate["effect"]["external_reference"] = ""
    assert consistency(predicate) == ["the committed effect has an empty external reference"]
    predicate = variant("not_started", "execute")
    predicate["effect"]["external_reference"] = "EXT-0001"
    assert consistency(predicate) == ["an effect that is not_started has an external reference"]


@pytest.mark.parametrize(
    ("status", "decision", "permits", "fits"),
    [
        ("not_started", "execute", "continue", True),
        ("not_started", "execute", "observe", False),
        ("committed", "compensate", "compensate", True),
        ("committed", "compensate", "continue", False),
        ("committed", "adopt", "observe", True),
        ("unknown", "quarantine", "quarantine", True),
    ],
)
def test_an_effect_needs_the_capability_for_it(
    status: str, decision: str, permits: str, fits: bool
) -> None:
    predicate = variant(status, decision, recovery_authority={"permits": permits})
    assert (consistency(predicate) == []) == fits
    del predicate["recovery_authority"]
    assert consistency(predicate) == []


@pytest.mark.parametrize(
    ("part", "member", "instant", "fits"),
    [
        ("authority_at_effect", "checked_at", "2030-01-01T10:10:00+01:00", True),
        ("authority_at_effect", "checked_at", "2030-01-01T10:10:00.1+01:00", False),
        ("authority_at_effect", "valid_until", "2029-12-31T09:00:00Z", False),
        ("precondition", "observed_at", "2030-01-01T09:20:01.25Z", True),
        ("precondition", "observed_at", "2030-01-01T09:20:01.26Z", False),
        ("effect", "verified_at", "2030-01-01T09:20:02Z", False),
        ("effect", "verified_at", "2016-12-31T23:59:60Z", True),
    ],
)
def test_the_order_of_times(part: str, member: str, instant: str, fits: bool) -> None:
    predicate = copy.deepcopy(COMMITTED)
    predicate[part][member] = instant
    assert problems(predicate) == []
    assert (consistency(predicate) == []) == fits


def test_every_contradiction_is_named() -> None:
    predicate: dict[str, Any] = variant("not_started", "adopt")
    predicate["effect"]["external_reference"] = "EXT-0001"
    predicate["precondition"]["observed_at"] = "2031-01-01T00:00:00Z"
    assert len(consistency(predicate)) == 3
