"""The keyring's file: made once, never half, never without an old key; with real processes."""

import base64
import json
import os
import signal
import stat
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from ascertain.core.codec import fingerprint, fingerprint_matches
from ascertain.errors import DocumentMalformed, JournalUnavailable, KeyringMissing
from ascertain.journal.keyring import SECRET_BYTES, Keyring

SECONDS = 60


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "keyring.json"


def load(path: Path) -> Keyring:
    return Keyring.load_or_create(path, must_exist=True)


def in_processes(program: str, path: Path, n: int) -> list[str]:
    """Run ``n`` at once, let go together by the end of their standard input."""
    text = "import sys\nfrom pathlib import Path\n"
    text += "from ascertain.journal.keyring import Keyring\n"
    text += "path = Path(sys.argv[1])\nprint('ready', flush=True)\nsys.stdin.read()\n"
    text += textwrap.dedent(program)
    read, write = os.pipe()
    running = [
        subprocess.Popen(
            [sys.executable, "-c", text, str(path)], stdin=read, stdout=subprocess.PIPE, text=True
        )
        for _ in range(n)
    ]
    os.close(read)
    for one in running:
        assert one.stdout is not None
        assert one.stdout.readline() == "ready\n"
    os.close(write)
    out = [one.communicate(timeout=SECONDS)[0] for one in running]
    assert [one.returncode for one in running] == [0] * n
    return out


def test_it_is_made_on_first_use_and_then_read(path: Path) -> None:
    made = Keyring.load_or_create(path, must_exist=False)
    again = load(path)
    assert again.active == made.active
    assert again.secrets == made.secrets
    assert len(made.active.secret) == SECRET_BYTES
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["keyring.json"]


def test_its_form(path: Path) -> None:
    ring = Keyring.load_or_create(path, must_exist=False)
    found = json.loads(path.read_bytes())
    assert found["active"] == ring.active.key_id
    assert {base64.b64decode(text) for text in found["keys"].values()} == {ring.active.secret}


def test_no_secret_is_shown(path: Path) -> None:
    ring = Keyring.load_or_create(path, must_exist=False)
    shown = repr(ring) + str(ring) + repr(ring.active) + repr(ring.secrets)
    assert repr(ring.active.secret) not in shown
    assert base64.b64encode(ring.active.secret).decode() not in shown


def test_a_journal_with_records_needs_its_own(path: Path) -> None:
    with pytest.raises(KeyringMissing) as missing:
        load(path)
    assert "backup" in missing.value.fix
    assert not path.exists()


def test_processes_that_race_agree_on_one_key(path: Path) -> None:
    program = "print(Keyring.load_or_create(path, must_exist=False).active.secret.hex())"
    out = in_processes(program, path, 8)
    assert set(out) == {load(path).active.secret.hex() + "\n"}
    assert [file.name for file in path.parent.iterdir()] == ["keyring.json"]


def test_rotation_keeps_the_old_keys(path: Path) -> None:
    first = Keyring.load_or_create(path, must_exist=False)
    mark = fingerprint(first.active, b"{}")
    second = first.rotate()
    third = second.rotate()
    assert len({first.active.key_id, second.active.key_id, third.active.key_id}) == 3
    assert load(path).active == third.active
    assert len(third.secrets) == 3
    assert fingerprint_matches(third.secrets, mark, b"{}") is True
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in path.parent.iterdir()] == ["keyring.json"]


def test_rotations_at_once_lose_no_key(path: Path) -> None:
    """A key that was in use and is lost cannot be compared with any more."""
    Keyring.load_or_create(path, must_exist=False)
    program = """
        ring = Keyring.load_or_create(path, must_exist=True)
        for _ in range(10):
            ring = ring.rotate()
            print(ring.active.key_id)
        """
    out = in_processes(program, path, 4)
    used = {line for text in out for line in text.split()}
    found = load(path)
    assert used <= set(found.secrets)
    assert len(found.secrets) == 41


def test_a_key_that_another_process_added_is_found(path: Path) -> None:
    here = Keyring.load_or_create(path, must_exist=False)
    there = load(path).rotate()
    mark = fingerprint(there.active, b"{}")
    assert fingerprint_matches(here.secrets, mark, b"{}") is True
    assert fingerprint_matches(here.secrets, mark, b"{ }") is False
    assert len(here.secrets) == len(list(here.secrets)) == 2


def test_a_key_that_nobody_knows(path: Path) -> None:
    ring = Keyring.load_or_create(path, must_exist=False)
    assert fingerprint_matches(ring.secrets, "k0:00", b"{}") is None
    path.write_text("gone bad")
    assert fingerprint_matches(ring.secrets, "k0:00", b"{}") is None
    path.unlink()
    assert fingerprint_matches(ring.secrets, "k0:00", b"{}") is None


def test_none_compares_with_nothing(path: Path) -> None:
    ring = Keyring.none(path)
    assert fingerprint_matches(ring.secrets, fingerprint(ring.active, b"{}"), b"{}") is None


KEY = base64.b64encode(b"k" * 32).decode()
BAD = {
    "empty": b"",
    "no JSON": b"keys, keys, keys",
    "a list": b"[]",
    "a number": b"1",
    "no keys": b'{"active":"k1"}',
    "keys in a list": b'{"active":"k1","keys":["k1"]}',
    "none of them active": b'{"active":"k2","keys":{"k1":"%s"}}' % KEY.encode(),
    "active is a list": b'{"active":[],"keys":{"k1":"%s"}}' % KEY.encode(),
    "short": b'{"active":"k1","keys":{"k1":"a2V5"}}',
    "long": b'{"active":"k1","keys":{"k1":"%s"}}' % base64.b64encode(b"k" * 33),
    "another is short": b'{"active":"k1","keys":{"k1":"%s","k2":"a2V5"}}' % KEY.encode(),
    "no base64": b'{"active":"k1","keys":{"k1":"not base64!"}}',
    "not ASCII": '{"active":"k1","keys":{"k1":"schlüssel"}}'.encode(),
    "a secret that is a number": b'{"active":"k1","keys":{"k1":7}}',
    "twice": b'{"active":"k1","keys":{"k1":"%s","k1":"%s"}}' % (KEY.encode(), KEY.encode()),
    "something more": b'{"active":"k1","keys":{"k1":"%s"},"and":1}' % KEY.encode(),
    "a bad id": b'{"active":"k 1","keys":{"k 1":"%s"}}' % KEY.encode(),
    "no UTF-8": b"\xff\xfe{}",
}


@pytest.mark.parametrize("how", BAD)
@pytest.mark.parametrize("must_exist", [True, False])
def test_what_is_no_keyring(path: Path, how: str, must_exist: bool) -> None:
    path.write_bytes(BAD[how])
    with pytest.raises(DocumentMalformed, match="is not a keyring") as refused:
        Keyring.load_or_create(path, must_exist=must_exist)
    assert "backup" in refused.value.fix
    assert KEY not in str(refused.value)
    assert refused.value.__cause__ is None
    assert path.read_bytes() == BAD[how], "what stands there is left alone"


def test_a_keyring_that_goes_bad_is_not_rotated(path: Path) -> None:
    ring = Keyring.load_or_create(path, must_exist=False)
    path.write_bytes(b"{}")
    with pytest.raises(DocumentMalformed):
        ring.rotate()
    assert path.read_bytes() == b"{}"
    path.unlink()
    with pytest.raises(KeyringMissing):
        ring.rotate()


def test_places_that_refuse(tmp_path: Path) -> None:
    with pytest.raises(JournalUnavailable):
        Keyring.load_or_create(tmp_path / "none" / "keyring.json", must_exist=False)
    (tmp_path / "folder").mkdir()
    with pytest.raises(JournalUnavailable):
        Keyring.load_or_create(tmp_path / "folder", must_exist=False)


def test_a_full_disk_leaves_the_keyring_as_it_was(tmp_path: Path) -> None:
    place = tmp_path / "disk"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(place)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("mounting is not permitted here")
    try:
        ring = Keyring.load_or_create(place / "keyring.json", must_exist=False)
        with (place / "full").open("wb", buffering=0) as out:
            try:
                while out.write(b"x" * 4096):
                    pass
            except OSError:
                pass
        with pytest.raises(JournalUnavailable, match="space"):
            ring.rotate()
        assert load(place / "keyring.json").active == ring.active
        assert sorted(file.name for file in place.iterdir()) == ["full", "keyring.json"]
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        (place / "keyring.json").exists()
        with pytest.raises(JournalUnavailable, match="Read-only"):
            Keyring.load_or_create(place / "other.json", must_exist=False)
        assert load(place / "keyring.json").active == ring.active
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def test_killed_while_it_rotates(path: Path) -> None:
    Keyring.load_or_create(path, must_exist=False)
    program = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from ascertain.journal.keyring import Keyring
        ring = Keyring.load_or_create(Path(sys.argv[1]), must_exist=True)
        while True:
            ring = ring.rotate()
            print(ring.active.key_id, flush=True)
        """
    )
    used = {load(path).active.key_id}
    for n in range(5):
        with subprocess.Popen(
            [sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True
        ) as running:
            assert running.stdout is not None
            used.add(running.stdout.readline().strip())
            time.sleep(0.003 * n)
            running.send_signal(signal.SIGKILL)
            used |= set(running.stdout.read().split("\n")[:-1])
        assert used <= set(load(path).secrets)
