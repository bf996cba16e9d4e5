"""Canonical bytes: RFC 8785 inside the strict profile, and what is refused with which path."""

import json
from collections import OrderedDict
from pathlib import Path
from typing import Any

import msgspec
import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from ascertain.core import codec
from ascertain.core.codec import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_INTEGER,
    MAX_ITEMS,
    FingerprintKey,
    decode,
    decode_canonical,
    encode,
    encode_struct,
    fingerprint,
    fingerprint_matches,
)
from ascertain.errors import (
    DocumentMalformed,
    DocumentTooLarge,
    InputRefused,
    ProfileViolation,
)

VECTORS = Path(__file__).parents[1] / "vectors" / "jcs"
NAMES = ["arrays", "french", "structures", "unicode", "values", "weird"]
ESCAPED = "".join(map(chr, range(0x20))) + '"\\/\x7f\x80\u2028\u2029\ufeff\ufffd'
# Where order by code point and by UTF-16 code unit differ.
UNEVEN = ["\U0001f602", "\U00010000", "\ue000", "\ufb33", "\uffff", "\ud7ff", "é", "a", ""]

texts = st.one_of(
    st.text(max_size=12),
    st.text(st.sampled_from(ESCAPED), max_size=12),
    st.lists(st.sampled_from(UNEVEN), max_size=3).map("".join),
)
integers = st.one_of(
    st.integers(-MAX_INTEGER, MAX_INTEGER),
    st.sampled_from([0, -1, MAX_INTEGER, -MAX_INTEGER]),
)
plain = st.recursive(
    st.one_of(texts, integers, st.booleans(), st.none()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=5),
        st.dictionaries(texts, inner, max_size=6),
    ),
    max_leaves=25,
)


class Inner(msgspec.Struct, frozen=True, tag_field="kind", tag="inner"):
    zone: str
    alpha: int
    maybe: bool | None = None


class Record(msgspec.Struct, frozen=True, tag_field="kind", tag="record"):
    subject: str
    action_id: str
    position: int
    parameters: Any
    inner: Inner
    many: tuple[Inner, ...]
    # Keys before and after the tag, among them one that has the tag as its beginning.
    kinds: list[str]
    kin: str
    Zone: str
    _: int


inners = st.builds(Inner, zone=texts, alpha=integers, maybe=st.none() | st.booleans())
records = st.builds(
    Record,
    subject=texts,
    action_id=texts,
    position=integers,
    parameters=plain,
    inner=inners,
    many=st.lists(inners, max_size=3).map(tuple),
    kinds=st.lists(texts, max_size=3),
    kin=texts,
    Zone=texts,
    _=integers,
)


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


# --- the official vectors -----------------------------------------------------------------------


@pytest.mark.parametrize("name", NAMES)
def test_oracle_agrees_with_the_official_vectors(name: str) -> None:
    given = json.loads((VECTORS / "input" / f"{name}.json").read_bytes())
    assert rfc8785.dumps(given) == (VECTORS / "output" / f"{name}.json").read_bytes()


@pytest.mark.parametrize("name", ["arrays", "french", "unicode", "weird"])
def test_official_vectors_without_floats_are_byte_identical(name: str) -> None:
    raw = (VECTORS / "input" / f"{name}.json").read_bytes()
    expected = (VECTORS / "output" / f"{name}.json").read_bytes()
    assert expected == bytes.fromhex((VECTORS / "outhex" / f"{name}.txt").read_text())
    assert encode(decode(raw)) == expected
    assert encode(json.loads(raw)) == expected
    assert decode_canonical(expected) == json.loads(raw)


@pytest.mark.parametrize(
    ("name", "path"), [("structures", '$["1"]["\\n"]'), ("values", "$.numbers[0]")]
)
def test_official_vectors_with_floats_are_refused_by_path(name: str, path: str) -> None:
    raw = (VECTORS / "input" / f"{name}.json").read_bytes()
    with pytest.raises(DocumentMalformed) as from_bytes:
        decode(raw)
    with pytest.raises(ProfileViolation) as from_value:
        encode(json.loads(raw))
    assert from_bytes.value.path == from_value.value.path == path


# --- writing ------------------------------------------------------------------------------------


@given(plain)
@example({"\U0001f602": 1, "\ufb33": 2, "\ue000": {"\U00010000": [], "\uffff": 0}})
@example({"a": [{"\ufb33": "\U0001f602", "\U00010000": 1, "\uffff": 2}]})
@example([ESCAPED, {ESCAPED: ESCAPED}])
def test_encode_is_rfc_8785(value: Any) -> None:
    assert encode(value) == rfc8785.dumps(value)


def test_keys_are_sorted_by_utf_16_code_unit() -> None:
    raw = encode({"\ue000": 1, "\U00010000": 2, "\ud7ff": 3})
    assert raw == '{"\ud7ff":3,"\U00010000":2,"\ue000":1}'.encode()


@given(plain)
def test_decode_gives_back_what_encode_took(value: Any) -> None:
    raw = encode(value)
    assert decode(raw) == value
    assert decode_canonical(raw) == value
    # The same value in other words takes the other way through the decoder.
    assert decode(json.dumps(value, indent=1).encode() + b"\n") == value


@given(plain, plain)
def test_different_values_have_different_bytes(one: Any, other: Any) -> None:
    assert (encode(one) == encode(other)) == (
        json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)
    )


class Text(str):
    __slots__ = ()


@pytest.mark.parametrize(
    ("value", "path", "words"),
    [
        ({"a": [1, 2, 3, {"b": 1.5}]}, "$.a[3].b", "a float"),
        (float("nan"), "$", "a float"),
        ({"n": 2**53}, "$.n", "integer outside"),
        ([-(2**53)], "$[0]", "integer outside"),
        ({"a": {1: "x"}}, "$.a", "key of type int"),
        ({"a": {Text("k"): "x"}}, "$.a", "key of type Text"),
        ({"a": Text("x")}, "$.a", "Text"),
        ({"a": (1, 2)}, "$.a", "tuple"),
        ({"a": {"b": b"x"}}, "$.a.b", "bytes"),
        ([{1, 2}], "$[0]", "set"),
        (["\ud800"], "$[0]", "surrogate"),
        ({"a": [{"b": "x\udfffy"}]}, "$.a[0].b", "surrogate"),
        ({"a": {"\udc00": 1}}, '$.a["\\udc00"]', "surrogate"),
        ("\ud83d", "$", "surrogate"),
        ({"a b": {"c": object()}}, '$["a b"].c', "object"),
        ({"x" * 64: 1.5}, f"$.{'x' * 64}", "a float"),
        ({"x" * 70: 1.5}, f'$["{"x" * 64}\\u2026"]', "a float"),
        ({"a": nested(MAX_DEPTH)}, "$.a" + "[0]" * (MAX_DEPTH - 1), "levels deep"),
        ({"a": [0] * (MAX_ITEMS + 1)}, "$.a", "items"),
        ({"a": {"b": ["x" * 40_000] * 2}}, "$.a.b", "larger"),
        ({"a": {"b": {"c": "x" * 40_000, "d": "x" * 40_000}}}, "$.a.b", "larger"),
        ("x" * MAX_BYTES, "$", "larger"),
        ("x" * (MAX_BYTES + 1), "$", "larger"),
        (["\x00" * 20_000], "$", "larger"),
    ],
)
def test_encode_refuses_with_the_path(value: Any, path: str, words: str) -> None:
    with pytest.raises(ProfileViolation, match=words) as refused:
        encode(value)
    assert refused.value.path == path
    assert refused.value.fix.endswith(".")


@pytest.mark.parametrize(
    ("value", "fix"),
    [
        (1.5, "float or Decimal"),
        (Text("x"), "plain value"),
        ((1,), "plain dict or list"),
        (OrderedDict(), "plain dict or list"),
        (b"x", "with its type"),
        (2**53, "Decimal"),
        ("\ud800", "UTF-8"),
        ("x" * MAX_BYTES, "outside"),
    ],
)
def test_each_refusal_says_what_to_write_instead(value: Any, fix: str) -> None:
    with pytest.raises(ProfileViolation) as refused:
        encode({"a": value})
    assert fix in refused.value.fix


def test_a_refusal_does_not_repeat_the_value() -> None:
    with pytest.raises(ProfileViolation) as refused:
        encode({"card": 4242.4242})
    assert "4242" not in str(refused.value)


def test_the_limits_themselves_are_allowed() -> None:
    assert (MAX_BYTES, MAX_DEPTH, MAX_INTEGER) == (65_536, 64, 9_007_199_254_740_991)
    assert len(encode("x" * (MAX_BYTES - 2))) == MAX_BYTES
    assert encode(nested(MAX_DEPTH)) == b"[" * MAX_DEPTH + b"]" * MAX_DEPTH
    assert decode(encode(nested(MAX_DEPTH))) == nested(MAX_DEPTH)
    # One more item than these would not fit: [0,0,…] takes two bytes for each, and one.
    assert len(encode([0] * (MAX_ITEMS - 1))) == MAX_BYTES - 1


def test_a_value_that_holds_itself_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(ProfileViolation, match="levels deep"):
        encode(value)


def test_a_value_small_in_memory_and_huge_in_bytes_is_refused_at_once() -> None:
    value: list[Any] = []
    for _ in range(MAX_DEPTH - 1):
        value = [value, value]
    with pytest.raises(ProfileViolation, match="larger"):
        encode(value)


# --- our own records ----------------------------------------------------------------------------


@given(records)
def test_encode_struct_is_rfc_8785(record: Record) -> None:
    raw = encode_struct(record)
    assert raw == rfc8785.dumps(msgspec.to_builtins(record))
    assert decode_canonical(raw) == json.loads(raw)


def record(**changed: Any) -> Record:
    inner = Inner(zone="z", alpha=1)
    whole = Record("s", "a-1", 1, {}, inner, (inner,), [], "k", "Z", 0)
    return msgspec.structs.replace(whole, **changed)


def test_the_tag_stands_where_its_name_sorts() -> None:
    raw = encode_struct(record())
    assert raw.index(b'"kin":') < raw.index(b'"kind":"record"') < raw.index(b'"kinds":')


def test_raw_members_stand_as_they_are() -> None:
    value = {"b": "\U0001f602", "a": {"\ue000": 1, "\U00010000": 2}}
    raw = encode_struct(record(parameters=msgspec.Raw(encode(value))))
    assert raw == encode_struct(record(parameters=value))


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"subject": "\ud800"}, "$.subject"),
        ({"inner": Inner(zone="\udfff", alpha=1)}, "$.inner.zone"),
        ({"many": (Inner(zone="z", alpha=1), Inner(zone="\ud800", alpha=1))}, "$.many[1].zone"),
        ({"parameters": {"a": {"\ud800": 1}}}, '$.parameters.a["\\ud800"]'),
    ],
)
def test_encode_struct_refuses_lone_surrogates(changed: dict[str, Any], path: str) -> None:
    with pytest.raises(ProfileViolation, match="surrogate") as refused:
        encode_struct(record(**changed))
    assert refused.value.path == path


def test_encode_struct_never_writes_what_decode_would_refuse() -> None:
    fill = MAX_BYTES - len(encode_struct(record(subject="")))
    greatest = encode_struct(record(subject="x" * fill))
    assert decode_canonical(greatest) == json.loads(greatest)
    with pytest.raises(ProfileViolation, match="larger"):
        encode_struct(record(subject="x" * (fill + 1)))
    deepest = encode_struct(record(parameters=nested(MAX_DEPTH - 1)))
    assert decode(deepest) == json.loads(deepest)
    for too_deep in (nested(MAX_DEPTH), msgspec.Raw(encode(nested(MAX_DEPTH)))):
        with pytest.raises(ProfileViolation, match="levels deep"):
            encode_struct(record(parameters=too_deep))


@pytest.mark.parametrize("text", ["[" * 200, '"[\\"[\\\\' * 50, "}]" * 100])
def test_brackets_in_text_do_not_count_as_depth(text: str) -> None:
    raw = encode_struct(record(subject=text, parameters=[[text] for _ in range(MAX_DEPTH)]))
    assert decode(raw) == json.loads(raw)


# --- reading ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "path", "words"),
    [
        (b'{"a":1,"a":2}', "$.a", "twice"),
        (b'{"x":[{"a":1,"b":1,"\\u0061":2}]}', "$.x[0].a", "twice"),
        (b'{"a":[0,1.0]}', "$.a[1]", "fraction"),
        (b'{"a":1e400}', "$.a", "exponent"),
        (b"1E2", "$", "exponent"),
        (b"[-0]", "$[0]", "minus zero"),
        (b"[-0.0]", "$[0]", "fraction"),
        (b'{"a":9007199254740992}', "$.a", "integer outside"),
        (b'{"a":-9007199254740992}', "$.a", "integer outside"),
        (b"[" + b"9" * 5000 + b"]", "$[0]", "integer outside"),
        (b"[" + b"9" * 5000 + b".5]", "$[0]", "fraction"),
        (b'{"a":NaN}', "$.a", "a value was expected"),
        (b'{"a":Infinity}', "$.a", "a value was expected"),
        (b'{"a":-Infinity}', "$.a", "a number was expected"),
        (b'{"a":01}', "$", "a comma or }"),
        (b'{"a":+1}', "$.a", "a value was expected"),
        (b'{"a":.5}', "$.a", "a value was expected"),
        ('{"a":\u0661}'.encode(), "$.a", "a number was expected"),
        (b'{"a":"\\ud800"}', "$.a", "surrogate"),
        (b'{"a":"\\ude02\\ud83d"}', "$.a", "surrogate"),
        (b'{"a":{"\\udc00":1}}', "$.a", "surrogate"),
        (b'{"a":["\xff"]}', "$.a[0]", "not UTF-8"),
        (b'{"a":["\xed\xa0\x80"]}', "$.a[0]", "not UTF-8"),
        (b'{"a":["\xc0\xaf"]}', "$.a[0]", "not UTF-8"),
        (b'{"a":\xff}', "$.a", "not UTF-8"),
        (b'{"a":1}\xff', "$", "after the end"),
        (b"\xef\xbb\xbf{}", "$", "byte order mark"),
        ('{"a":1}'.encode("utf-16"), "$", "not UTF-8"),
        (b'{"a":1} {"b":2}', "$", "after the end"),
        (b"1 1", "$", "after the end"),
        (b'{"a":1}\x00', "$", "after the end"),
        (b"", "$", "the end of the document"),
        (b"  ", "$", "the end of the document"),
        (b'{"a":', "$.a", "the end of the document"),
        (b'{"a":[1,', "$.a[1]", "the end of the document"),
        (b'{"a":"x', "$.a", "not closed"),
        (b'{"a":"\x1f"}', "$.a", "control character"),
        (b'{"a":"\\x41"}', "$.a", "odd escape"),
        (b'{"a":"\\u00g0"}', "$.a", "odd escape"),
        (b"[1,]", "$[1]", "a value was expected"),
        (b'{"a":1,}', "$", "a key was expected"),
        (b"{a:1}", "$", "a key was expected"),
        (b"{'a':1}", "$", "a key was expected"),
        (b'{"a" 1}', "$.a", "a colon was expected"),
        (b"[1 2]", "$", "a comma or ]"),
        (b"[1}", "$", "a comma or ]"),
        (b"[truth]", "$[0]", "a value was expected"),
        (b"\x0b1", "$", "a value was expected"),
        ("\u00a01".encode(), "$", "a value was expected"),
        (b"// no\n1", "$", "a value was expected"),
        (b"[" * 60_000, "$" + "[0]" * MAX_DEPTH, "levels deep"),
        (b'{"a":' * 12_000, "$" + ".a" * MAX_DEPTH, "levels deep"),
        (encode(nested(MAX_DEPTH)).join([b"[", b"]"]), "$" + "[0]" * MAX_DEPTH, "levels deep"),
    ],
)
def test_decode_refuses_with_the_path(raw: bytes, path: str, words: str) -> None:
    for read in (decode, decode_canonical):
        with pytest.raises(DocumentMalformed, match=words) as refused:
            read(raw)
        assert refused.value.path == path
        assert refused.value.fix.endswith(".")


def test_size_is_refused_before_parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "_parsed", None)
    monkeypatch.setattr(codec, "Reader", None)
    for raw in (b"[" * 100_000, b" " * (MAX_BYTES + 1)):
        with pytest.raises(DocumentTooLarge, match=str(len(raw))):
            decode(raw)
        with pytest.raises(DocumentTooLarge):
            decode_canonical(raw)


def test_the_greatest_document_is_read() -> None:
    assert decode(b" " * (MAX_BYTES - 1) + b"1") == 1
    assert decode(b'"' + b"x" * (MAX_BYTES - 2) + b'"') == "x" * (MAX_BYTES - 2)


@pytest.mark.parametrize(
    "raw",
    [
        b' {"a":1}',
        b'{"a":1}\n',
        b'{"b":1,"a":2}',
        b'{"a": 1}',
        b'"\\u0041"',
        b'"\\/"',
        b'"\\u000A"',
        b'"\\u001F"',
        b'"\\u007f"',
        '{"\ue000":1,"\U00010000":2}'.encode(),
    ],
)
def test_decode_canonical_refuses_other_spellings(raw: bytes) -> None:
    assert decode(raw) == json.loads(raw)
    with pytest.raises(DocumentMalformed, match="not canonical"):
        decode_canonical(raw)


def test_decode_canonical_says_where_it_differs() -> None:
    with pytest.raises(DocumentMalformed, match="from byte 4 on"):
        decode_canonical(b'{"a" :1}')
    with pytest.raises(DocumentMalformed, match="from byte 7 on"):
        decode_canonical(b'{"a":1} ')


class Refused(Exception):
    pass


def refuse(_: str) -> None:
    raise Refused


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise Refused
    return dict(pairs)


def integer(text: str) -> int:
    if text == "-0" or abs(int(text)) > MAX_INTEGER:
        raise Refused
    return int(text)


def by_the_standard_library(raw: bytes) -> Any:
    """The strict profile again, by other means: the oracle for what is read and what is refused."""
    if raw.startswith(b"\xef\xbb\xbf"):
        raise Refused
    try:
        value = json.loads(
            raw.decode(),
            object_pairs_hook=unique,
            parse_float=refuse,
            parse_int=integer,
            parse_constant=refuse,
        )
        json.dumps(value, ensure_ascii=False).encode()
    except ValueError:
        raise Refused from None
    return value


@given(st.data())
def test_decode_reads_what_the_standard_library_reads(data: st.DataObject) -> None:
    """Documents in other spellings, with a few characters changed."""
    value = data.draw(plain)
    raw = json.dumps(
        value,
        ensure_ascii=data.draw(st.booleans()),
        indent=data.draw(st.sampled_from([None, 1])),
    ).encode()
    pieces = [*b'{}[]:,"\\/ \t\n0129-+.eEutfn\x00\x1f\x7f\xff\xed', b"\\ud83d", b'"a":1', b"null"]
    for _ in range(data.draw(st.integers(0, 3))):
        at = data.draw(st.integers(0, len(raw)))
        piece = data.draw(st.sampled_from(pieces))
        inserted = piece if isinstance(piece, bytes) else bytes([piece])
        raw = raw[:at] + inserted + raw[at + data.draw(st.integers(0, 2)) :]
    try:
        expected = by_the_standard_library(raw)
    except Refused:
        with pytest.raises(DocumentMalformed):
            decode(raw)
    else:
        assert encode(decode(raw)) == rfc8785.dumps(expected)


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    try:
        value = decode(raw)
    except DocumentMalformed:
        with pytest.raises(Refused):
            by_the_standard_library(raw)
    else:
        assert value == by_the_standard_library(raw)


# --- digests ------------------------------------------------------------------------------------

KEY = FingerprintKey("k1", b"Jefe" * 8)


def test_digests_by_published_vectors() -> None:
    # FIPS 180-2, appendix B.1; RFC 4231, test case 2.
    assert codec.digest(b"abc") == (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    )
    assert codec.keyed(b"Jefe", b"what do ya want for nothing?") == (
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    )


def test_fingerprints_name_their_key() -> None:
    assert fingerprint(KEY, b"{}") == f"k1:{codec.keyed(KEY.secret, b'{}')}"
    assert fingerprint(KEY, b"{}") != fingerprint(FingerprintKey("k1", b"x" * 32), b"{}")


def test_fingerprints_match_under_their_own_key_only() -> None:
    made = fingerprint(KEY, b"{}")
    keyring = {"k0": b"0" * 32, "k1": KEY.secret}
    assert fingerprint_matches(keyring, made, b"{}") is True
    assert fingerprint_matches(keyring, made, b"[]") is False
    assert fingerprint_matches({"k1": b"0" * 32}, made, b"{}") is False
    assert fingerprint_matches({"k0": KEY.secret}, made, b"{}") is None
    assert fingerprint_matches(keyring, made.replace("k1:", "k0:"), b"{}") is False


@pytest.mark.parametrize("change", [str.upper, lambda made: made + "0", lambda made: made + "é"])
def test_fingerprints_have_one_spelling(change: Any) -> None:
    digest = fingerprint(KEY, b"{}").partition(":")[2]
    assert fingerprint_matches({"k1": KEY.secret}, f"k1:{change(digest)}", b"{}") is False


def test_what_is_no_fingerprint_does_not_match() -> None:
    keyring = {"k1": KEY.secret}
    assert fingerprint_matches(keyring, "k1", b"{}") is False
    assert fingerprint_matches(keyring, "k1:\ud800", b"{}") is False
    assert fingerprint_matches(keyring, "", b"{}") is None


def test_a_fingerprint_key_does_not_show_its_secret() -> None:
    assert "Jefe" not in repr(KEY)
    with pytest.raises(AttributeError):
        KEY.secret = b""  # type: ignore[misc]


@pytest.mark.parametrize("key_id", ["", "a:b", "a b", "k\n", "é", "k" * 65])
def test_a_key_id_is_one_plain_word(key_id: str) -> None:
    with pytest.raises(InputRefused, match="id of a fingerprint key"):
        FingerprintKey(key_id, b"x" * 32)


def test_a_short_secret_is_refused() -> None:
    FingerprintKey("k1", b"x" * 16)
    with pytest.raises(InputRefused, match="16 bytes"):
        FingerprintKey("k1", b"x" * 15)
