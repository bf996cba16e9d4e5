import base64
import copy
import hashlib
import hmac
import json
import os
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from hypothesis import given
from hypothesis import strategies as st

from ascertain.errors import (
    EnvelopeRefused,
    InputRefused,
    KeyNotTrusted,
    PredicateRefused,
    SignatureRefused,
    VerificationFailed,
)
from ascertain.signing.consistency import SKEW_US
from ascertain.signing.dsse import PAYLOAD_TYPE, pae, seal
from ascertain.signing.manifest import KeyManifest
from ascertain.signing.statement import CERTIFICATE_TYPE, REPORT_TYPE
from ascertain.signing.verify import (
    CERTIFICATES_AND_REPORTS,
    Verified,
    verify,
    verify_file,
)
from tests.unit.test_signing_examples import (
    ACTION,
    AUDIENCE,
    COMMITTED,
    EXAMPLES,
    ISSUER,
    LINEAGE,
    MANIFEST,
    NOW,
    SECOND,
    STRANGER,
    SUBJECT_DIGEST,
    at,
    sealed,
    trusted,
    variant,
)

EXPECTED: dict[str, Any] = {
    "expect_action": ACTION,
    "expect_lineage": LINEAGE,
    "expect_audience": AUDIENCE,
    "at_us": NOW,
}
NOTHING: dict[str, Any] = dict.fromkeys(EXPECTED)
ISSUED = at(COMMITTED["issued_at"])
REPORT = {
    "action": {"action_id": ACTION},
    "lineage": LINEAGE,
    "issued_at": "2030-01-01T09:15:01Z",
    "findings": ["two effects for one action"],
}


def checked(raw: bytes, manifest: KeyManifest = MANIFEST, **changes: Any) -> Verified:
    return verify(raw, manifest, **(EXPECTED | changes))


def changed(**members: Any) -> dict[str, Any]:
    return copy.deepcopy(COMMITTED) | members


def compact(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_certificate_is_verified(name: str) -> None:
    raw = sealed(EXAMPLES[name])
    found = checked(raw)
    assert found.predicate == EXAMPLES[name]
    assert (found.action_id, found.lineage, found.audience) == (ACTION, LINEAGE, AUDIENCE)
    assert (found.predicate_type, found.is_report) == (CERTIFICATE_TYPE, False)
    assert found.issued_at_us == ISSUED
    assert found.subject_digest == SUBJECT_DIGEST
    assert found.digest == hashlib.sha256(raw).hexdigest()
    assert found.statement == base64.b64decode(json.loads(raw)["payload"])
    assert found.keys == MANIFEST.keys
    assert (found.unchecked, found.cautions) == ((), ())


def test_what_was_not_asked_is_listed() -> None:
    found = verify(sealed(), MANIFEST, **NOTHING)
    assert found.unchecked == ("action", "lineage", "audience", "time")


# --- replay --------------------------------------------------------------------------------------


@pytest.mark.parametrize("binding", ["action", "lineage", "audience"])
def test_a_certificate_for_something_else_is_refused(binding: str) -> None:
    with pytest.raises(PredicateRefused, match=f"its {binding} is .*, not 'another'"):
        verify(sealed(), MANIFEST, **(EXPECTED | {f"expect_{binding}": "another"}))
    with pytest.raises(PredicateRefused, match=f"its {binding} is"):
        verify(sealed(), MANIFEST, **(EXPECTED | {f"expect_{binding}": ""}))


def test_a_certificate_without_an_audience_is_for_no_audience() -> None:
    predicate = changed()
    del predicate["audience"]
    assert checked(sealed(predicate), expect_audience=None).audience is None
    with pytest.raises(PredicateRefused, match="its audience is none"):
        checked(sealed(predicate))


@pytest.mark.parametrize("binding", ["lineage", "audience"])
@pytest.mark.parametrize("value", ["", None, 7, [LINEAGE], {"id": LINEAGE}])
def test_a_binding_is_a_non_empty_string(binding: str, value: Any) -> None:
    with pytest.raises(PredicateRefused, match=binding):
        verify(sealed(changed(**{binding: value})), MANIFEST, **NOTHING)


def test_a_certificate_without_a_lineage_is_refused() -> None:
    predicate = changed()
    del predicate["lineage"]
    with pytest.raises(PredicateRefused, match=r"\$\.lineage: is missing"):
        verify(sealed(predicate), MANIFEST, **NOTHING)


def test_the_subject_is_the_action_of_the_predicate() -> None:
    with pytest.raises(PredicateRefused, match="not the subject"):
        verify(sealed(action_id="another"), MANIFEST, **NOTHING)


# --- algorithms ----------------------------------------------------------------------------------


def forged(signature: bytes, **members: Any) -> bytes:
    document = json.loads(sealed())
    entry = {"keyid": ISSUER.key_id, "sig": base64.b64encode(signature).decode()}
    return compact(document | {"signatures": [entry | members]})


def test_no_signature_under_the_algorithm_none() -> None:
    for raw in (
        forged(b""),
        forged(b"", alg="none"),
        compact(json.loads(sealed()) | {"signatures": []}),
    ):
        with pytest.raises(EnvelopeRefused):
            checked(raw)
    with pytest.raises(SignatureRefused):
        checked(forged(bytes(64)))


@pytest.mark.parametrize("algorithm", ["sha256", "sha512"])
def test_an_hmac_with_the_public_key_is_no_signature(algorithm: str) -> None:
    public = Ed25519PublicKey.from_public_bytes(ISSUER.public)
    pem = public.public_bytes(
        serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
    )
    message = pae(PAYLOAD_TYPE, base64.b64decode(json.loads(sealed())["payload"]))
    for secret in (pem, ISSUER.public, ISSUER.key_id.encode()):
        with pytest.raises(VerificationFailed):
            checked(forged(hmac.digest(secret, message, algorithm)))


def test_a_key_that_the_document_brings_along_is_not_used() -> None:
    document = json.loads(sealed(COMMITTED, STRANGER))
    [signature] = document["signatures"]
    public = base64.b64encode(STRANGER.public).decode()
    for members in ({"public": public}, {"jwk": {"kty": "OKP", "crv": "Ed25519", "x": public}}):
        with pytest.raises(EnvelopeRefused):
            checked(compact(document | {"signatures": [signature | members]}))
        with pytest.raises(EnvelopeRefused):
            checked(compact(document | members))
    with pytest.raises(KeyNotTrusted):
        checked(sealed(changed(key={"public": public}), STRANGER))


# --- keys and time -------------------------------------------------------------------------------


def test_a_retired_key_counts_for_what_it_signed_before() -> None:
    before = MANIFEST.retire(ISSUER.key_id, at_us=ISSUED + 1)
    rotated = before.add(trusted(SECOND, valid_from_us=ISSUED + 1))
    assert checked(sealed(), rotated).keys[0].public == ISSUER.public
    later = changed(issued_at="2030-01-01T09:20:00Z")
    assert checked(sealed(later, SECOND), rotated).keys[0].public == SECOND.public
    with pytest.raises(KeyNotTrusted, match="it was valid until"):
        checked(sealed(later), rotated)
    with pytest.raises(KeyNotTrusted, match="it is valid from"):
        checked(sealed(COMMITTED, SECOND), rotated)


def test_a_compromised_key_counts_with_a_caution_for_what_it_dated_before() -> None:
    stolen = MANIFEST.compromise(ISSUER.key_id, from_us=ISSUED + 1)
    [caution] = checked(sealed(), stolen).cautions
    assert "without a witness from outside" in caution
    with pytest.raises(KeyNotTrusted, match="compromised from"):
        checked(sealed(), MANIFEST.compromise(ISSUER.key_id, from_us=ISSUED))


def test_what_is_still_to_come_is_refused_beyond_the_skew() -> None:
    checked(sealed(), at_us=ISSUED - SKEW_US)
    with pytest.raises(PredicateRefused, match="still to come"):
        checked(sealed(), at_us=ISSUED - SKEW_US - 1)
    with pytest.raises(InputRefused, match="0000 to 9999"):
        checked(sealed(), at_us=NOW * 1_000)


@pytest.mark.parametrize(
    "issued_at", [None, 0, "", "2030-01-01", "2030-01-01T09:15:01+00:00", "2030-01-01T09:15:60Z"]
)
def test_a_certificate_says_when_it_was_issued_in_one_form(issued_at: Any) -> None:
    with pytest.raises(PredicateRefused, match="issued_at"):
        checked(sealed(changed(issued_at=issued_at)))
    predicate = changed()
    del predicate["issued_at"]
    with pytest.raises(PredicateRefused, match="issued_at"):
        checked(sealed(predicate))


def test_two_signers() -> None:
    manifest = MANIFEST.add(trusted(SECOND))
    assert len(checked(sealed(COMMITTED, ISSUER, SECOND), manifest, threshold=2).keys) == 2
    with pytest.raises(EnvelopeRefused, match="1 of at least 2"):
        checked(sealed(), manifest, threshold=2)


# --- the predicate -------------------------------------------------------------------------------


def test_a_signed_predicate_that_the_schema_does_not_allow_is_refused() -> None:
    predicate = changed(recovery_decision="retry", step_id="")
    with pytest.raises(PredicateRefused, match=r"\$\.step_id: is shorter than 1 \(and 1 more\)"):
        checked(sealed(predicate))


def test_a_committed_effect_needs_its_reference() -> None:
    with pytest.raises(PredicateRefused, match=r"\$\.effect\.external_reference: is missing"):
        checked(sealed(changed(effect={"status": "committed"})))


def test_a_predicate_that_contradicts_itself_is_refused() -> None:
    with pytest.raises(PredicateRefused, match="contradicts itself: adopt stands beside"):
        checked(sealed(variant("unknown", "adopt")))


def test_signed_bytes_that_are_no_canonical_statement_are_refused() -> None:
    statement = base64.b64decode(json.loads(sealed())["payload"])
    loose = json.dumps(json.loads(statement)).encode()
    doubled = statement[:-1] + b',"subject":[]}'
    for raw in (loose, doubled, statement + b"\n", b"", b"{}", b"\xff", b"[" * 60_000):
        with pytest.raises(PredicateRefused):
            checked(seal(raw, ISSUER))


def test_a_signed_statement_over_the_cap_is_refused() -> None:
    with pytest.raises(PredicateRefused, match="65536 are allowed"):
        checked(seal(b'{"a":"' + b"x" * 70_000 + b'"}', ISSUER))


# --- reports -------------------------------------------------------------------------------------


def test_a_report_is_no_certificate() -> None:
    raw = sealed(REPORT, predicate_type=REPORT_TYPE)
    with pytest.raises(PredicateRefused, match="will not do here") as refused:
        checked(raw, expect_audience=None)
    assert "no certificate" in refused.value.fix
    found = checked(raw, expect_audience=None, accept=CERTIFICATES_AND_REPORTS)
    assert found.is_report
    assert found.predicate == REPORT


def test_a_certificate_that_is_called_a_report_stays_one() -> None:
    """What is no certificate must not become one by its type, nor the other way round."""
    with pytest.raises(PredicateRefused):
        checked(sealed(REPORT), accept=CERTIFICATES_AND_REPORTS)
    with pytest.raises(PredicateRefused, match="will not do here"):
        checked(sealed(COMMITTED, predicate_type=REPORT_TYPE))
    with pytest.raises(PredicateRefused, match="will not do here"):
        checked(sealed(), accept=frozenset({REPORT_TYPE}))


def test_a_report_names_its_action() -> None:
    for action in ({}, {"action_id": "another"}, ACTION, None):
        raw = sealed(REPORT | {"action": action}, predicate_type=REPORT_TYPE)
        with pytest.raises(PredicateRefused, match="not the subject"):
            verify(raw, MANIFEST, **NOTHING, accept=CERTIFICATES_AND_REPORTS)


# --- bytes and files -----------------------------------------------------------------------------


def test_every_changed_byte_of_a_certificate_is_refused() -> None:
    raw = sealed()
    for position, byte in enumerate(raw):
        for other in (byte ^ 1, byte ^ 2, byte ^ 0x20):
            mutated = raw[:position] + bytes([other]) + raw[position + 1 :]
            with pytest.raises(VerificationFailed):
                checked(mutated)


@given(st.data())
def test_any_splice_of_two_certificates_is_refused(data: st.DataObject) -> None:
    left, right = sealed(), sealed(variant("unknown", "verify"))
    head, tail = data.draw(st.integers(0, len(left))), data.draw(st.integers(0, len(right)))
    spliced = left[:head] + right[tail:]
    if spliced not in (left, right):
        with pytest.raises(VerificationFailed):
            verify(spliced, MANIFEST, **NOTHING)


def test_a_file_is_verified(tmp_path: Path) -> None:
    place = tmp_path / "pay-run-190-v3.rcc.json"
    place.write_bytes(sealed())
    assert verify_file(place, MANIFEST, **EXPECTED) == checked(sealed())


def test_files_that_are_no_certificate(tmp_path: Path) -> None:
    contents = {
        "empty": b"",
        "truncated": sealed()[:-1],
        "longer": sealed() + b"\n",
        "large": b" " * 2_000_000,
        "large-after": sealed() + b"\0" * 2_000_000,
    }
    for name, content in contents.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(EnvelopeRefused):
            verify_file(tmp_path / name, MANIFEST, **EXPECTED)
    os.mkfifo(tmp_path / "pipe")
    for name, message in {
        "absent": "No such file",
        ".": "not a regular file",
        "pipe": "not a regular file",
    }.items():
        with pytest.raises(EnvelopeRefused, match=f"cannot be read: .*{message}"):
            verify_file(tmp_path / name, MANIFEST, **EXPECTED)


def test_a_large_file_is_not_read_to_its_end(tmp_path: Path) -> None:
    sparse = tmp_path / "sparse"
    with sparse.open("wb") as stream:
        stream.truncate(1 << 40)
    with pytest.raises(EnvelopeRefused, match="more than 1000000 bytes"):
        verify_file(sparse, MANIFEST, **EXPECTED)
