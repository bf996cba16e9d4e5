import multiprocessing
import os
import pickle
import stat
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa, x25519

from ascertain.errors import InputRefused
from ascertain.signing.keys import SigningKey, is_sound, key_id_of, matches

PEM = serialization.Encoding.PEM
PKCS8 = serialization.PrivateFormat.PKCS8
PLAIN = serialization.NoEncryption()
FIELD = 2**255 - 19


def test_the_first_vectors_of_rfc_8032() -> None:
    """RFC 8032 section 7.1, TEST 1 to TEST 3."""
    vectors = [
        (
            "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60",
            "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a",
            "",
            "e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bac"
            "c61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b",
        ),
        (
            "4ccd089b28ff96da9db6c346ec114e0f5b8a319f35aba624da8cf6ed4fb8a6fb",
            "3d4017c3e843895a92b70aa74d1b7ebc9c982ccf2ec4968cc0cd55f12af4660c",
            "72",
            "92a009a9f0d4cab8720e820b5f642540a2b27b5416503f8fb3762223ebdb69da085ac1e43e15996e"
            "458f3613d0f11d8c387b2eaeb4302aeeb00d291612bb0c00",
        ),
        (
            "c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7",
            "fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025",
            "af82",
            "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac18ff9b538d16f290"
            "ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a",
        ),
    ]
    for seed, public, message, signature in vectors:
        key = SigningKey.from_seed(bytes.fromhex(seed))
        assert key.public.hex() == public
        assert key.sign(bytes.fromhex(message)).hex() == signature
        assert matches(key.public, bytes.fromhex(signature), bytes.fromhex(message))


def test_a_signature_with_another_scalar_for_the_same_point_does_not_match() -> None:
    """RFC 8032 section 5.1.7: S must lie below the group's order, or one makes another."""
    key = SigningKey.generate()
    signature = key.sign(b"once")
    order = 2**252 + 27742317777372353535851937790883648493
    scalar = int.from_bytes(signature[32:], "little") + order
    assert not matches(key.public, signature[:32] + scalar.to_bytes(32, "little"), b"once")


@pytest.mark.parametrize("length", [0, 31, 33, 64])
def test_a_public_key_of_another_length_has_no_name(length: int) -> None:
    with pytest.raises(InputRefused, match="32 bytes"):
        key_id_of(bytes(length))
    with pytest.raises(InputRefused, match="32 bytes"):
        SigningKey.from_seed(bytes(length))
    assert not is_sound(bytes(length))


def test_neither_key_nor_signature_of_another_length_matches() -> None:
    key = SigningKey.generate()
    assert not matches(key.public, key.sign(b"x")[:-1], b"x")
    assert not matches(key.public, b"", b"x")
    assert not matches(key.public[:-1], key.sign(b"x"), b"x")


def test_keys_that_anybody_could_sign_under_are_not_sound() -> None:
    """Each of these accepts this signature of the neutral point for some messages at least."""
    forged = (1).to_bytes(32, "little") + bytes(32)
    accepted = 0
    for y in (0, 1, FIELD - 1, FIELD, FIELD + 1):
        for sign_bit in (0, 1):
            public = (y | sign_bit << 255).to_bytes(32, "little")
            accepted += any(matches(public, forged, b"%d" % n) for n in range(40))
            assert not is_sound(public)
    assert accepted == 10, "the check is there because these forgeries do match"
    assert all(is_sound(SigningKey.generate().public) for _ in range(20))


def test_a_key_is_not_shown_copied_or_pickled() -> None:
    key = SigningKey.from_seed(bytes(32))
    assert repr(key) == f"SigningKey({key.key_id})"
    assert len(key.key_id) == 16
    with pytest.raises(TypeError, match="not pickled"):
        pickle.dumps(key)


def test_a_key_file_is_made_once_and_read_again(tmp_path: Path) -> None:
    place = tmp_path / "key.pem"
    key, created = SigningKey.load_or_create(place)
    again, created_again = SigningKey.load_or_create(place)
    assert (created, created_again) == (True, False)
    assert key.public == again.public == SigningKey.load(place).public
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert place.stat().st_nlink == 1
    assert os.listdir(tmp_path) == ["key.pem"]
    assert place.read_bytes().startswith(b"-----BEGIN PRIVATE KEY-----\n")


def test_the_mode_does_not_depend_on_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o777)
    try:
        SigningKey.load_or_create(tmp_path / "key.pem")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "key.pem").stat().st_mode) == 0o600


def race(place: str, barrier: Any, results: Any) -> None:
    barrier.wait(30)
    key, created = SigningKey.load_or_create(place)
    results.put((key.public, created))


def test_processes_that_race_end_up_with_one_key(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    crowd = 6
    barrier, results = context.Barrier(crowd), context.Queue()
    place = tmp_path / "key.pem"
    processes = [
        context.Process(target=race, args=(str(place), barrier, results)) for _ in range(crowd)
    ]
    for process in processes:
        process.start()
    found = [results.get(timeout=60) for _ in processes]
    for process in processes:
        process.join(60)
    assert {public for public, _ in found} == {SigningKey.load(place).public}
    assert sum(created for _, created in found) == 1
    assert os.listdir(tmp_path) == ["key.pem"]


def test_the_loser_of_a_race_takes_the_winners_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "key.pem"
    winner = SigningKey.generate()
    real_link = os.link

    def link(source: Any, target: Any) -> None:
        place.write_bytes(winner._pem())
        place.chmod(0o600)
        real_link(source, target)

    monkeypatch.setattr(os, "link", link)
    key, created = SigningKey.load_or_create(place)
    assert (key.public, created) == (winner.public, False)
    assert os.listdir(tmp_path) == ["key.pem"]


@pytest.mark.parametrize("step", ["fsync", "link"])
def test_a_key_that_could_not_be_kept_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(InputRefused, match="could not be created: No space left"):
        SigningKey.load_or_create(tmp_path / "key.pem")
    assert os.listdir(tmp_path) == []


def test_a_place_that_cannot_hold_a_key(tmp_path: Path) -> None:
    with pytest.raises(InputRefused, match="could not be created"):
        SigningKey.load_or_create(tmp_path / "absent" / "key.pem")
    with pytest.raises(InputRefused, match="cannot be read: it is not a regular file"):
        SigningKey.load_or_create(tmp_path)
    with pytest.raises(InputRefused, match="cannot be read: No such file"):
        SigningKey.load(tmp_path / "key.pem")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputRefused, match="cannot be read: No such file"):
        SigningKey.load_or_create(tmp_path / "dangling")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputRefused, match="not a regular file"):
        SigningKey.load(tmp_path / "pipe")


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o660, 0o601, 0o620])
def test_a_key_that_others_can_use_is_refused(tmp_path: Path, mode: int) -> None:
    place = tmp_path / "key.pem"
    SigningKey.load_or_create(place)
    place.chmod(mode)
    with pytest.raises(InputRefused, match=f"has mode {mode:04o}"):
        SigningKey.load_or_create(place)


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o440])
def test_a_mounted_secret_may_be_readable_by_its_group(tmp_path: Path, mode: int) -> None:
    place = tmp_path / "key.pem"
    SigningKey.load_or_create(place)
    place.chmod(mode)
    SigningKey.load(place)


FOREIGN = {
    "rsa": lambda: rsa.generate_private_key(65537, 2048),
    "p-256": lambda: ec.generate_private_key(ec.SECP256R1()),
    "ed448": ed448.Ed448PrivateKey.generate,
    "x25519": x25519.X25519PrivateKey.generate,
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_key_of_another_algorithm_is_refused(tmp_path: Path, name: str) -> None:
    foreign: Any = FOREIGN[name]()
    place = tmp_path / "key.pem"
    place.write_bytes(foreign.private_bytes(PEM, PKCS8, PLAIN))
    place.chmod(0o600)
    with pytest.raises(InputRefused, match="another algorithm"):
        SigningKey.load(place)
    with pytest.raises(InputRefused, match="not an Ed25519"):
        SigningKey(foreign)


def test_what_is_no_plain_private_key_is_refused(tmp_path: Path) -> None:
    private = ed25519.Ed25519PrivateKey.generate()
    whole = private.private_bytes(PEM, PKCS8, PLAIN)
    contents = {
        "encrypted": private.private_bytes(
            PEM, PKCS8, serialization.BestAvailableEncryption(b"secret")
        ),
        "public": private.public_key().public_bytes(
            PEM, serialization.PublicFormat.SubjectPublicKeyInfo
        ),
        "torn": whole[:60],
        "empty": b"",
        "raw": private.private_bytes_raw(),
    }
    for name, content in contents.items():
        place = tmp_path / name
        place.write_bytes(content)
        place.chmod(0o600)
        with pytest.raises(InputRefused, match="not an unencrypted PKCS #8") as refused:
            SigningKey.load_or_create(place)
        assert str(refused.value).count(str(place)) == 1
        assert place.read_bytes() == content
    large = tmp_path / "large"
    large.write_bytes(whole + b"\n" * 5_000)
    large.chmod(0o600)
    with pytest.raises(InputRefused, match="too large"):
        SigningKey.load(large)
