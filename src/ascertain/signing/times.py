"""Instants of RFC 3339 as whole microseconds since 1970-01-01T00:00:00Z. No clock is read here.

Two readers, on purpose. :func:`read_any` takes whatever RFC 3339 section 5.6 calls a ``date-time``
(that is what the certificate schema allows). :func:`read_utc` takes only the one form that this
project writes, with ``Z`` and at most microseconds, for the instants that a key is judged by.
"""

from __future__ import annotations

import re
from typing import Final

from ascertain.errors import InputRefused

_DATE_TIME: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)
_UTC: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-5][0-9](?:\.[0-9]{1,6})?Z"
)
_SECOND_US: Final = 1_000_000
_DAY_US: Final = 86_400 * _SECOND_US
FIRST_US: Final = -719_528 * _DAY_US  # 0000-01-01T00:00:00Z
END_US: Final = 2_932_897 * _DAY_US  # 10000-01-01T00:00:00Z, the first instant without a form


def _days(year: int, month: int, day: int) -> int:
    """Days from 1970-01-01 to a date of the proleptic Gregorian calendar."""
    shifted = year - (month <= 2)
    era, of_era = divmod(shifted, 400)
    of_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


def _date(days: int) -> tuple[int, int, int]:
    """The inverse of :func:`_days`."""
    era, of_era_day = divmod(days + 719_468, 146_097)
    of_era = (
        of_era_day - of_era_day // 1_460 + of_era_day // 36_524 - of_era_day // 146_096
    ) // 365
    of_year = of_era_day - (365 * of_era + of_era // 4 - of_era // 100)
    shifted_month = (5 * of_year + 2) // 153
    month = (shifted_month + 2) % 12 + 1
    year = of_era + era * 400 + (month <= 2)
    return year, month, of_year - (153 * shifted_month + 2) // 5 + 1


def _month_length(year: int, month: int) -> int:
    if month == 2:
        return 29 if year % 4 == 0 and (year % 100 != 0 or year % 400 == 0) else 28
    return 30 if month in (4, 6, 9, 11) else 31


def read_any(text: str) -> int | None:
    """The instant of an RFC 3339 ``date-time``, or None where ``text`` is none.

    Digits beyond the microsecond are cut off. A leap second (``:60``) is taken only as the last
    second of a UTC day, and counts as the first instant of the next day. Source: RFC 3339 5.6, 5.7.
    """
    match = _DATE_TIME.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(match[index]) for index in range(1, 7))
    if not 1 <= month <= 12 or not 1 <= day <= _month_length(year, month):
        return None
    if hour > 23 or minute > 59 or second > 60:
        return None
    offset = 0
    if match[8] is not None:
        offset_hour, offset_minute = int(match[9]), int(match[10])
        if offset_hour > 23 or offset_minute > 59:
            return None
        offset = (offset_hour * 60 + offset_minute) * (1 if match[8] == "+" else -1)
    minutes = hour * 60 + minute - offset
    if second == 60 and minutes % 1_440 != 1_439:
        return None
    fraction = int(f"{match[7] or '':0<6.6}")
    return _days(year, month, day) * _DAY_US + (minutes * 60 + second) * _SECOND_US + fraction


def read_utc(text: str) -> int | None:
    """The instant of ``YYYY-MM-DDTHH:MM:SS[.ffffff]Z``, or None where ``text`` has another form."""
    return read_any(text) if _UTC.fullmatch(text) else None


def write_utc(at_us: int) -> str:
    """An instant in the form that :func:`read_utc` takes; zero microseconds are left out.

    Raises :class:`InputRefused` outside the years 0000 to 9999.
    """
    if not FIRST_US <= at_us < END_US:
        raise InputRefused(f"{at_us} microseconds lie outside the years 0000 to 9999")
    days, of_day = divmod(at_us, _DAY_US)
    seconds, fraction = divmod(of_day, _SECOND_US)
    year, month, day = _date(days)
    clock = f"{seconds // 3_600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    tail = f".{fraction:06}" if fraction else ""
    return f"{year:04}-{month:02}-{day:02}T{clock}{tail}Z"
