import base64
import hashlib
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascertain.errors import (
    DocumentTooLarge,
    EnvelopeRefused,
    InputRefused,
    KeyNotTrusted,
    SignatureRefused,
    VerificationFailed,
)
from ascertain.signing.dsse import (
    ENVELOPE_BYTES_MAX,
    PAYLOAD_TYPE,
    SIGNATURES_MAX,
    envelope_digest,
    open_envelope,
    pae,
    seal,
)
from ascertain.signing.keys import SigningKey, matches
from ascertain.signing.manifest import KeyManifest, Role
from tests.unit.test_signing_examples import (
    ISSUER,
    MANIFEST,
    NOW,
    SECOND,
    STRANGER,
    at,
    sealed,
    trusted,
)

BOTH = KeyManifest((trusted(ISSUER), trusted(SECOND)))
RAW = sealed()
ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


def opens(raw: bytes, manifest: KeyManifest = MANIFEST, **options: Any) -> bytes:
    given_options: dict[str, Any] = {"role": Role.CERTIFICATE, "at_us": NOW}
    return open_envelope(raw, manifest, **(given_options | options)).statement


def envelope(raw: bytes = RAW) -> Any:
    return json.loads(raw)


def compact(document: Any) -> bytes:
    return json.dumps(document, separators=(",", ":")).encode()


def test_the_pre_authentication_encoding_of_the_specification() -> None:
    """DSSE v1.0, protocol.md, test vector."""
    assert pae("http://example.com/HelloWorld", b"hello world") == (
        b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )
    assert pae("", b"") == b"DSSEv1 0  0 "
    assert pae("é", b"") == b"DSSEv1 2 \xc3\xa9 0 "


@given(st.text(), st.binary(), st.text(), st.binary())
def test_no_two_messages_have_one_encoding(
    kind: str, body: bytes, other_kind: str, other_body: bytes
) -> None:
    same = (kind, body) == (other_kind, other_body)
    assert (pae(kind, body) == pae(other_kind, other_body)) == same


def test_the_form_is_held_byte_for_byte() -> None:
    key = SigningKey.from_seed(bytes(32))
    raw = seal(b"{}", key)
    signature = base64.b64encode(key.sign(b"DSSEv1 28 application/vnd.in-toto+json 2 {}")).decode()
    assert raw.decode() == (
        '{"payload":"e30=","payloadType":"application/vnd.in-toto+json","signatures":'
        f'[{{"keyid":"{hashlib.sha256(key.public).hexdigest()[:16]}","sig":"{signature}"}}]}}'
    )
    assert seal(b"{}", key) == raw
    assert raw == compact(json.loads(raw))
    assert envelope_digest(raw) == hashlib.sha256(raw).hexdigest()


@given(st.binary(max_size=300))
def test_what_was_sealed_is_opened(statement: bytes) -> None:
    opened = open_envelope(seal(statement, ISSUER), MANIFEST, role=Role.CERTIFICATE, at_us=NOW)
    assert opened.statement == statement
    assert (opened.key_id, opened.key_domain) == (ISSUER.key_id, "payments")


# --- every change of a byte ----------------------------------------------------------------------


def refused(raw: bytes) -> bool:
    try:
        opens(raw, BOTH)
    except VerificationFailed:
        return True
    return False


def test_every_byte_is_needed_as_it_is() -> None:
    assert not refused(RAW)
    for position, byte in enumerate(RAW):
        others = {byte ^ 1, byte ^ 0x20, byte ^ 0x80, 0, 10, 32, 34, 61, 92, 255}
        others |= {ALPHABET[(ALPHABET.find(byte) + step) % 64] for step in (1, 2, 16, 63)}
        for other in others - {byte}:
            changed = RAW[:position] + bytes([other]) + RAW[position + 1 :]
            assert refused(changed), f"byte {position}: {byte} → {other}"


def test_every_value_of_the_bytes_around_the_members() -> None:
    payload = len(b'{"payload":"') + len(envelope()["payload"])
    edges = [*range(14), *range(payload - 5, len(RAW))]
    for position in edges:
        for other in set(range(256)) - {RAW[position]}:
            assert refused(RAW[:position] + bytes([other]) + RAW[position + 1 :])


def test_no_byte_can_be_left_out() -> None:
    for position in range(len(RAW)):
        assert refused(RAW[:position] + RAW[position + 1 :]), f"byte {position}"


def test_no_byte_can_be_put_in() -> None:
    for position in range(len(RAW) + 1):
        doubled = RAW[position : position + 1]
        for put_in in {b" ", b"\n", b"\0", b"=", b"A", b'"', b",", b"\\", doubled} - {b""}:
            assert refused(RAW[:position] + put_in + RAW[position:]), f"{put_in!r} at {position}"


def test_no_two_neighbours_can_change_places() -> None:
    for position in range(len(RAW) - 1):
        left, right = RAW[position : position + 1], RAW[position + 1 : position + 2]
        if left != right:
            assert refused(RAW[:position] + right + left + RAW[position + 2 :])


def test_every_truncation_is_refused() -> None:
    for length in range(len(RAW)):
        with pytest.raises(EnvelopeRefused):
            opens(RAW[:length])


# --- other forms of the same envelope ------------------------------------------------------------


def spelled(statement: bytes) -> Iterator[tuple[str, str]]:
    plain = base64.b64encode(statement).decode()
    yield "unpadded", plain.rstrip("=")
    yield "padded more", plain + "="
    yield "padded by a block", plain + "===="
    yield "url-safe", base64.urlsafe_b64encode(statement).decode()
    yield "a line break", plain[:8] + "\\n" + plain[8:]
    yield "a space", plain + " "
    yield "an escape", "\\u00" + f"{ord(plain[0]):02x}" + plain[1:]
    if plain.endswith("="):
        last = len(plain.rstrip("=")) - 1
        stray = chr(ALPHABET[ALPHABET.index(plain[last].encode()) + 1])
        yield "stray bits", plain[:last] + stray + plain[last + 1 :]


@pytest.mark.parametrize("statement", [b"\xfb\xff\xfe\x00", b"\xfb\xff\xfe\x00\x01", b"{}"])
def test_base64_has_one_spelling(statement: bytes) -> None:
    raw = seal(statement, ISSUER)
    plain = envelope(raw)["payload"].encode()
    signature = envelope(raw)["signatures"][0]["sig"].encode()
    assert opens(raw) == statement
    for member in (plain, signature):
        for name, other in spelled(base64.b64decode(member)):
            if other.encode() != member:
                assert refused(raw.replace(member, other.encode(), 1)), name


def rewritten() -> dict[str, bytes]:
    document = envelope()
    [signature] = document["signatures"]
    lifted = {"keyid": signature["keyid"], "sig": signature["sig"]}
    public = base64.b64encode(ISSUER.public).decode()
    return {
        "a final newline": RAW + b"\n",
        "a byte order mark": b"\xef\xbb\xbf" + RAW,
        "utf-16": RAW.decode().encode("utf-16"),
        "spaces": json.dumps(document).encode(),
        "indented": json.dumps(document, indent=1).encode(),
        "sorted otherwise": compact(dict(reversed(document.items()))),
        "signature sorted otherwise": compact(
            document | {"signatures": [dict(reversed(signature.items()))]}
        ),
        "escaped": RAW.replace(b"application/vnd", b"application\\/vnd"),
        "an unsigned member": compact(document | {"note": "paid twice"}),
        "an unsigned member first": compact({"alg": "none"} | document),
        "an unsigned member of the signature": compact(
            document | {"signatures": [lifted | {"alg": "none"}]}
        ),
        "an embedded key": compact(document | {"signatures": [lifted | {"public": public}]}),
        "an embedded certificate": compact(document | {"signatures": [lifted | {"cert": "MII"}]}),
        "a payload twice": RAW[:-1] + b',"payload":"e30="}',
        "a payload twice, first": RAW.replace(b"{", b'{"payload":"e30=",', 1),
        "no key id": compact(document | {"signatures": [{"sig": signature["sig"]}]}),
        "an empty key id": compact(document | {"signatures": [lifted | {"keyid": ""}]}),
        "an upper-case key id": compact(
            document | {"signatures": [lifted | {"keyid": signature["keyid"].upper()}]}
        ),
        "no signatures": compact(document | {"signatures": []}),
        "no list": compact(document | {"signatures": lifted}),
        "the signature twice": compact(document | {"signatures": [lifted, lifted]}),
        "a comma at the end": RAW[:-2] + b",]}",
        "nothing between two": RAW[:-2] + RAW[RAW.rindex(b'{"keyid"') :],
        "a null": compact(document | {"payload": None}),
        "a list": b"[" + RAW + b"]",
        "two envelopes": RAW + RAW,
        "the statement itself": base64.b64decode(document["payload"]),
        "a JWS": b"eyJhbGciOiJub25lIn0." + document["payload"].encode() + b".",
        "empty": b"",
        "an empty object": b"{}",
    }


@pytest.mark.parametrize("name", rewritten())
def test_another_form_is_refused(name: str) -> None:
    raw = rewritten()[name]
    assert raw != RAW
    with pytest.raises(EnvelopeRefused):
        opens(raw)


@pytest.mark.parametrize("kind", ["application/json", "", "application/vnd.in-toto+JSON", "none"])
def test_another_payload_type_is_refused_even_if_signed(kind: str) -> None:
    """The signature covers the type; a signature for another type must not be reused."""
    document = envelope()
    statement = base64.b64decode(document["payload"])
    signature = base64.b64encode(ISSUER.sign(pae(kind, statement))).decode()
    entry = {"keyid": ISSUER.key_id, "sig": signature}
    with pytest.raises(EnvelopeRefused, match="payload type"):
        opens(compact(document | {"payloadType": kind, "signatures": [entry]}))
    with pytest.raises(SignatureRefused):
        opens(compact(document | {"signatures": [entry]}))


def test_the_bare_payload_is_not_what_is_signed() -> None:
    document = envelope()
    bare = base64.b64encode(ISSUER.sign(base64.b64decode(document["payload"]))).decode()
    with pytest.raises(SignatureRefused):
        opens(compact(document | {"signatures": [{"keyid": ISSUER.key_id, "sig": bare}]}))


@pytest.mark.parametrize("length", [0, 32, 63, 65, 256])
def test_a_signature_of_another_length_is_refused(length: int) -> None:
    """32 bytes are an HMAC, 256 an RSA signature, none is the algorithm "none"."""
    other = base64.b64encode(bytes(length)).decode()
    document = envelope()
    with pytest.raises(EnvelopeRefused):
        opens(compact(document | {"signatures": [{"keyid": ISSUER.key_id, "sig": other}]}))


def test_size_is_looked_at_before_anything_else() -> None:
    with pytest.raises(EnvelopeRefused, match="more than 1000000 bytes"):
        opens(RAW + b" " * 2_000_000)
    with pytest.raises(DocumentTooLarge):
        seal(bytes(ENVELOPE_BYTES_MAX * 3 // 4), ISSUER)
    most = (ENVELOPE_BYTES_MAX - len(seal(b"", ISSUER))) // 4 * 3
    assert len(opens(seal(bytes(most), ISSUER))) == most


@given(st.binary(max_size=100))
def test_any_bytes_are_refused(raw: bytes) -> None:
    with pytest.raises(EnvelopeRefused):
        opens(raw)


# --- keys ----------------------------------------------------------------------------------------


def test_a_stranger_is_not_trusted_under_its_own_or_a_borrowed_name() -> None:
    raw = seal(b"{}", STRANGER)
    with pytest.raises(KeyNotTrusted, match="not in the manifest"):
        opens(raw)
    borrowed = raw.replace(STRANGER.key_id.encode(), ISSUER.key_id.encode())
    with pytest.raises(SignatureRefused):
        opens(borrowed)


def test_a_trusted_key_does_not_sign_for_another() -> None:
    swapped = RAW.replace(ISSUER.key_id.encode(), SECOND.key_id.encode())
    with pytest.raises(SignatureRefused):
        opens(swapped, BOTH)


def test_an_empty_manifest_trusts_nobody() -> None:
    with pytest.raises(KeyNotTrusted):
        opens(RAW, KeyManifest())


@pytest.mark.parametrize("role", [role for role in Role if role is not Role.CERTIFICATE])
def test_a_key_of_another_role_is_refused(role: Role) -> None:
    with pytest.raises(KeyNotTrusted, match=f"only as {role}"):
        opens(RAW, KeyManifest((trusted(ISSUER, role=role),)))
    with pytest.raises(KeyNotTrusted, match=f"may not sign as {role}"):
        opens(RAW, role=role)


@pytest.mark.parametrize(
    ("moment", "fits"),
    [
        ("2028-12-31T23:59:59.999999Z", False),
        ("2029-01-01T00:00:00Z", True),
        ("2029-12-31T23:59:59.999999Z", True),
        ("2030-01-01T00:00:00Z", False),
    ],
)
def test_a_key_signs_within_its_validity(moment: str, fits: bool) -> None:
    manifest = MANIFEST.retire(ISSUER.key_id, at_us=at("2030-01-01T00:00:00Z"))
    if fits:
        opens(RAW, manifest, at_us=at(moment))
    else:
        with pytest.raises(KeyNotTrusted, match="cannot have signed at"):
            opens(RAW, manifest, at_us=at(moment))


def test_a_compromised_key_is_refused_from_then_on() -> None:
    manifest = MANIFEST.compromise(ISSUER.key_id, from_us=NOW)
    opens(RAW, manifest, at_us=NOW - 1)
    with pytest.raises(KeyNotTrusted, match="compromised from"):
        opens(RAW, manifest, at_us=NOW)


def test_an_instant_is_read_from_the_statement_only_after_the_signatures() -> None:
    read: list[bytes] = []

    def moment(statement: bytes) -> int:
        read.append(statement)
        return NOW

    with pytest.raises(SignatureRefused):
        opens(RAW.replace(ISSUER.key_id.encode(), SECOND.key_id.encode()), BOTH, at_us=moment)
    assert read == []
    assert opens(RAW, at_us=moment) == read[0]


def test_an_instant_in_another_unit_is_refused() -> None:
    """Nanoseconds would lie past every validity, and so past every check of it."""
    with pytest.raises(InputRefused, match="0000 to 9999"):
        opens(RAW, at_us=NOW * 1_000)


# --- several signatures --------------------------------------------------------------------------


def test_two_people_sign_one_statement_in_any_order() -> None:
    raw = seal(b"{}", ISSUER, SECOND)
    assert raw == seal(b"{}", SECOND, ISSUER)
    opened = open_envelope(raw, BOTH, role=Role.CERTIFICATE, at_us=NOW, threshold=2)
    assert {key.public for key in opened.keys} == {ISSUER.public, SECOND.public}


def test_fewer_keys_than_asked_are_refused() -> None:
    with pytest.raises(EnvelopeRefused, match="1 of at least 2"):
        opens(RAW, BOTH, threshold=2)
    with pytest.raises(InputRefused, match="asks for none"):
        opens(RAW, BOTH, threshold=0)


def test_signers_are_counted_by_raw_key() -> None:
    """One raw key under two key ids must not count twice, even past the manifest's own check."""
    manifest = KeyManifest((trusted(ISSUER),))
    real_find = KeyManifest.find

    class Fooled(KeyManifest):
        def find(self, key_id: str, role: Role) -> Any:
            return real_find(self, ISSUER.key_id, role)

    document = envelope(seal(b"{}", ISSUER))
    signature = document["signatures"][0]["sig"]
    names = sorted([ISSUER.key_id, "f" * 16])
    twice = compact(
        document | {"signatures": [{"keyid": name, "sig": signature} for name in names]}
    )
    with pytest.raises(EnvelopeRefused, match="1 of at least 2"):
        opens(twice, Fooled(manifest.keys), threshold=2)


def test_every_signature_must_match_and_be_trusted() -> None:
    raw = seal(b"{}", ISSUER, SECOND)
    with pytest.raises(KeyNotTrusted):
        opens(raw, MANIFEST)
    document = envelope(raw)
    document["signatures"][1]["sig"] = document["signatures"][0]["sig"]
    with pytest.raises(SignatureRefused):
        opens(compact(document), BOTH)
    retired = BOTH.retire(SECOND.key_id, at_us=NOW)
    with pytest.raises(KeyNotTrusted):
        opens(raw, retired)


def test_signatures_stand_in_one_order_each_once() -> None:
    document = envelope(seal(b"{}", ISSUER, SECOND))
    first, second = document["signatures"]
    for signatures in ([second, first], [first, first], [first, second, second]):
        with pytest.raises(EnvelopeRefused, match="order of their key ids"):
            opens(compact(document | {"signatures": signatures}), BOTH)


def test_there_is_a_least_and_a_greatest_number_of_signatures() -> None:
    keys = [SigningKey.from_seed(bytes([number]) * 32) for number in range(1, SIGNATURES_MAX + 2)]
    manifest = KeyManifest(tuple(trusted(key) for key in keys))
    assert opens(seal(b"{}", *keys[:-1]), manifest, threshold=SIGNATURES_MAX) == b"{}"
    for crowd in ([], keys, [ISSUER, ISSUER]):
        with pytest.raises(InputRefused):
            seal(b"{}", *crowd)
    many = sorted(keys, key=lambda key: key.key_id)
    message = pae(PAYLOAD_TYPE, b"{}")
    signatures = [
        {"keyid": key.key_id, "sig": base64.b64encode(key.sign(message)).decode()} for key in many
    ]
    assert matches(many[0].public, base64.b64decode(signatures[0]["sig"]), message)
    document = {"payload": "e30=", "payloadType": PAYLOAD_TYPE, "signatures": signatures}
    with pytest.raises(EnvelopeRefused, match="5 signatures, not 1 to 4"):
        opens(compact(document), manifest)
