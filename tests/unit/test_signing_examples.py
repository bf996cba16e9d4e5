"""Realistic predicates, keys and manifests for the tests of signing, and that they are sound."""

import copy
import json
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from ascertain.signing.consistency import consistency
from ascertain.signing.dsse import seal
from ascertain.signing.keys import SigningKey
from ascertain.signing.manifest import KeyManifest, Role, TrustedKey
from ascertain.signing.schema import problems
from ascertain.signing.statement import CERTIFICATE_TYPE, statement
from ascertain.signing.times import read_utc

SCHEMA_FILE = Path(__file__).parents[1] / "vectors" / "rcc.schema.json"
ACTION = "pay-run-190-v3"
LINEAGE = "pay-run-190-v3"
AUDIENCE = "reviewer:finance"
SUBJECT_DIGEST = "3b" * 32

ISSUER = SigningKey.from_seed(b"issuer" + bytes(26))
SECOND = SigningKey.from_seed(b"second" + bytes(26))
STRANGER = SigningKey.from_seed(b"stranger" + bytes(24))


def at(text: str) -> int:
    """The instant of ``text`` in microseconds."""
    instant = read_utc(text)
    assert instant is not None
    return instant


NOW = at("2030-01-01T09:30:00Z")

COMMITTED: dict[str, Any] = {
    "execution_id": "run-190",
    "step_id": "pay",
    "intent": {
        "version": 3,
        "subject": "acct-7",
        "purpose": "supplier-payment",
        "digest": "1a" * 32,
    },
    "authority_at_effect": {
        "decision_id": "allow-17",
        "outcome": "allow",
        "checked_at": "2030-01-01T09:00:00Z",
        "valid_until": "2030-01-01T09:10:00Z",
        "policy_version": "limits-4",
    },
    "precondition": {
        "resource": "account:A7",
        "version": "41",
        "observed_at": "2030-01-01T08:59:59.5Z",
    },
    "action": {
        "action_id": ACTION,
        "type": "supplier-payment",
        "payload_hash": "c0" * 32,
        "idempotency_scope": "provider",
    },
    "effect": {
        "status": "committed",
        "external_reference": "EXT-0001",
        "effect_receipt_digest": "d1" * 32,
        "readback_digest": "e2" * 32,
        "verified_at": "2030-01-01T09:15:00Z",
    },
    "recovery_authority": {"decision_id": "allow-18", "permits": "observe"},
    "recovery_decision": "adopt",
    "lineage": LINEAGE,
    "audience": AUDIENCE,
    "issued_at": "2030-01-01T09:15:01.250000Z",
    "limitations": ["the readback is eventual", "Zahlung an Zoë, 125 000 £"],
    "row": {"id": "applied/final", "reason": "it happened, and the evidence is enough"},
}


def variant(status: str, decision: str, **members: Any) -> dict[str, Any]:
    """The example with another effect word, decision and further members."""
    predicate = copy.deepcopy(COMMITTED)
    predicate["recovery_decision"] = decision
    if status != "committed":
        predicate["effect"] = {"status": status}
    else:
        predicate["effect"]["status"] = status
    predicate["recovery_authority"] = {"decision_id": "allow-18"}
    predicate.update(members)
    return predicate


EXAMPLES = {
    "adopt": COMMITTED,
    "adopt-refusal": variant("rejected", "adopt"),
    "execute": variant("not_started", "execute"),
    "replay": variant("unknown", "execute"),
    "verify": variant("unknown", "verify"),
    "reauthorise": variant("not_started", "reauthorise"),
    "compensate": variant("committed", "compensate"),
    "quarantine": variant("unknown", "quarantine"),
}


def trusted(key: SigningKey, **members: Any) -> TrustedKey:
    """An entry for a key, as a certificate key of one domain unless said otherwise."""
    given: dict[str, Any] = {
        "role": Role.CERTIFICATE,
        "control_domain": "payments",
        "public": key.public,
        "valid_from_us": at("2029-01-01T00:00:00Z"),
    }
    return TrustedKey(**(given | members))


MANIFEST = KeyManifest((trusted(ISSUER),))


def sealed(
    predicate: dict[str, Any] = COMMITTED,
    *keys: SigningKey,
    action_id: str = ACTION,
    predicate_type: str = CERTIFICATE_TYPE,
) -> bytes:
    """A certificate's bytes."""
    raw = statement(action_id, SUBJECT_DIGEST, predicate, predicate_type=predicate_type)
    return seal(raw, *(keys or (ISSUER,)))


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_are_valid_and_consistent(name: str) -> None:
    reference = jsonschema_rs.validator_for(
        json.loads(SCHEMA_FILE.read_text("utf-8")), validate_formats=True
    )
    assert reference.is_valid(EXAMPLES[name])
    assert problems(EXAMPLES[name]) == []
    assert consistency(EXAMPLES[name]) == []
