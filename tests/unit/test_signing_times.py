from datetime import UTC, datetime, timedelta

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascertain.errors import InputRefused
from ascertain.signing.times import END_US, FIRST_US, read_any, read_utc, write_utc

REFERENCE = jsonschema_rs.validator_for(
    {"type": "string", "format": "date-time"}, validate_formats=True
)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@given(st.integers(FIRST_US, END_US - 1))
def test_every_instant_is_read_as_it_was_written(at_us: int) -> None:
    assert read_utc(write_utc(at_us)) == at_us


@given(st.datetimes(timezones=st.just(UTC)))
def test_the_calendar_is_that_of_the_standard_library(instant: datetime) -> None:
    at_us = (instant - EPOCH) // timedelta(microseconds=1)
    assert write_utc(at_us) == instant.isoformat().replace("+00:00", "Z")


@pytest.mark.parametrize("at_us", [FIRST_US - 1, END_US])
def test_an_instant_without_a_form_is_refused(at_us: int) -> None:
    with pytest.raises(InputRefused, match="0000 to 9999"):
        write_utc(at_us)


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("2030-01-01T10:00:00+01:00", "2030-01-01T09:00:00Z"),
        ("2030-01-01t09:00:00z", "2030-01-01T09:00:00Z"),
        ("2030-01-01T09:00:00-00:00", "2030-01-01T09:00:00Z"),
        ("2030-01-01T00:30:00+23:59", "2029-12-31T00:31:00Z"),
        ("2030-01-01T09:00:00.1234569Z", "2030-01-01T09:00:00.123456Z"),
        ("2030-01-01T09:00:00.5Z", "2030-01-01T09:00:00.500000Z"),
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00Z"),
        ("2016-12-31T15:59:60-08:00", "2017-01-01T00:00:00Z"),
        ("2000-02-29T00:00:00Z", "2000-02-29T00:00:00Z"),
    ],
)
def test_forms_of_one_instant(text: str, same: str) -> None:
    assert read_any(text) == read_utc(same)


@pytest.mark.parametrize("offset", ["+24:00", "-23:60", "+0100", "+1:00", "", "+00:00Z"])
def test_an_offset_that_is_none(offset: str) -> None:
    assert read_any(f"2030-01-01T09:00:00{offset}") is None


@pytest.mark.parametrize(
    "text",
    [
        "2030-01-01T09:00:00+00:00",
        "2030-01-01t09:00:00Z",
        "2030-01-01T09:00:00z",
        "2030-01-01T09:00:00.1234567Z",
        "2016-12-31T23:59:60Z",
        "2030-01-01T09:00:00Z\n",
        "2030-02-29T09:00:00Z",
        "",
    ],
)
def test_a_key_is_judged_by_one_form_only(text: str) -> None:
    assert read_utc(text) is None


digit = st.sampled_from("0123456789")
number = st.integers(0, 99).map(lambda value: f"{value:02}")
near = st.builds(
    "{}-{}-{}{}{}:{}:{}{}{}".format,
    st.sampled_from(["2030", "2000", "1900", "2024", "0000", "9999", "02030", "203"]),
    st.one_of(st.sampled_from(["01", "02", "04", "12"]), number),
    st.one_of(st.sampled_from(["01", "28", "29", "30", "31"]), number),
    st.sampled_from(["T", "T", "T", "t", " ", "_", ""]),
    st.one_of(st.sampled_from(["00", "23", "24", "15"]), number),
    st.one_of(st.sampled_from(["00", "59", "60"]), number),
    st.one_of(st.sampled_from(["00", "59", "60", "61"]), number),
    st.sampled_from(["", "", ".0", ".", ".5", ",5", ".123456789", ".1a"]),
    st.one_of(
        st.sampled_from(["Z", "z", "", "+00:00", "-00:00", "-08:00", "+24:00", "+0100", "Z\n"]),
        st.builds("{}{}:{}".format, st.sampled_from(["+", "-", "\N{MINUS SIGN}"]), number, number),
    ),
)


@given(st.one_of(near, near.flatmap(lambda text: st.permutations(text).map("".join)), st.text()))
def test_what_is_a_date_time_is_agreed_with_an_independent_reader(text: str) -> None:
    assert (read_any(text) is not None) == REFERENCE.is_valid(text)
