import json
from typing import Any

import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from ascertain.errors import InputRefused, PredicateRefused, ProfileViolation
from ascertain.signing.statement import (
    CERTIFICATE_TYPE,
    REPORT_TYPE,
    STATEMENT_TYPE,
    read_statement,
    statement,
)
from tests.unit.test_signing_examples import ACTION, COMMITTED, SUBJECT_DIGEST


def document(**members: Any) -> dict[str, Any]:
    return {
        "_type": STATEMENT_TYPE,
        "subject": [{"name": ACTION, "digest": {"sha256": SUBJECT_DIGEST}}],
        "predicateType": CERTIFICATE_TYPE,
        "predicate": {},
    } | members


def test_the_bytes_are_an_in_toto_statement_in_rfc_8785_form() -> None:
    raw = statement(ACTION, SUBJECT_DIGEST, COMMITTED)
    assert raw == rfc8785.dumps(document(predicate=COMMITTED))
    assert json.loads(raw)["_type"] == "https://in-toto.io/Statement/v1"


@pytest.mark.parametrize("predicate_type", [CERTIFICATE_TYPE, REPORT_TYPE])
def test_a_statement_is_read_as_it_was_written(predicate_type: str) -> None:
    said = read_statement(
        statement(ACTION, SUBJECT_DIGEST, COMMITTED, predicate_type=predicate_type)
    )
    assert (said.predicate_type, said.action_id) == (predicate_type, ACTION)
    assert (said.subject_digest, said.predicate) == (SUBJECT_DIGEST, COMMITTED)


@pytest.mark.parametrize(
    ("action_id", "digest_hex", "predicate_type"),
    [
        ("", SUBJECT_DIGEST, CERTIFICATE_TYPE),
        (ACTION, SUBJECT_DIGEST[:-1], CERTIFICATE_TYPE),
        (ACTION, SUBJECT_DIGEST.upper(), CERTIFICATE_TYPE),
        (ACTION, SUBJECT_DIGEST + "\n", CERTIFICATE_TYPE),
        (ACTION, SUBJECT_DIGEST, "https://slsa.dev/provenance/v1"),
    ],
)
def test_what_cannot_be_stated_is_refused(
    action_id: str, digest_hex: str, predicate_type: str
) -> None:
    with pytest.raises(InputRefused):
        statement(action_id, digest_hex, {}, predicate_type=predicate_type)


def test_a_predicate_outside_the_profile_is_refused() -> None:
    predicate: Any = {"rate": 0.5}
    with pytest.raises(ProfileViolation):
        statement(ACTION, SUBJECT_DIGEST, predicate)
    with pytest.raises(ProfileViolation):
        statement(ACTION, SUBJECT_DIGEST, {"log": "x" * 70_000})


@pytest.mark.parametrize(
    "members",
    [
        {"_type": "https://in-toto.io/Statement/v0.1"},
        {"_type": None},
        {"predicateType": "urn:ascertain:recovery-cut-certificate:2"},
        {"predicateType": [CERTIFICATE_TYPE]},
        {"predicate": []},
        {"predicate": None},
        {"extra": 1},
        {"subject": []},
        {"subject": {}},
        {"subject": [document()["subject"][0]] * 2},
        {"subject": [{"name": "", "digest": {"sha256": SUBJECT_DIGEST}}]},
        {"subject": [{"name": 7, "digest": {"sha256": SUBJECT_DIGEST}}]},
        {"subject": [{"name": ACTION}]},
        {"subject": [{"name": ACTION, "digest": {}}]},
        {"subject": [{"name": ACTION, "digest": {"sha256": SUBJECT_DIGEST.upper()}}]},
        {"subject": [{"name": ACTION, "digest": {"sha1": "0" * 40}}]},
        {"subject": [{"name": ACTION, "digest": {"sha256": SUBJECT_DIGEST, "sha1": "0" * 40}}]},
        {"subject": [{"name": ACTION, "digest": {"sha256": SUBJECT_DIGEST}, "uri": "x"}]},
    ],
)
def test_another_document_is_refused(members: dict[str, Any]) -> None:
    with pytest.raises(PredicateRefused):
        read_statement(rfc8785.dumps(document(**members)))


@pytest.mark.parametrize("member", ["_type", "subject", "predicateType", "predicate"])
def test_a_member_that_is_missing_is_refused(member: str) -> None:
    shorter = document()
    del shorter[member]
    with pytest.raises(PredicateRefused, match="exactly its four members"):
        read_statement(rfc8785.dumps(shorter))


CANONICAL = rfc8785.dumps(document())


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b"\xef\xbb\xbf" + CANONICAL,
        CANONICAL + b"\n",
        b" " + CANONICAL,
        CANONICAL.replace(b":", b": ", 1),
        CANONICAL.replace(b"/", b"\\/", 1),
        CANONICAL[:-1] + b',"predicate":{}}',
        CANONICAL.replace(b'"predicate":{}', b'"predicate":{"a":1,"a":1}'),
        CANONICAL.replace(b'"predicate":{}', b'"predicate":{"b":1,"a":1}'),
        CANONICAL.replace(b'"predicate":{}', b'"predicate":{"a":1.0}'),
        CANONICAL.replace(b'"predicate":{}', b'"predicate":{"a":1e400}'),
        CANONICAL.replace(b'"predicate":{}', b'"predicate":{"a":9007199254740993}'),
        CANONICAL.replace(b'"predicate":{}', b'"predicate":{"a":"\xff"}'),
        CANONICAL.replace(b'"predicate":{}', b'"predicate":' + b"[" * 20_000 + b"]" * 20_000),
        CANONICAL.replace(b'"predicate":{}', b'"predicate":' + b"9" * 5_000),
        b" " * 70_000,
    ],
)
def test_bytes_that_are_not_canonical_are_refused(raw: bytes) -> None:
    assert raw != CANONICAL
    with pytest.raises(PredicateRefused):
        read_statement(raw)


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_with_one_error(raw: bytes) -> None:
    with pytest.raises(PredicateRefused):
        read_statement(raw)
