"""Declared parameters: what travels, what comes back, and what is refused where."""

from __future__ import annotations

import collections
import dataclasses
import enum
import functools
import typing
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Context, Decimal, localcontext
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, TypedDict
from uuid import UUID
from zoneinfo import ZoneInfo

import msgspec
import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from ascertain.core import codec
from ascertain.core.codec import MAX_INTEGER, encode
from ascertain.core.parameters import RESERVED, compile_parameters
from ascertain.errors import DeclarationRefused, ProfileViolation

if typing.TYPE_CHECKING:
    from nowhere import Elsewhere

UserId = NewType("UserId", str)


class Colour(enum.Enum):
    RED = "red"
    ONE = 1
    ONE_AS_TEXT = "1"


class Currency(enum.StrEnum):
    GBP = "gbp"


@dataclasses.dataclass(frozen=True)
class Address:
    street: str
    since: date
    city: str | None = None
    tags: list[str] = dataclasses.field(default_factory=list)


class Line(msgspec.Struct, frozen=True, rename="camel", tag=True):
    unit_price: Decimal
    pieces: int = 1


class Point(NamedTuple):
    x: float
    y: float = 0.0


class Loose(TypedDict, total=False):
    note: str
    asked: typing.Required[int]


class Tight(TypedDict):
    asked: int
    note: NotRequired[str]
    where: Address


texts = st.text(max_size=8)
integers = st.integers(-MAX_INTEGER, MAX_INTEGER)
decimals = st.one_of(
    st.decimals(allow_nan=False, allow_infinity=False),
    st.sampled_from([Decimal(text) for text in ("0.00", "-0", "1E+2", "1.10", "1e-400", "0e9")]),
)
floats = st.floats(allow_nan=False, allow_infinity=False)
zones = st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30)), ZoneInfo("Europe/London")])
instants = st.datetimes(
    min_value=datetime(2, 1, 1),  # noqa: DTZ001
    max_value=datetime(9998, 12, 31),  # noqa: DTZ001
    timezones=zones,
)
addresses = st.builds(
    Address,
    street=texts,
    since=st.dates(),
    city=st.none() | texts,
    tags=st.lists(texts, max_size=3),
)
lines = st.builds(Line, unit_price=decimals, pieces=integers)
tight = st.fixed_dictionaries({"asked": integers, "where": addresses}, optional={"note": texts})

# Each supported type, with values of it.
ROUND_TRIPS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "str": (str, texts),
    "int": (int, integers),
    "bool": (bool, st.booleans()),
    "none": (None, st.none()),
    "decimal": (Decimal, decimals),
    "float": (float, floats),
    "datetime": (datetime, instants.map(lambda value: value.astimezone(UTC))),
    "date": (date, st.dates()),
    "uuid": (UUID, st.uuids()),
    "bytes": (bytes, st.binary(max_size=20)),
    "enum": (Colour, st.sampled_from(Colour)),
    "str enum": (Currency, st.sampled_from(Currency)),
    "literal": (Literal["a", 1, True, None], st.sampled_from(["a", 1, True, None])),
    "new type": (UserId, texts),
    "annotated": (Annotated[int, "pence"], integers),
    "optional": (Decimal | None, st.none() | decimals),
    "old optional": (typing.Optional[UUID], st.none() | st.uuids()),  # noqa: UP045
    "list": (list[Decimal], st.lists(decimals, max_size=4)),
    "old list": (typing.List[int], st.lists(integers, max_size=4)),  # noqa: UP006
    "tuple": (tuple[date, ...], st.lists(st.dates(), max_size=4).map(tuple)),
    "fixed tuple": (tuple[str, Decimal], st.tuples(texts, decimals)),
    "dict": (dict[str, bytes], st.dictionaries(texts, st.binary(max_size=5), max_size=4)),
    "set": (set[str], st.sets(texts, max_size=4)),
    "frozenset": (frozenset[UserId], st.frozensets(texts, max_size=4)),
    "dataclass": (Address, addresses),
    "struct": (Line, lines),
    "named tuple": (Point, st.builds(Point, x=floats, y=floats)),
    "typed dict": (Tight, tight),
    "nested": (
        dict[str, list[tuple[Line, Address | None]]],
        st.dictionaries(
            texts, st.lists(st.tuples(lines, st.none() | addresses), max_size=2), max_size=2
        ),
    ),
}


@pytest.mark.parametrize("name", ROUND_TRIPS)
@given(data=st.data())
def test_what_was_encoded_comes_back(name: str, data: st.DataObject) -> None:
    annotation, values = ROUND_TRIPS[name]
    value = data.draw(values)
    parameters = compile_parameters({"v": annotation})
    plain = parameters.encode({"v": value})
    back = parameters.decode(plain)["v"]
    assert back == value
    assert type(back) is type(value)
    # What comes back is written with the same bytes, and those are of the profile.
    assert codec.decode_canonical(encode(plain)) == plain
    assert parameters.encode({"v": back}) == plain
    assert encode(plain) == rfc8785.dumps(plain)


@given(decimals)
def test_a_decimal_is_text_exactly_as_given(value: Decimal) -> None:
    parameters = compile_parameters({"v": Decimal})
    plain = parameters.encode({"v": value})
    assert plain == {"v": str(value)}
    back = parameters.decode(plain)["v"]
    assert (back.as_tuple(), str(back)) == (value.as_tuple(), str(value))


def test_a_decimal_does_not_depend_on_the_context() -> None:
    parameters = compile_parameters({"v": Decimal})
    with localcontext(Context(prec=2, capitals=0)):
        assert parameters.encode({"v": Decimal("1.2345E+20")}) == {"v": "1.2345E+20"}
        assert parameters.decode({"v": "1.2345E+20"})["v"].as_tuple().digits == (1, 2, 3, 4, 5)


@given(floats)
@example(-0.0)
@example(5e-324)
@example(0.1 + 0.2)
def test_a_float_is_the_shortest_text_that_gives_it_back(value: float) -> None:
    parameters = compile_parameters({"v": float})
    plain = parameters.encode({"v": value})
    assert plain == {"v": repr(value)}
    assert parameters.decode(plain)["v"].hex() == value.hex()


def test_a_whole_number_is_a_float_where_one_is_declared() -> None:
    parameters = compile_parameters({"v": float})
    assert parameters.encode({"v": 3}) == parameters.encode({"v": 3.0}) == {"v": "3.0"}


@given(instants)
@example(datetime(2024, 10, 27, 1, 30, tzinfo=ZoneInfo("Europe/London"), fold=0))
@example(datetime(2024, 10, 27, 1, 30, tzinfo=ZoneInfo("Europe/London"), fold=1))
def test_a_datetime_is_the_instant_in_utc(value: datetime) -> None:
    parameters = compile_parameters({"v": datetime})
    plain = parameters.encode({"v": value})
    assert parameters.decode(plain)["v"] == value.astimezone(UTC)
    # The same instant has one spelling, whichever zone it was given in.
    assert parameters.encode({"v": value.astimezone(timezone(timedelta(hours=-7)))}) == plain


@pytest.mark.parametrize(
    ("annotation", "value", "plain"),
    [
        (datetime, datetime(2026, 1, 31, 12, 0, tzinfo=UTC), "2026-01-31T12:00:00Z"),
        (datetime, datetime(2026, 1, 31, 12, 0, 0, 7, tzinfo=UTC), "2026-01-31T12:00:00.000007Z"),
        (
            datetime,
            datetime(2026, 1, 31, 0, 30, tzinfo=timezone(timedelta(hours=1))),
            "2026-01-30T23:30:00Z",
        ),
        (date, date(2026, 1, 31), "2026-01-31"),
        (
            UUID,
            UUID("ABCDEF00-0000-4000-8000-000000000001"),
            "abcdef00-0000-4000-8000-000000000001",
        ),
        (bytes, b"\xfb\xff\x00", "+/8A"),
        (bytes, b"\x00", "AA=="),
        (set[str], {"b", "a", "é"}, ["a", "b", "é"]),
        (Colour, Colour.ONE, 1),
        (Colour, Colour.ONE_AS_TEXT, "1"),
        (Point, Point(1.5), {"x": "1.5", "y": "0.0"}),
        (Line, Line(Decimal("2.50")), {"unit_price": "2.50", "pieces": 1}),
        (
            Address,
            Address("a", date(2026, 1, 31)),
            {"street": "a", "since": "2026-01-31", "city": None, "tags": []},
        ),
        (Loose, {"asked": 1}, {"asked": 1}),
    ],
)
def test_each_type_has_its_form(annotation: Any, value: Any, plain: Any) -> None:
    parameters = compile_parameters({"v": annotation})
    assert parameters.encode({"v": value}) == {"v": plain}
    assert parameters.decode({"v": plain}) == {"v": value}


class Text(str):
    __slots__ = ()


class Nanoseconds(datetime):
    """As the timestamps of data frames: more than a datetime holds."""

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = datetime.__hash__


class Frozen(datetime):
    """As the datetimes of tests that stop the clock: nothing more than a datetime."""


class FrozenDate(date):
    pass


@dataclasses.dataclass(frozen=True)
class Villa(Address):
    pool: bool = True


def test_a_subclass_that_holds_no_more_is_taken() -> None:
    parameters = compile_parameters({"at": datetime, "on": date})
    given = {"at": Frozen(2026, 1, 31, 1, tzinfo=UTC), "on": FrozenDate(2026, 1, 31)}
    plain = parameters.encode(given)
    assert plain == {"at": "2026-01-31T01:00:00Z", "on": "2026-01-31"}


NAIVE = datetime(2026, 1, 31)  # noqa: DTZ001


@pytest.mark.parametrize(
    ("annotation", "value", "path", "words"),
    [
        (str, 1, "$.v", "int, where str"),
        (str, None, "$.v", "None, where str"),
        (str, Text("x"), "$.v", "Text, where str"),
        (str, Currency.GBP, "$.v", "Currency, where str"),
        (str, "\ud800", "$.v", "surrogate"),
        (int, True, "$.v", "bool, where int"),
        (int, 1.0, "$.v", "float, where int"),
        (int, "1", "$.v", "str, where int"),
        (int, 2**53, "$.v", "integer outside"),
        (int, -(2**53), "$.v", "integer outside"),
        (bool, 1, "$.v", "int, where bool"),
        (None, False, "$.v", "bool, where None"),
        (Decimal, "1.1", "$.v", "str, where Decimal"),
        (Decimal, 1, "$.v", "int, where Decimal"),
        (Decimal, 1.5, "$.v", "float, where Decimal"),
        (Decimal, Decimal("NaN"), "$.v", "not finite"),
        (Decimal, Decimal("sNaN"), "$.v", "not finite"),
        (Decimal, Decimal("-Infinity"), "$.v", "not finite"),
        (float, float("nan"), "$.v", "not finite"),
        (float, float("inf"), "$.v", "not finite"),
        (float, True, "$.v", "bool, where float"),
        (float, 2**53, "$.v", "integer outside"),
        (float, Decimal(1), "$.v", "Decimal, where float"),
        (datetime, NAIVE, "$.v", "without a time zone"),
        (datetime, date(2026, 1, 31), "$.v", "date, where datetime"),
        (datetime, "2026-01-31T00:00:00Z", "$.v", "str, where datetime"),
        (datetime, Nanoseconds(2026, 1, 31, tzinfo=UTC), "$.v", "Nanoseconds, where datetime"),
        (
            datetime,
            datetime.min.replace(tzinfo=timezone(timedelta(hours=1))),
            "$.v",
            "outside the years",
        ),
        (date, datetime(2026, 1, 31, tzinfo=UTC), "$.v", "datetime, where date"),
        (UUID, "abcdef00-0000-4000-8000-000000000001", "$.v", "str, where UUID"),
        (bytes, "x", "$.v", "str, where bytes"),
        (bytes, bytearray(b"x"), "$.v", "bytearray, where bytes"),
        (Colour, "red", "$.v", "str, where Colour"),
        (Colour, Currency.GBP, "$.v", "Currency, where Colour"),
        (Literal["a", 1], "b", "$.v", "none of Literal"),
        (Literal["a", 1], True, "$.v", "none of Literal"),
        (Literal["a", 1], [], "$.v", "list, where Literal"),
        (list[int], (1,), "$.v", "tuple, where list"),
        (list[int], [0, 1, True], "$.v[2]", "bool, where int"),
        (tuple[int, ...], [1], "$.v", "list, where tuple"),
        (tuple[int, str], (1,), "$.v", "1 items, where 2"),
        (tuple[int, str], (1, 2), "$.v[1]", "int, where str"),
        (dict[str, int], {"a": 1, "b": "x"}, "$.v.b", "str, where int"),
        (dict[str, int], {1: 1}, "$.v", "int, where str"),
        (dict[str, int], {"\ud800": 1}, '$.v["\\ud800"]', "surrogate"),
        (dict[str, int], [], "$.v", "list, where dict"),
        (set[str], ["a"], "$.v", "list, where set"),
        (set[str], frozenset("a"), "$.v", "frozenset, where set"),
        (set[str], {1}, "$.v", "int, where str"),
        (Address, {"street": "a"}, "$.v", "dict, where Address"),
        (Address, Villa("a", date(2026, 1, 31)), "$.v", "Villa, where Address"),
        (Address, Address(1, date(2026, 1, 31)), "$.v.street", "int, where str"),  # type: ignore[arg-type]
        (Address, Address("a", date(2026, 1, 31), tags=["x", 1]), "$.v.tags[1]", "int"),  # type: ignore[list-item]
        (Line, Line(Decimal(1), pieces=True), "$.v.pieces", "bool, where int"),
        (Point, (1.0, 2.0), "$.v", "tuple, where Point"),
        (Tight, {"asked": 1}, "$.v.where", "missing"),
        (Loose, {}, "$.v.asked", "missing"),
        (Loose, {"asked": 1, "more": 1}, "$.v.more", "unknown"),
        (list[Line | None], [None, 5], "$.v[1]", "int, where Line"),
        (
            dict[str, list[Address]],
            {"a b": [Address("a", date(2026, 1, 31)), Address("a", "x")]},  # type: ignore[arg-type]
            '$.v["a b"][1].since',
            "str, where date",
        ),
    ],
)
def test_encode_refuses_with_the_path(annotation: Any, value: Any, path: str, words: str) -> None:
    parameters = compile_parameters({"v": annotation})
    with pytest.raises(ProfileViolation, match=words) as refused:
        parameters.encode({"v": value})
    assert refused.value.path == path
    assert refused.value.fix.endswith(".")


def test_a_naive_datetime_is_told_of_utc() -> None:
    with pytest.raises(ProfileViolation) as refused:
        compile_parameters({"v": datetime}).encode({"v": NAIVE})
    assert "timezone.utc" in refused.value.fix


@pytest.mark.parametrize(
    ("annotation", "plain", "path", "words"),
    [
        (str, 1, "$.v", "int, where str"),
        (int, True, "$.v", "bool, where int"),
        (int, 2**53, "$.v", "integer outside"),
        (bool, 0, "$.v", "int, where bool"),
        (None, 0, "$.v", "int, where None"),
        (Decimal, 1, "$.v", "int, where str"),
        (Decimal, "1,5", "$.v", "no Decimal"),
        (Decimal, "NaN", "$.v", "not finite"),
        (Decimal, " 1", "$.v", "another spelling"),
        (Decimal, "1e2", "$.v", "another spelling"),
        (Decimal, "1_0", "$.v", "another spelling"),
        (Decimal, "\u0661", "$.v", "another spelling"),
        (Decimal, "+1", "$.v", "another spelling"),
        (float, "1", "$.v", "another spelling"),
        (float, "1.00", "$.v", "another spelling"),
        (float, "nan", "$.v", "not finite"),
        (float, "1e999", "$.v", "not finite"),
        (float, "x", "$.v", "no float"),
        (float, 1, "$.v", "int, where str"),
        (datetime, "2026-01-31T12:00:00", "$.v", "without a time zone"),
        (datetime, "2026-01-31T12:00:00+00:00", "$.v", "another spelling"),
        (datetime, "2026-01-31T12:00:00z", "$.v", "another spelling|no datetime"),
        (datetime, "2026-01-31T12:00:00.000000Z", "$.v", "another spelling"),
        (datetime, "2026-01-31 12:00:00Z", "$.v", "another spelling"),
        (datetime, "2026-01-31T13:00:00+01:00", "$.v", "another spelling"),
        (datetime, "yesterday", "$.v", "no datetime"),
        (datetime, "0001-01-01T00:00:00+01:00", "$.v", "outside the years"),
        (date, "20260131", "$.v", "another spelling"),
        (date, "2026-02-30", "$.v", "no date"),
        (UUID, "ABCDEF00-0000-4000-8000-000000000001", "$.v", "another spelling"),
        (UUID, "{abcdef00-0000-4000-8000-000000000001}", "$.v", "another spelling"),
        (UUID, "abc", "$.v", "no UUID"),
        (bytes, "AA", "$.v", "no bytes"),
        (bytes, "AB==", "$.v", "another spelling"),
        (bytes, "AA==\n", "$.v", "no bytes"),
        (bytes, "-_8A", "$.v", "no bytes"),
        (bytes, "é", "$.v", "no bytes"),
        (Colour, "blue", "$.v", "none of Colour"),
        (Colour, True, "$.v", "none of Colour"),
        (Colour, {}, "$.v", "dict, where"),
        (Literal["a", 1], True, "$.v", "none of Literal"),
        (list[int], {}, "$.v", "dict, where list"),
        (list[Decimal], ["1", "x"], "$.v[1]", "no Decimal"),
        (tuple[int, str], [1], "$.v", "1 items, where 2"),
        (tuple[int, str], [1, 2], "$.v[1]", "int, where str"),
        (dict[str, date], {"a": "x"}, "$.v.a", "no date"),
        (set[str], ["b", "a"], "$.v", "not sorted"),
        (set[str], ["a", "a"], "$.v", "twice"),
        (set[str], ["a", 1], "$.v[1]", "int, where str"),
        (Address, [], "$.v", "list, where Address"),
        (Address, {"street": "a"}, "$.v.since", "missing"),
        (Address, {"street": "a", "since": "2026-01-31", "pool": True}, "$.v.pool", "unknown"),
        (Line, {"unitPrice": "1"}, "$.v.unit_price", "missing"),
        (Point, {"x": "1.0", "y": 1}, "$.v.y", "int, where str"),
        (Tight, {"asked": 1, "where": {"street": 1}}, "$.v.where.street", "int, where str"),
    ],
)
def test_decode_refuses_with_the_path(annotation: Any, plain: Any, path: str, words: str) -> None:
    parameters = compile_parameters({"v": annotation})
    with pytest.raises(ProfileViolation, match=words) as refused:
        parameters.decode({"v": plain})
    assert refused.value.path == path
    assert refused.value.fix.endswith(".")


@pytest.mark.parametrize("annotation", [str, Decimal, bytes, UUID, Literal["a"], Colour, float])
def test_a_refusal_does_not_repeat_the_value(annotation: Any) -> None:
    parameters = compile_parameters({"v": annotation})
    for convert in (parameters.encode, parameters.decode):
        with pytest.raises(ProfileViolation) as refused:
            convert({"v": {"secret-4242"}})
        assert "4242" not in str(refused.value)
    if annotation is not str:
        with pytest.raises(ProfileViolation) as refused:
            parameters.decode({"v": "secret-4242"})
        assert "4242" not in str(refused.value)


@dataclasses.dataclass
class Positive:
    amount: int

    def __post_init__(self) -> None:
        if self.amount < 0:
            raise ValueError(f"{self.amount} is negative")


def test_a_class_may_refuse_its_own_fields() -> None:
    parameters = compile_parameters({"v": Positive})
    with pytest.raises(ProfileViolation, match="Positive itself refuses") as refused:
        parameters.decode({"v": {"amount": -4242}})
    assert refused.value.path == "$.v"
    assert "4242" not in str(refused.value)
    assert isinstance(refused.value.__cause__, ValueError)


# --- signatures ---------------------------------------------------------------------------------


def pay(
    call: Elsewhere,
    *,
    payee: str,
    amount: Decimal,
    address: Address | None = None,
    tags: tuple[str, ...] = ("new",),
) -> Elsewhere: ...


def test_a_signature_is_compiled_with_its_postponed_annotations() -> None:
    parameters = compile_parameters(pay)
    assert parameters.names == ("payee", "amount", "address", "tags")
    plain = parameters.encode({"payee": "Northwind", "amount": Decimal("1.50")})
    assert plain == {"payee": "Northwind", "amount": "1.50", "address": None, "tags": ["new"]}
    assert parameters.decode(plain) == {
        "payee": "Northwind",
        "amount": Decimal("1.50"),
        "address": None,
        "tags": ("new",),
    }
    # Written before a parameter with a default was declared.
    assert parameters.decode({"payee": "N", "amount": "1"})["tags"] == ("new",)


def test_a_default_is_not_shared_between_calls() -> None:
    def act(call: Any, *, tags: list[str] = ["a"]) -> None: ...  # noqa: B006

    parameters = compile_parameters(act)
    parameters.encode({})["tags"].append("b")  # type: ignore[union-attr]
    assert parameters.encode({}) == {"tags": ["a"]}


@pytest.mark.parametrize(
    ("given", "path", "words"),
    [
        ({"payee": "N"}, "$.amount", "missing"),
        ({"payee": "N", "amount": Decimal(1), "amuont": Decimal(1)}, "$.amuont", "unknown"),
        ({"payee": "N", "amount": Decimal(1), "a b": 1}, '$["a b"]', "unknown"),
        ({}, "$.payee", "missing"),
    ],
)
def test_names_must_be_those_declared(given: dict[str, Any], path: str, words: str) -> None:
    parameters = compile_parameters(pay)
    for convert in (parameters.encode, parameters.decode):
        plain = {k: str(v) for k, v in given.items()} if convert == parameters.decode else given
        with pytest.raises(ProfileViolation, match=words) as refused:
            convert(plain)
        assert refused.value.path == path


def test_a_function_without_parameters_takes_none() -> None:
    def act(call: Any) -> None: ...

    parameters = compile_parameters(act)
    assert parameters.encode({}) == parameters.decode({}) == parameters.describe() == {}
    with pytest.raises(ProfileViolation, match="unknown"):
        parameters.encode({"x": 1})


def test_methods_coroutines_and_wrapped_functions_are_compiled() -> None:
    class Adapter:
        def pay(self, call: Any, payee: str) -> None: ...

    async def later(call: Any, payee: str) -> None: ...

    @functools.wraps(pay)
    def wrapped(*args: Any, **kwargs: Any) -> Any: ...

    def only(call: Any, /, *, payee: str) -> None: ...

    assert compile_parameters(Adapter().pay).names == ("payee",)
    assert compile_parameters(later).names == ("payee",)
    assert compile_parameters(only).names == ("payee",)
    assert compile_parameters(wrapped).names == compile_parameters(pay).names


def test_further_leading_parameters_can_be_named() -> None:
    def book(call: Any, connection: Any, *, seat: str) -> None: ...

    assert compile_parameters(book, leading=("call", "connection")).names == ("seat",)
    with pytest.raises(DeclarationRefused, match="book, parameter connection: a type that says"):
        compile_parameters(book)


def test_the_subset_for_the_fingerprint() -> None:
    parameters = compile_parameters(pay)
    plain = parameters.encode({"payee": "N", "amount": Decimal("1.50")})
    assert parameters.subset(plain, ("amount", "payee")) == {"payee": "N", "amount": "1.50"}
    assert parameters.subset(plain, ()) == {}
    with pytest.raises(DeclarationRefused, match="'amuont' is no parameter"):
        parameters.subset(plain, ("amuont",))
    with pytest.raises(ProfileViolation, match="missing"):
        parameters.subset({"payee": "N"}, ("amount",))


def test_the_description_is_plain_and_says_all() -> None:
    described = compile_parameters(pay).describe()
    assert described["payee"] == {"type": "str", "required": True}
    assert described["tags"] == {"type": "tuple[str, ...]", "required": False, "default": ["new"]}
    assert described["address"] == {
        "type": "Address(street: str, since: date, city: str | None, tags: list[str]) | None",
        "required": False,
        "default": None,
    }
    assert codec.decode_canonical(encode(described)) == described
    assert (
        repr(compile_parameters({"a": str, "b": list[int]})) == "Parameters(a: str, b: list[int])"
    )
    several = compile_parameters({"c": Colour, "l": Literal["a", 1], "s": set[str], "t": Loose})
    assert [part["type"] for part in several.describe().values()] == [  # type: ignore[index, call-overload]
        "Colour['red', 1, '1']",
        "Literal['a', 1]",
        "set[str]",
        "Loose(note: str, asked: int)",
    ]


# --- declarations that are refused --------------------------------------------------------------


@dataclasses.dataclass
class Node:
    below: list[Node]


@dataclasses.dataclass
class Derived:
    amount: int
    fee: int = dataclasses.field(init=False, default=0)


@dataclasses.dataclass
class Holder:
    inner: dict[str, Derived]
    unknown: object = None


class Words(enum.Enum):
    A = ("a", "b")


class Truth(enum.Enum):
    YES = True


class Flags(enum.Flag):
    A = 1


class Huge(enum.Enum):
    A = 2**60


class Empty(enum.Enum):
    pass


Untyped = collections.namedtuple("Untyped", ["a"])


class Missing(TypedDict):
    where: Elsewhere


class TypeAliasType:
    """As ``type name = …`` makes it, in versions of Python that have it."""

    def __init__(self, name: str) -> None:
        self.__name__ = name
        self.__value__: Any = None


@pytest.mark.parametrize(
    ("annotation", "place", "words", "fix"),
    [
        (Any, "v", "says nothing", "str, int"),
        (object, "v", "says nothing", "str, int"),
        (list, "v", "list, which", "list[str]"),
        (dict, "v", "dict, which", "dict[str, int]"),
        (tuple, "v", "tuple, which", "tuple[str, ...]"),
        (set, "v", "set, which", "set[str]"),
        (typing.List, "v", "list that", "list[str]"),  # noqa: UP006
        (tuple[()], "v", "tuple that", "tuple[str, ...]"),
        (dict[int, str], "v", "dict that", "keys are str"),
        (set[int], "v", "set that", "set[str]"),
        (frozenset[bytes], "v", "frozenset that", "frozenset[str]"),
        (list[Any], "v", "says nothing", "str, int"),
        (int | str, "v", "one of several types", "that type and None"),
        (int | str | None, "v", "one of several types", "that type and None"),
        (Literal[b"x"], "v", "Literal of something else", "str, int or bool"),
        (Literal[Colour.RED], "v", "Literal of something else", "str, int or bool"),
        (timedelta, "v", "timedelta, which", "str, int"),
        (complex, "v", "complex, which", "str, int"),
        (typing.TypeVar("T"), "v", "~T, which", "str, int"),
        (typing.Sequence[str], "v", "Sequence", "list"),
        (typing.Callable[[], None], "v", "Callable", "list"),
        ("str", "v", "given as text", "the type itself"),
        (list["str"], "v", "given as text", "the type itself"),
        (5, "v", "5, which", "str, int"),
        (Node, "v.below", "Node holds itself", "known depth"),
        (Derived, "v", "cannot be made from its fields", "init=False"),
        (Holder, "v.inner", "cannot be made from its fields", "init=False"),
        (Words, "v", "not plain str or int", "str or int as its value"),
        (Truth, "v", "not plain str or int", "str or int as its value"),
        (Flags, "v", "not plain str or int", "list[…]"),
        (Empty, "v", "not plain str or int", "str or int as its value"),
        (Huge, "v", "integer outside", "as text"),
        (Untyped, "v", "without a type", "typing.NamedTuple"),
        (Missing, "v", "cannot be found", "top of the module"),
    ],
)
def test_what_cannot_be_recorded_is_refused(
    annotation: Any, place: str, words: str, fix: str
) -> None:
    with pytest.raises(DeclarationRefused, match=words) as refused:
        compile_parameters({"v": annotation})
    assert f"parameter {place}:" in refused.value.message
    assert fix in refused.value.fix
    assert refused.value.fix.endswith(".")


def test_a_named_type_that_holds_itself_is_refused() -> None:
    amount, tree = TypeAliasType("amount"), TypeAliasType("tree")
    amount.__value__ = Decimal
    tree.__value__ = dict[str, tuple[tree, ...]]
    assert compile_parameters({"v": amount}).encode({"v": Decimal(1)}) == {"v": "1"}
    with pytest.raises(DeclarationRefused, match="parameter v: tree holds itself"):
        compile_parameters({"v": tree})


@pytest.mark.parametrize("name", sorted(RESERVED))
def test_our_own_names_are_refused(name: str) -> None:
    with pytest.raises(DeclarationRefused, match=f"parameter {name}: a name that Ascertain uses"):
        compile_parameters({name: str})


def test_the_reserved_names() -> None:
    ours = "call action_id intent preconditions needs deadline authority effect journal self"
    assert set(ours.split()) == RESERVED


@pytest.mark.parametrize("name", ["a b", "", "1a", 5])
def test_a_mapping_holds_names_only(name: Any) -> None:
    with pytest.raises(DeclarationRefused, match="no name of a parameter"):
        compile_parameters({name: str})


def untyped(call: Any, *, payee) -> None: ...  # type: ignore[no-untyped-def]
def many(call: Any, *payees: str) -> None: ...
def anything(call: Any, **payees: str) -> None: ...
def unnamed(call: Any, payee: str, /) -> None: ...
def nothing() -> None: ...
def other(payee: str) -> None: ...
def by_keyword(*, call: Any, payee: str) -> None: ...
def collected(*call: Any) -> None: ...
def ours(call: Any, *, needs: str) -> None: ...
def implicit(call: Any, *, payee: str = None) -> None: ...  # type: ignore[assignment]  # noqa: RUF013
def naive(call: Any, *, at: datetime = NAIVE) -> None: ...
def infinite(call: Any, *, share: float = float("inf")) -> None: ...
def elsewhere(call: Any, *, payee: Elsewhere) -> None: ...


@pytest.mark.parametrize(
    ("function", "words", "fix"),
    [
        (untyped, "parameter payee: has no type", "payee: str"),
        (many, "parameter payees: takes whatever comes", "by name and type"),
        (anything, "parameter payees: takes whatever comes", "by name and type"),
        (unnamed, "parameter payee: has no name", "Take the / out"),
        (nothing, "nothing: does not begin with call", "def name(call, *"),
        (other, "other: does not begin with call", "def name(call, *"),
        (by_keyword, "by_keyword: does not begin with call", "def name(call, *"),
        (collected, "collected: does not begin with call", "def name(call, *"),
        (ours, "parameter needs: a name that Ascertain uses", "another name"),
        (implicit, "parameter payee: a default that is not of its type", "type of its default"),
        (naive, "parameter at: a default that is not of its type", "type of its default"),
        (infinite, "parameter share: a default that is not of its type", "type of its default"),
        (elsewhere, "a type that cannot be found .*Elsewhere", "TYPE_CHECKING"),
        (functools.partial(pay, payee="N"), "declaration: not a function", "def name(call, *"),
        (int, "int: not a function", "def name(call, *"),
        (5, "declaration: not a function", "def name(call, *"),
    ],
)
def test_signatures_that_cannot_be_recorded_are_refused(
    function: Any, words: str, fix: str
) -> None:
    with pytest.raises(DeclarationRefused, match=words) as refused:
        compile_parameters(function)
    assert fix in refused.value.fix
