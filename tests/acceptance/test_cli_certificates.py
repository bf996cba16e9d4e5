"""`certificate` and `verify`: a file that anybody can check, and every way that it fails."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path

import pytest

import ascertain
from ascertain.core.codec import MAX_BYTES
from ascertain.errors import InputRefused
from ascertain.signing.dsse import ENVELOPE_BYTES_MAX
from tests.acceptance.command import Desk
from tests.acceptance.test_cli_reading import fits, is_instant

MANIFEST = "shop.db.ascertain/manifest.json"


@pytest.fixture(scope="module")
def issued(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A shop whose action `fine` has a certificate, and whose `letter` has none yet."""
    desk = Desk(tmp_path_factory.mktemp("issued"))
    desk.program("scene")
    ran = desk("certificate", "fine", "--output", "fine.json")
    assert ran.code == 0, ran.err
    (line,) = ran.err.splitlines()
    assert line.startswith("ascertain: made the signing key ")
    assert "keep it, and keep it secret" in line
    assert ran.out.splitlines()[-1] == f"check it: ascertain verify fine.json --manifest {MANIFEST}"
    return desk


def check(
    desk: Desk, *words: str, name: str = "fine.json", manifest: str = MANIFEST
) -> tuple[int, str, str]:
    ran = desk("verify", name, "--manifest", manifest, *words, journal=None)
    assert "Traceback" not in ran.err
    return ran.code, ran.out, ran.err


def test_a_certificate_verifies_with_nothing_but_file_and_manifest(
    issued: Desk, tmp_path: Path
) -> None:
    for name in ("fine.json", MANIFEST):
        (tmp_path / Path(name).name).write_bytes((issued.place / name).read_bytes())
    alone = Desk(tmp_path)
    code, out, err = check(alone, manifest="manifest.json")
    assert (code, err) == (0, "")
    fits(out)
    assert out.startswith("fine.json verifies: a certificate about fine\n")
    assert "it happened (VERIFIED_APPLIED)" in out
    assert "nothing was expected of: action, lineage, audience" in out
    code, out, _ = check(
        alone, "--action", "fine", "--lineage", "fine", "--json", manifest="manifest.json"
    )
    said = json.loads(out)
    assert code == 0
    assert set(said) == {
        "verified", "file", "manifest", "type", "digest", "action_id", "lineage", "audience",
        "issued_at", "outcome", "finding", "decision", "row", "decided_again", "keys",
        "unchecked", "cautions", "limitations",
    }  # fmt: skip
    assert said["verified"] is True
    assert said["outcome"] == "VERIFIED_APPLIED"
    assert said["decided_again"] is True
    assert said["unchecked"] == ["audience"]
    assert is_instant(said["issued_at"])


def test_the_exact_bytes_go_to_stdout_and_to_the_file(issued: Desk) -> None:
    ran = issued("certificate", "fine")
    assert ran.code == 0
    assert ran.err == ""
    assert ran.out.encode() == (issued.place / "fine.json").read_bytes()
    said = issued.json("certificate", "fine")
    assert set(said) == {
        "action_id", "form", "digest", "position", "file", "manifest", "key_created",
    }  # fmt: skip
    assert (said["form"], said["file"], said["key_created"]) == ("certificate", None, False)


def test_a_report_says_that_it_is_none_and_passes_only_where_one_will_do(desk: Desk) -> None:
    desk("attest", "fine", "--claim", "not_applied", "--operator", "Ada", "--reason", "asked",
         "--authority", "on call")  # fmt: skip
    ran = desk("certificate", "fine", "-o", "fine.json")
    assert ran.code == 1
    assert ran.out.startswith("report ")
    assert "this is a report, no certificate" in ran.err
    code, _, err = check(desk)
    assert code == 1
    assert "a document of type" in err.splitlines()[0]
    code, out, _ = check(desk, "--report")
    assert code == 0
    assert out.startswith("fine.json verifies: a report about fine")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--action", "other"), "its action is 'fine', not 'other'"),
        (("--lineage", "other"), "its lineage is 'fine', not 'other'"),
        (("--audience", "bank"), "its audience is none, not 'bank'"),
    ],
)
def test_a_certificate_for_something_else(issued: Desk, words: tuple[str, ...], said: str) -> None:
    code, out, err = check(issued, *words)
    assert (code, out) == (1, "")
    assert err.splitlines()[0] == f"ascertain: {said}"
    code, out, err = check(issued, *words, "--json")
    document = json.loads(out)
    assert code == 1
    assert set(document) == {"verified", "file", "manifest", "error"}
    assert document["verified"] is False
    assert document["error"]["kind"] == "PredicateRefused"
    assert document["error"]["message"] == said
    assert said in err


def test_every_kind_of_damage_to_the_file_fails(issued: Desk) -> None:
    raw = (issued.place / "fine.json").read_bytes()
    envelope = json.loads(raw)
    payload = bytearray(base64.b64decode(envelope["payload"]))
    payload[200] ^= 1
    altered = {**envelope, "payload": base64.b64encode(bytes(payload)).decode()}
    damaged = {
        "truncated": raw[: len(raw) // 2],
        "one byte short": raw[:-1],
        "empty": b"",
        "one byte more": raw + b"\n",
        "no document": b"\xff\xfe rubbish",
        "an altered payload": json.dumps(altered, separators=(",", ":")).encode(),
        "an unsigned member": raw.replace(b"{", b'{"note":1,', 1),
        "something else": b'{"a": 1}',
        "oversized": raw + b" " * ENVELOPE_BYTES_MAX,
        "deep": b"[" * 100_000,
    }
    for name, body in damaged.items():
        (issued.place / "damaged.json").write_bytes(body)
        code, out, err = check(issued, name="damaged.json")
        assert (code, out) == (1, ""), (name, err)
        assert err.startswith("ascertain: "), name


def test_files_that_cannot_be_read(issued: Desk) -> None:
    (issued.place / "folder").mkdir()
    os.mkfifo(issued.place / "pipe")
    for name in ("nothing.json", "folder", "pipe", "fine.json/x"):
        code, out, err = check(issued, name=name)
        assert (code, out) == (2, ""), name
        assert f"{name} cannot be read" in err.splitlines()[0]
        code, out, err = check(issued, manifest=name)
        assert (code, out) == (2, ""), name
        assert "cannot be read" in err.splitlines()[0]


def test_manifests_that_are_none(issued: Desk) -> None:
    raw = (issued.place / MANIFEST).read_bytes()
    document = json.loads(raw)
    for name, body in {
        "empty": b"",
        "truncated": raw[:-20],
        "a certificate": (issued.place / "fine.json").read_bytes(),
        "another type": raw.replace(b"key-manifest:1", b"key-manifest:2"),
        "an unknown member": json.dumps({**document, "more": 1}).encode(),
        "a key twice": json.dumps({**document, "keys": document["keys"] * 2}).encode(),
        "oversized": raw + b" " * MAX_BYTES,
    }.items():
        (issued.place / "other.json").write_bytes(body)
        code, out, err = check(issued, manifest="other.json")
        assert (code, out) == (2, ""), (name, err)
        assert len(err.splitlines()) >= 1


def test_a_manifest_without_the_key(issued: Desk) -> None:
    empty = {"manifest": "urn:ascertain:key-manifest:1", "keys": []}
    (issued.place / "empty.json").write_text(json.dumps(empty))
    code, _, err = check(issued, manifest="empty.json")
    assert code == 1
    assert "is not in the manifest" in err.splitlines()[0]
    assert check(issued, "--manifest", MANIFEST)[0] == 0


def test_a_journal_that_is_only_read_issues_nothing(issued: Desk) -> None:
    path = issued.place / "shop.db"
    with (
        ascertain.open(path, policy=ascertain.limits(), read_only=True) as journal,
        pytest.raises(InputRefused, match="without a signing key"),
    ):
        journal.certificate("fine")


def test_verify_asks_for_a_manifest(issued: Desk) -> None:
    ran = issued("verify", "fine.json")
    assert ran.code == 2
    assert ran.first == "ascertain: Missing option '--manifest'."


def test_a_file_that_cannot_be_written(issued: Desk) -> None:
    (issued.place / "taken").mkdir(exist_ok=True)
    for name in ("taken", "nowhere/fine.json"):
        ran = issued("certificate", "fine", "-o", name)
        assert ran.code == 2, name
        assert ran.out == ""
        assert name in ran.first
    before = (issued.place / "fine.json").stat().st_ino
    assert issued("certificate", "fine", "-o", "fine.json").code == 0
    assert (issued.place / "fine.json").stat().st_ino != before
    assert not list(issued.place.glob(".*.new"))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("certificate", "nobody"), "the journal does not know action 'nobody'"),
        (("certificate", ""), "'' is not an action id"),
    ],
)
def test_unknown_and_malformed_ids(issued: Desk, words: tuple[str, ...], said: str) -> None:
    ran = issued(*words)
    assert (ran.code, ran.out) == (2, "")
    assert ran.first == f"ascertain: {said}"
