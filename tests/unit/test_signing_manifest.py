import base64
import json
import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest

from ascertain.errors import DocumentMalformed, DocumentTooLarge, InputRefused, KeyNotTrusted
from ascertain.signing.keys import SigningKey, key_id_of
from ascertain.signing.manifest import MANIFEST_TYPE, KeyManifest, Role, TrustedKey, enrol
from tests.unit.test_signing_examples import ISSUER, SECOND, STRANGER, at, trusted

NEW_YEAR = at("2030-01-01T00:00:00Z")
FULL = KeyManifest(
    (
        trusted(SECOND, role=Role.RECEIPT, control_domain="bank", valid_until_us=NEW_YEAR),
        trusted(ISSUER, compromised_from_us=NEW_YEAR + 1),
        trusted(ISSUER, role=Role.CHECKPOINT),
    )
)


def entry_document(**members: Any) -> dict[str, Any]:
    return trusted(ISSUER).document() | members


def document(*entries: Any, **members: Any) -> bytes:
    return json.dumps({"manifest": MANIFEST_TYPE, "keys": list(entries)} | members).encode()


def test_a_manifest_is_read_as_it_was_written(tmp_path: Path) -> None:
    FULL.save(tmp_path / "keys.json")
    assert KeyManifest.load(tmp_path / "keys.json") == FULL
    assert KeyManifest.parse(FULL.to_bytes()) == FULL
    assert (tmp_path / "keys.json").read_bytes() == FULL.to_bytes()
    assert os.listdir(tmp_path) == ["keys.json"]


def test_equal_manifests_have_equal_bytes_in_any_order() -> None:
    backwards = KeyManifest(tuple(reversed(FULL.keys)))
    assert backwards == FULL
    assert backwards.digest == FULL.digest
    pretty = json.dumps(json.loads(FULL.to_bytes()), indent=4).encode() + b"\n"
    assert KeyManifest.parse(pretty) == FULL


def test_the_document_is_as_documented() -> None:
    assert json.loads(KeyManifest((trusted(ISSUER),)).to_bytes()) == {
        "manifest": "urn:ascertain:key-manifest:1",
        "keys": [
            {
                "compromised_from": None,
                "control_domain": "payments",
                "key_id": ISSUER.key_id,
                "public": base64.b64encode(ISSUER.public).decode(),
                "role": "certificate",
                "valid_from": "2029-01-01T00:00:00Z",
                "valid_until": None,
            }
        ],
    }


def unpadded(public: bytes) -> str:
    return base64.b64encode(public).decode().rstrip("=")


def stray_bits(public: bytes) -> str:
    text = base64.b64encode(public).decode()
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    return text[:42] + alphabet[alphabet.index(text[42]) + 1] + "="


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (b"", "$"),
        (b"[]", "$"),
        (b"{}", "$"),
        (b'{"manifest":', "$.manifest"),
        (document(extra=1), "$"),
        (document(manifest="urn:ascertain:key-manifest:2"), "$.manifest"),
        (document(keys={}), "$.keys"),
        (document("key"), "$.keys[0]"),
        (document(entry_document(), entry_document()), "$.keys"),
        (document(entry_document(private="x")), "$.keys[0].private"),
        (document({**entry_document(), "role": "root"}), "$.keys[0].role"),
        (document(entry_document(role=["certificate"])), "$.keys[0].role"),
        (document(entry_document(control_domain="")), "$.keys[0].control_domain"),
        (document(entry_document(control_domain="a\nb")), "$.keys[0]"),
        (document(entry_document(key_id="0" * 16)), "$.keys[0].key_id"),
        (document(entry_document(key_id=None)), "$.keys[0].key_id"),
        (document(entry_document(public=7)), "$.keys[0].public"),
        (document(entry_document(public=unpadded(ISSUER.public))), "$.keys[0].public"),
        (document(entry_document(public=stray_bits(ISSUER.public))), "$.keys[0].public"),
        (document(entry_document(public="é" * 44)), "$.keys[0].public"),
        (document(entry_document(public=base64.b64encode(bytes(31)).decode())), "$.keys[0].public"),
        (document(entry_document(valid_from=None)), "$.keys[0].valid_from"),
        (document(entry_document(valid_from=0)), "$.keys[0].valid_from"),
        (document(entry_document(valid_from="2030-01-01")), "$.keys[0].valid_from"),
        (
            document(entry_document(valid_until="2030-01-01T00:00:00+00:00")),
            "$.keys[0].valid_until",
        ),
        (document(entry_document(valid_until="2029-01-01T00:00:00Z")), "$.keys[0]"),
        (document(entry_document(compromised_from="never")), "$.keys[0].compromised_from"),
    ],
)
def test_a_malformed_manifest_is_refused_with_the_path(raw: bytes, path: str) -> None:
    with pytest.raises(DocumentMalformed) as refused:
        KeyManifest.parse(raw)
    assert refused.value.path == path


@pytest.mark.parametrize("member", sorted(trusted(ISSUER).document()))
def test_no_member_may_be_left_out_or_doubled(member: str) -> None:
    entry = entry_document()
    value = json.dumps(entry.pop(member))
    with pytest.raises(DocumentMalformed, match="is missing") as refused:
        KeyManifest.parse(document(entry))
    assert refused.value.path == f"$.keys[0].{member}"
    text = json.dumps(entry_document())
    doubled = f'{{"manifest":"{MANIFEST_TYPE}","keys":[{text[:-1]},"{member}":{value}}}]}}'
    with pytest.raises(DocumentMalformed, match="twice"):
        KeyManifest.parse(doubled.encode())


def test_a_key_that_anybody_could_sign_under_is_refused() -> None:
    weak = bytes(32)
    with pytest.raises(InputRefused, match="anybody"):
        trusted(ISSUER, public=weak)
    entry = entry_document(public=base64.b64encode(weak).decode(), key_id=key_id_of(weak))
    with pytest.raises(DocumentMalformed, match="anybody"):
        KeyManifest.parse(document(entry))


@pytest.mark.parametrize(
    "members",
    [
        {"role": "root"},
        {"control_domain": ""},
        {"public": b"short"},
        {"valid_until_us": at("2029-01-01T00:00:00Z")},
        {"compromised_from_us": 2**63},
    ],
)
def test_an_entry_that_cannot_be_written_is_refused(members: dict[str, Any]) -> None:
    with pytest.raises(InputRefused):
        trusted(ISSUER, **members)


def test_one_raw_key_has_each_role_once_and_one_control_domain() -> None:
    manifest = KeyManifest((trusted(ISSUER),))
    with pytest.raises(InputRefused, match="twice a certificate key"):
        manifest.add(trusted(ISSUER, valid_from_us=NEW_YEAR))
    with pytest.raises(InputRefused, match="two control domains"):
        manifest.add(trusted(ISSUER, role=Role.RECEIPT, control_domain="bank"))
    assert len(manifest.add(trusted(ISSUER, role=Role.RECEIPT)).keys) == 2
    assert len(manifest.keys) == 1


def test_one_raw_key_cannot_stand_under_two_key_ids() -> None:
    twin = entry_document(key_id="f" * 16)
    with pytest.raises(DocumentMalformed, match="not the key id of its key"):
        KeyManifest.parse(document(entry_document(), twin))


def test_two_raw_keys_cannot_share_a_key_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ascertain.signing.manifest.key_id_of", lambda public: "c" * 16)
    with pytest.raises(InputRefused, match="two raw keys have the key id"):
        KeyManifest((trusted(ISSUER), trusted(SECOND)))


def test_a_key_is_found_for_its_role_only() -> None:
    assert FULL.find(ISSUER.key_id, Role.CHECKPOINT).role is Role.CHECKPOINT
    with pytest.raises(KeyNotTrusted, match="may not sign as authority, only as"):
        FULL.find(ISSUER.key_id, Role.AUTHORITY)
    with pytest.raises(KeyNotTrusted, match="not in the manifest"):
        FULL.find(STRANGER.key_id, Role.CERTIFICATE)


def test_a_raw_key_that_is_compromised_is_so_in_every_role() -> None:
    assert FULL.find(ISSUER.key_id, Role.CHECKPOINT).compromised_from_us == NEW_YEAR + 1


def test_validity_is_half_open() -> None:
    entry: TrustedKey = trusted(ISSUER, valid_from_us=10, valid_until_us=20)
    assert [entry.objection(at_us) is None for at_us in (9, 10, 19, 20)] == [
        False,
        True,
        True,
        False,
    ]
    stolen = trusted(ISSUER, valid_from_us=10, compromised_from_us=20)
    assert stolen.objection(19) is None
    assert "compromised from 1970-01-01T00:00:00.000020Z" in str(stolen.objection(20))


def test_retiring_and_compromising_never_lengthen_anything() -> None:
    manifest = KeyManifest((trusted(ISSUER), trusted(ISSUER, role=Role.CHECKPOINT)))
    retired = manifest.retire(ISSUER.key_id, at_us=NEW_YEAR)
    assert {entry.valid_until_us for entry in retired.keys} == {NEW_YEAR}
    assert retired.retire(ISSUER.key_id, at_us=NEW_YEAR + 1) == retired
    stolen = retired.compromise(ISSUER.key_id, from_us=NEW_YEAR)
    assert {entry.compromised_from_us for entry in stolen.keys} == {NEW_YEAR}
    assert stolen.compromise(ISSUER.key_id, from_us=NEW_YEAR + 1) == stolen
    for change in (manifest.retire, manifest.compromise):
        with pytest.raises(KeyNotTrusted):
            change(STRANGER.key_id, **{"at_us" if change == manifest.retire else "from_us": 1})
    with pytest.raises(InputRefused, match="not after valid_from"):
        manifest.retire(ISSUER.key_id, at_us=0)


def test_files_that_hold_no_manifest(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match="cannot be read: No such file"):
        KeyManifest.load(tmp_path / "keys.json")
    with pytest.raises(InputRefused, match="not a regular file"):
        KeyManifest.load(tmp_path)
    (tmp_path / "large").write_bytes(b" " * 70_000)
    with pytest.raises(DocumentTooLarge):
        KeyManifest.load(tmp_path / "large")
    with pytest.raises(InputRefused, match="cannot be written"):
        FULL.save(tmp_path / "absent" / "keys.json")


def test_a_manifest_that_could_not_be_loaded_again_is_not_saved(tmp_path: Path) -> None:
    keys = tuple(
        trusted(SigningKey.from_seed(number.to_bytes(32, "big")), control_domain="d" * 180)
        for number in range(200)
    )
    with pytest.raises(InputRefused, match="larger than 65536 bytes"):
        KeyManifest(keys).save(tmp_path / "keys.json")
    assert os.listdir(tmp_path) == []


def test_a_failed_save_leaves_the_old_manifest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "keys.json"
    FULL.save(place)

    def fail(*_: object) -> None:
        raise OSError(5, "Input/output error")

    for step in ("fsync", "replace"):
        with monkeypatch.context() as patched:
            patched.setattr(os, step, fail)
            with pytest.raises(InputRefused, match="Input/output error"):
                KeyManifest().save(place)
        assert KeyManifest.load(place) == FULL
        assert os.listdir(tmp_path) == ["keys.json"]


def enrol_one(place: str, number: int, barrier: Any) -> None:
    barrier.wait(30)
    enrol(place, trusted(SigningKey.from_seed(number.to_bytes(32, "big"))))


def test_keys_that_are_enrolled_at_once_are_all_there(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    crowd = 5
    barrier = context.Barrier(crowd)
    place = tmp_path / "keys.json"
    processes = [
        context.Process(target=enrol_one, args=(str(place), number, barrier))
        for number in range(crowd)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    assert len(KeyManifest.load(place).keys) == crowd


def test_enrolling_again_changes_nothing(tmp_path: Path) -> None:
    place = tmp_path / "keys.json"
    first = enrol(place, trusted(ISSUER))
    assert enrol(place, trusted(ISSUER, valid_from_us=NEW_YEAR)) == first
    assert KeyManifest.load(place) == first
    with pytest.raises(InputRefused, match="two control domains"):
        enrol(place, trusted(ISSUER, role=Role.RECEIPT, control_domain="bank"))
    assert KeyManifest.load(place) == first
    with pytest.raises(InputRefused, match="cannot be opened"):
        enrol(tmp_path / "absent" / "keys.json", trusted(ISSUER))
