"""`status`, `actions`, `show` and `explain`: what they say, to people and to programs."""

from __future__ import annotations

import itertools
import re
from datetime import datetime
from typing import Any

import pytest

from ascertain.core.decision import ROWS
from ascertain.core.facts import Finding
from ascertain.core.outcome import OUTCOME_OF
from tests.acceptance.command import Desk

ALL = {"fine", "declined", "busy", "denied", "silent", "lost", "letter", "cash", "after"}
STREAMS = ["intent", "authority", "state", "effect", "receipt", "recovery"]


def fits(text: str) -> None:
    """80 columns, no blank at the end of a line, and nothing that a terminal would obey."""
    for line in text.splitlines():
        assert len(line) <= 80, line
        assert line == line.rstrip(), repr(line)
        assert line.isprintable(), repr(line)


def is_instant(text: str | None) -> bool:
    return text is not None and text.endswith("Z") and datetime.fromisoformat(text) is not None


# --- status ---------------------------------------------------------------------------------


def test_status_names_what_needs_a_person_first_then_what_is_open_then_counts(shown: Desk) -> None:
    ran = shown("status")
    assert ran.code == 1
    assert not ran.err
    fits(ran.out)
    lines = ran.out.splitlines()
    assert lines[0] == "1 needs a person"
    assert lines[2].startswith("  letter  mail, ")
    assert lines[3] == "    we cannot know yet (UNKNOWN)"
    assert "next: ascertain attest letter --claim CLAIM" in ran.out
    opened = lines.index("3 open, looked at again:")
    assert {line.split()[0] for line in lines[opened + 1 : opened + 4]} == {
        "busy",
        "silent",
        "lost",
    }
    assert "next: ascertain recover --app MODULE:OBJECT" in ran.out
    assert lines[-1] == ("9 actions: 2 happened, 1 refused, 3 did not happen, 3 unknown")


def test_status_for_programs(shown: Desk) -> None:
    ran = shown("status", "--json")
    said = ran.document
    assert ran.code == 1
    assert set(said) == {
        "journal", "as_of", "complete", "needs_person", "more_needs_person", "open", "more_open",
        "due", "counts",
    }  # fmt: skip
    (letter,) = said["needs_person"]
    assert letter["action_id"] == "letter"
    assert letter["row"] == "unknown/no-safe-replay"
    assert letter["decision"] == "quarantine"
    assert letter["needs_person"] is True
    assert letter["next_commands"][0].startswith("ascertain attest letter ")
    assert is_instant(letter["created_at"])
    assert {row["action_id"] for row in said["open"]} == {"busy", "silent", "lost"}
    assert all(is_instant(row["next_at"]) and row["open"] for row in said["open"])
    assert said["counts"] == {
        "applied_final": 2, "rejected": 1, "not_applied": 3, "unknown": 3, "open": 3,
    }  # fmt: skip
    assert said["complete"] is True


def test_the_oldest_that_needs_a_person_comes_first(empty: Desk) -> None:
    for number in range(4):
        empty.program("mail_one", f"letter-{number}")
    said = empty.json("status", "--limit", "3")
    assert [row["action_id"] for row in said["needs_person"]] == [
        "letter-0", "letter-1", "letter-2",
    ]  # fmt: skip
    assert said["more_needs_person"] is True
    ran = empty("status", "--limit", "3")
    assert ran.out.startswith("3 or more need a person")
    assert "letter-3" not in ran.out


def test_nothing_to_do_is_fine(empty: Desk) -> None:
    empty.program("pay_one", "one", "Northwind")
    ran = empty("status")
    assert ran.code == 0
    assert ran.out.splitlines() == [
        "Nothing needs a person.", "", "Nothing is open.", "", "1 action: 1 happened",
    ]  # fmt: skip


def test_a_command_to_type_repeats_what_was_typed_and_is_quoted(empty: Desk) -> None:
    empty.program("mail_one", "it's a letter")
    said = empty.json("status", "--journal", "shop.db", journal=None)
    assert said["needs_person"][0]["next_commands"] == [
        """ascertain attest 'it'"'"'s a letter' --claim CLAIM --operator NAME --reason WHY """
        "--authority GROUNDS --journal shop.db",
        """ascertain recover 'it'"'"'s a letter' --app MODULE:OBJECT --journal shop.db""",
    ]
    said = empty.json("status", ASCERTAIN_APP="shop:journal")
    assert said["needs_person"][0]["next_commands"][1] == (
        """ascertain recover 'it'"'"'s a letter'"""
    )


# --- actions --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], ALL),
        (["--outcome", "UNKNOWN"], {"silent", "lost", "letter"}),
        (["--outcome", "verified_applied"], {"fine", "cash"}),
        (["--outcome", "applied"], {"fine", "cash"}),
        (["--outcome", "rejected", "--outcome", "unknown"], {"declined", "silent", "lost",
                                                            "letter"}),
        (["--outcome", "applied-final"], {"fine", "cash"}),
        (["--outcome", "CONFLICT"], set()),
        (["--type", "mail"], {"letter"}),
        (["--type", "nothing"], set()),
        (["--open"], {"busy", "silent", "lost"}),
        (["--closed", "--outcome", "NOT_APPLIED"], {"denied", "after"}),
        (["--older-than", "1h"], set()),
        (["--older-than", "0s"], ALL),
    ],
)  # fmt: skip
def test_actions_are_filtered(shown: Desk, words: list[str], expected: set[str]) -> None:
    said = shown.json("actions", *words)
    assert {row["action_id"] for row in said["actions"]} == expected
    assert said["more"] is False
    ran = shown("actions", *words)
    assert ran.code == 0
    fits(ran.out)
    assert ran.out.startswith("No action matches.") == (not expected)
    for name in expected:
        assert re.search(rf"^{name}\b", ran.out, re.MULTILINE)


def test_actions_come_newest_first_and_no_more_than_asked_for(shown: Desk) -> None:
    said = shown.json("actions", "--limit", "2")
    assert [row["action_id"] for row in said["actions"]] == ["after", "cash"]
    assert said["more"] is True
    assert "There are more: --limit shows them." in shown("actions", "--limit", "2").out
    row = said["actions"][0]
    assert set(row) == {
        "action_id", "lineage", "type", "outcome", "finding", "decision", "row", "reason",
        "needs_person", "open", "next_at", "due", "driven_by", "attempts", "compensation",
        "created_at", "changed_at",
    }  # fmt: skip


@pytest.mark.parametrize("age", ["", "2", "2 h", "-1h", "2y", "1.5h", "٣h"])
def test_an_age_is_a_number_and_a_unit(shown: Desk, age: str) -> None:
    ran = shown("actions", "--older-than", age)
    assert ran.code == 2
    assert "is not a duration" in ran.first
    assert "90s, 15m, 2h, 3d" in ran.err


def test_an_outcome_is_one_that_there_is(shown: Desk) -> None:
    ran = shown("actions", "--outcome", "maybe")
    assert ran.code == 2
    assert ran.first == "ascertain: 'maybe' is not an outcome"
    assert "VERIFIED_APPLIED" in ran.err


# --- show -----------------------------------------------------------------------------------


def cells(text: str) -> tuple[list[str], list[list[str]]]:
    """The headings of the timeline, and its rows cut where the headings begin."""
    lines = text.splitlines()
    at = next(n for n, line in enumerate(lines) if line.split()[:2] == ["#", "time"])
    heading = lines[at]
    names = heading.split()
    starts = [heading.index(f" {name}") + 1 for name in names[1:]]
    assert set(lines[at + 1]) == {"─"}
    rows = []
    for line in lines[at + 2 :]:
        if not line:
            break
        bounds = [0, *starts, len(line) + 1]
        rows.append([line[begin:end].strip() for begin, end in itertools.pairwise(bounds)])
    return names, rows


@pytest.mark.parametrize("action_id", sorted(ALL))
def test_show_lays_the_streams_side_by_side_in_80_columns(shown: Desk, action_id: str) -> None:
    ran = shown("show", action_id)
    assert ran.code == 0
    assert not ran.err
    fits(ran.out)
    said = shown.json("show", action_id)
    names, rows = cells(ran.out)
    assert names == ["#", "time", *STREAMS]
    firsts = [row for row in rows if row[0]]
    assert [int(row[0]) for row in firsts] == [item["position"] for item in said["timeline"]]
    for row, item in zip(firsts, said["timeline"], strict=True):
        assert re.fullmatch(r"\d\d:\d\d:\d\d", row[1])
        written = [name for name, text in zip(STREAMS, row[2:], strict=True) if text]
        assert written == [item["stream"]], row
    body = ran.out
    for heading in ("cut ", "outcome ", "decision "):
        assert re.search(rf"^{heading}", body, re.MULTILINE)
    assert said["outcome"]["word"] in body
    assert said["decision"]["row"] in " ".join(body.split()) or action_id in ("denied", "after")


def test_show_for_programs(shown: Desk) -> None:
    said = shown.json("show", "fine")
    assert set(said) == {
        "action_id", "lineage", "type", "as_of", "created_at", "intent", "timeline", "cut",
        "violations", "outcome", "decision", "driven_by", "epoch", "attempts", "compensation",
        "lineage_actions", "certificates", "limitations",
    }  # fmt: skip
    assert said["intent"]["parameters"] == {"payee": "Northwind", "amount": 12_500}
    assert said["intent"]["version"] == 3
    assert said["cut"]["closed"] is True
    assert said["cut"]["chain"] == []
    assert set(said["cut"]["streams"]) == set(STREAMS[:5])
    assert said["outcome"]["finding"] == "applied_final"
    assert said["outcome"]["effects"] == [
        {"reference": "payment-1", "level": "committed", "matches": True, "reversed": False,
         "domains": ["provider"]}
    ]  # fmt: skip
    assert said["decision"]["row"] == "applied/final"
    assert said["decision"]["recorded"] is False
    first = said["timeline"][0]
    assert first["kind"] == "IntentRecorded"
    assert first["position"] == 1
    assert is_instant(first["at"])
    assert said["timeline"][1]["causes"] == [first["digest"]]
    decided = next(item for item in said["timeline"] if item["kind"] == "AuthorityDecided")
    assert is_instant(decided["record"]["valid_until"])


def test_show_gives_the_absence_argument_or_what_is_missing(shown: Desk) -> None:
    assert "absence, never released: it was never released" in shown("show", "denied").out
    assert "absence, told: " in shown("show", "busy").out
    assert "missing: a readback by action_id" in shown("show", "silent").out
    said = shown.json("show", "denied")
    assert said["outcome"]["absence"]["kind"] == "never released"
    assert said["decision"]["refused_here"] == "denied: amount above the limit"
    assert shown.json("show", "silent")["outcome"]["missing"]


def test_show_at_other_widths(shown: Desk) -> None:
    wide = shown("show", "lost", COLUMNS="160").out
    assert "attempt 1: no reply in time" in wide
    narrow = shown("show", "lost", COLUMNS="60").out
    assert max(len(line) for line in wide.splitlines()) > 80
    assert narrow != wide


# --- explain --------------------------------------------------------------------------------


@pytest.mark.parametrize("action_id", sorted(ALL))
def test_explain_says_it_in_sentences(shown: Desk, action_id: str) -> None:
    ran = shown("explain", action_id)
    assert ran.code == 0
    fits(ran.out)
    said = shown.json("explain", action_id)
    headings = [line for line in ran.out.splitlines()[1:] if line and not line.startswith(" ")]
    assert headings == list(said["sentences"])
    assert headings[:4] == [
        "What was wanted", "What was done", "What is known", "What comes next",
    ]  # fmt: skip
    for heading, lines in said["sentences"].items():
        if heading != "To type":
            for line in lines:
                assert line[0].isupper() or line[0].isdigit() or heading == "What was wanted", line
                assert line.endswith("."), line
    flat = " ".join(ran.out.split())
    for lines in said["sentences"].values():
        for line in lines:
            assert " ".join(line.split()) in flat


@pytest.mark.parametrize(
    ("action_id", "sentence"),
    [
        ("fine", "It happened (VERIFIED_APPLIED)."),
        ("declined", "It was refused for good (VERIFIED_REJECTED)."),
        ("denied", "It did not happen (NOT_APPLIED)."),
        ("letter", "We cannot know yet (UNKNOWN)."),
        ("silent", "We cannot know yet: look again now (UNKNOWN)."),
    ],
)
def test_plain_words_come_first_and_the_technical_word_second(
    shown: Desk, action_id: str, sentence: str
) -> None:
    assert shown.json("explain", action_id)["sentences"]["What is known"][0] == sentence


def test_times_are_local_with_their_zone_for_people_and_utc_for_programs(shown: Desk) -> None:
    for zone, name in (("Europe/Berlin", r"CES?T"), ("Japan", "JST")):
        said = shown("explain", "fine", TZ=zone).out
        assert re.search(rf"asked for \d\d:\d\d:\d\d\s+{name}\.", said)
    assert is_instant(shown.json("show", "fine", TZ="Japan")["as_of"])


def test_when_it_is_looked_at_again(empty: Desk) -> None:
    empty.program("mail_later", "slow")
    said = empty.json("explain", "slow")
    assert re.fullmatch(
        r"We cannot know yet: look again at (\w+ \w+ \d+ )?\d\d:\d\d CES?T \(UNKNOWN\)\.",
        said["sentences"]["What is known"][0],
    )
    assert re.search(
        r"slow +unknown +at (\w+ \w+ \d+ )?\d\d:\d\d CES?T \(in (59|60) min\)", empty("status").out
    )


def test_every_row_and_finding_has_words() -> None:
    from ascertain.cli.account import commands_for
    from ascertain.cli.wording import COUNT_WORDS, DECISION_WORDS, Place, plain_words

    for row in ROWS.values():
        assert DECISION_WORDS[row.decision]
        for finding in Finding:
            assert plain_words(finding, row.name)
            for line in commands_for("a", finding, row, Place()):
                assert line.startswith("ascertain ")
    assert set(COUNT_WORDS) == {finding.value for finding in Finding}
    assert set(OUTCOME_OF) == set(Finding)


# --- how it is written ----------------------------------------------------------------------


def test_data_is_shown_as_data(empty: Desk) -> None:
    """No markup, no control characters, whatever was recorded."""
    empty.program("pay_one", "[red]x[/red]", "silent", "[bold]\x1b[31mno")
    for command in ("show", "explain"):
        ran = empty(command, "[red]x[/red]")
        assert "[red]x[/red]" in ran.out
        assert "\x1b" not in ran.out
    assert "[red]x[/red]" in empty("status").out
    assert "[red]x[/red]" in empty("actions").out
    kept: dict[str, Any] = empty.json("show", "[red]x[/red]")
    assert kept["intent"]["subject"] == "[bold]\x1b[31mno"


def test_a_narrow_encoding_is_no_error(empty: Desk) -> None:
    empty.program("pay_one", "ünïcode-🦜", "silent")
    ran = empty("show", "ünïcode-🦜", PYTHONIOENCODING="ascii")
    assert ran.code == 0
    assert "\\xfcn" in ran.out
    said = empty.json("actions", PYTHONIOENCODING="ascii")
    assert said["actions"][0]["action_id"] == "ünïcode-🦜"
