"""The demo from outside: its figures, what it leaves behind, and how it ends."""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

import ascertain
from ascertain.demo import run
from ascertain.demo.guarded import POLICY
from ascertain.demo.report import Row
from ascertain.errors import VerificationFailed
from ascertain.signing.manifest import KeyManifest
from ascertain.signing.verify import Verified, verify, verify_file

SCHEMA = Path(__file__).parents[1] / "vectors" / "rcc.schema.json"
SMALL = 24

needs_provider = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("localstripe", "stripe")),
    reason="not installed: ascertain[demo]",
)


@dataclass
class Ran:
    code: int
    said: str
    kept: Path
    seconds: float


def demo(kept: Path, *arguments: str) -> Ran:
    command = [sys.executable, "-m", "ascertain.demo.run", "--keep", str(kept), *arguments]
    started = time.monotonic()
    ran = subprocess.run(command, capture_output=True, text=True, timeout=240)
    assert "Traceback" not in ran.stderr, ran.stderr
    return Ran(ran.returncode, ran.stdout, kept, time.monotonic() - started)


def check_figures(row: dict[str, Any], number: int) -> None:
    clean = {name: row[name] for name in row if name not in ("name", "kills")}
    assert clean == {
        "approved": number,
        "effects": number,
        "duplicates": 0,
        "lost": 0,
        "unknown": 0,
        "certificates": number,
        "verified": number,
    }


def certificates(kept: Path) -> list[Path]:
    return sorted((kept / "certificates").glob("*.json"))


def verified(path: Path, manifest: KeyManifest) -> Verified:
    return verify_file(
        path, manifest, expect_action=path.stem, expect_lineage=None, expect_audience=None,
        at_us=None,
    )  # fmt: skip


@needs_provider
def test_a_small_run(tmp_path: Path) -> None:
    """Everything about one run, so that it is made once."""
    ran = demo(tmp_path / "kept", "--seed", "7", "--number", str(SMALL), "--json")
    assert ran.code == 0
    report = json.loads(ran.said)
    assert set(report) == {"seed", "runs"}
    assert report["seed"] == 7
    naive, guarded = report["runs"]
    assert (naive["name"], guarded["name"]) == ("naive", "ascertain")
    assert set(naive) == set(guarded) == set(Row.__annotations__)
    assert naive["duplicates"] > 0
    assert guarded["kills"] > 0
    check_figures(guarded, SMALL)
    check_certificates(ran.kept, tmp_path)
    check_changed_bytes(ran.kept)
    check_journal(ran.kept)


def check_certificates(kept: Path, place: Path) -> None:
    """Valid under the seed's schema, and verified with nothing but file and key manifest."""
    validator = jsonschema_rs.validator_for(json.loads(SCHEMA.read_text("utf-8")))
    (place / "manifest.json").write_bytes((kept / "manifest.json").read_bytes())
    manifest = KeyManifest.load(place / "manifest.json")
    paths = certificates(kept)
    assert len(paths) == SMALL
    references = set()
    for path in paths:
        alone = place / path.name
        alone.write_bytes(path.read_bytes())
        found = verified(alone, manifest)
        assert not found.is_report
        assert found.decided_again
        validator.validate(found.predicate)
        statement = json.loads(base64.b64decode(json.loads(alone.read_bytes())["payload"]))
        assert statement["predicate"] == found.predicate
        effect: Any = found.predicate["effect"]
        assert effect["status"] == "committed"
        references.add(effect["external_reference"])
    assert len(references) == SMALL


def check_changed_bytes(kept: Path) -> None:
    manifest = KeyManifest.load(kept / "manifest.json")
    raw = certificates(kept)[0].read_bytes()
    for place in range(0, len(raw), 41):
        changed = raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :]
        with pytest.raises(VerificationFailed):
            verify(
                changed, manifest, expect_action=None, expect_lineage=None, expect_audience=None,
                at_us=None,
            )  # fmt: skip


def check_journal(kept: Path) -> None:
    with ascertain.open(kept / "payments.db", policy=POLICY, read_only=True) as journal:
        rows = journal.journal.actions()
        assert Counter(row.finding for row in rows) == {"applied_final": SMALL}
        assert journal.journal.open_actions() == []
        assert any(row.epoch > 1 for row in rows), "nothing had to be recovered"


@needs_provider
def test_an_interrupted_demo_leaves_no_program_behind(tmp_path: Path) -> None:
    mark = f"demo-{uuid.uuid4()}"
    command = [sys.executable, "-m", "ascertain.demo.run", "--json", "--keep", str(tmp_path / "k")]
    with subprocess.Popen(
        command,
        env={**os.environ, "ASCERTAIN_DEMO_MARK": mark},
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as demo:
        until = time.monotonic() + 30
        while len(marked(mark)) < 6 and time.monotonic() < until:
            time.sleep(0.05)
        assert len(marked(mark)) >= 6, "provider, network and workers were not started"
        demo.send_signal(signal.SIGINT)
        said = demo.communicate(timeout=30)
    assert demo.returncode == run.INTERRUPTED, said
    assert "interrupted" in said[1]
    assert "Traceback" not in said[1]
    until = time.monotonic() + 5
    while marked(mark) and time.monotonic() < until:
        time.sleep(0.05)
    assert not marked(mark)


def marked(mark: str) -> list[str]:
    """The programs that were started, directly or not, with this mark in their environment."""
    found = []
    for place in Path("/proc").glob("[0-9]*"):
        try:
            if mark.encode() in (place / "environ").read_bytes():
                found.append((place / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def test_what_is_missing_is_said(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert run.main(7, json=True, keep=None) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "localstripe and stripe are not installed" in said.err
    assert "ascertain[demo]" in said.err


@needs_provider
def test_a_directory_with_something_in_it_is_left_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine").write_text("mine")
    assert run.main(7, json=False, keep=tmp_path) == 2
    assert "is not empty" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


ROW: Row = {
    "name": "ascertain",
    "approved": 200,
    "effects": 200,
    "duplicates": 0,
    "lost": 0,
    "unknown": 0,
    "kills": 16,
    "certificates": 200,
    "verified": 200,
}


def test_the_table_fits_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    naive: Row = {**ROW, "name": "naive", "effects": 245, "duplicates": 45, "verified": 0}
    run._show([naive, ROW], 41.5)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    figures = [" ".join(line.split()) for line in lines]
    assert "retry loop 200 245 45 0 0 16 0" in figures
    assert "Ascertain 200 200 0 0 0 16 200" in figures


@pytest.mark.parametrize(
    "change",
    [
        {"effects": 201, "duplicates": 1},
        {"effects": 199, "lost": 1},
        {"effects": 199, "unknown": 1},
        {"verified": 199},
    ],
)
def test_the_exit_code_is_about_the_guarded_run(change: dict[str, int]) -> None:
    assert run.kept_its_word(ROW)
    assert not run.kept_its_word({**ROW, **change})  # type: ignore[typeddict-item]


@needs_provider
@pytest.mark.full
@pytest.mark.parametrize("seed", ["7", "11", "190"])
def test_200_payments_for_people_to_look_at(tmp_path: Path, seed: str) -> None:
    ran = demo(tmp_path / "kept", "--seed", seed)
    assert ran.code == 0
    lines = ran.said.splitlines()
    assert f"seed {seed}" in lines[0]
    assert any(line.split()[:5] == ["Ascertain", "200", "200", "0", "0"] for line in lines)
    assert sum(line.startswith("  ascertain ") for line in lines) == 3
    assert len(certificates(ran.kept)) == 200
    manifest = KeyManifest.load(ran.kept / "manifest.json")
    assert all(verified(path, manifest).action_id for path in certificates(ran.kept))
