"""How a reply or an observation becomes records, and what an observer may return."""

from __future__ import annotations

from typing import Any

import pytest

from ascertain.core.codec import digest, encode
from ascertain.core.contract import SECOND, Consistency
from ascertain.core.evidence import (
    Absent,
    Declined,
    Reply,
    Seen,
    Source,
    Unreadable,
    add_reply,
    check_reading,
    compare,
)
from ascertain.core.records import (
    AttemptReturned,
    EffectObserved,
    PostconditionChecked,
    ReceiptRecorded,
    read_entry,
)
from tests.lineages import (
    ACTION,
    BANK,
    EVENTUAL,
    LAGGING,
    LEDGER,
    PARAMETERS,
    READ,
    T0,
    Lineage,
    but,
)


def added(line: Lineage, before: int) -> list[Any]:
    """The records added since, each read back from its stored bytes."""
    return [read_entry(entry.raw).record for entry in line.chain.entries[before:]]


# --- replies -----------------------------------------------------------------------------


def replied(reply: Reply) -> tuple[Lineage, list[Any]]:
    line = Lineage().release(at=10)
    add_reply(
        line.chain,
        release=line.last,
        intent=line.wanted,
        contract=LEDGER,
        reply=reply,
        at=T0 + 12 * SECOND,
    )
    return line, added(line, 3)


def test_a_success_is_a_return_an_effect_and_a_receipt() -> None:
    line, records = replied(
        Reply(transport="replied", named="returned", reference="EXT-1", version="v7", result=[1])
    )
    returned, effect, receipt = records
    digests = [entry.digest for entry in line.chain.entries]
    at = T0 + 12 * SECOND
    assert returned == AttemptReturned(
        action_id=ACTION, at=at, causes=(digests[2],), number=1, epoch=1,
        transport="replied", reply="returned",
    )  # fmt: skip
    assert effect == EffectObserved(
        action_id=ACTION, at=at, causes=(digests[3], digests[2]), state="committed",
        source="reply", reference="EXT-1", number=1, matches=True, version="v7",
    )  # fmt: skip
    assert receipt == ReceiptRecorded(
        action_id=ACTION, at=at, causes=(digests[4], digests[0]), evidence="reply",
        source="ledger", domain="provider", observed_at=at, claim="committed",
        reference="EXT-1", number=1, result=[1],
    )  # fmt: skip


def test_a_reply_reaches_as_far_as_the_contract_or_the_reply_says() -> None:
    _, records = replied(Reply(transport="replied", named="queued"))
    assert [record.state for record in records[1:2]] == ["accepted"]
    _, records = replied(Reply(transport="replied", named="queued", reaches="settled"))
    assert (records[1].state, records[2].claim) == ("settled", "settled")


@pytest.mark.parametrize("named", ["", "declined", "no_effect", "http:500"])
def test_what_is_no_success_is_only_a_return(named: str) -> None:
    _, records = replied(
        Reply(transport="raised", named=named, detail="why", closed=False, reference="EXT-1")
    )
    (returned,) = records
    assert (returned.reply, returned.detail, returned.closed) == (named, "why", False)


# --- readings ----------------------------------------------------------------------------


def looked(*found: Any, source: Source = READ) -> tuple[Lineage, list[Any]]:
    line = Lineage().release(at=10)
    line.look(*found, at=20, source=source)
    return line, added(line, 3)


def test_what_was_seen_is_an_effect_a_receipt_and_a_check() -> None:
    line, records = looked(
        Seen("EXT-1", fields=PARAMETERS, version="v7", action_id=ACTION, result={"a": 1})
    )
    effect, receipt, check = records
    digests = [entry.digest for entry in line.chain.entries]
    at = T0 + 20 * SECOND + SECOND // 2
    assert effect == EffectObserved(
        action_id=ACTION, at=at, causes=(digests[0],), state="committed",
        source="ledger-index", reference="EXT-1", matches=True, version="v7",
    )  # fmt: skip
    assert receipt == ReceiptRecorded(
        action_id=ACTION, at=at, causes=(digests[3], digests[0]), evidence="readback",
        source="ledger-index", domain="provider", observed_at=at, consistency="linearizable",
        as_of=T0 + 20 * SECOND, claim="committed", about=ACTION, reference="EXT-1",
        digest=digest(encode(PARAMETERS)), result={"a": 1},
    )  # fmt: skip
    assert check == PostconditionChecked(
        action_id=ACTION, at=at, causes=(digests[3], digests[0]),
        predicate="effect-attributed", version="1", holds=True, reference="EXT-1",
    )  # fmt: skip


def test_what_was_undone_is_a_later_effect() -> None:
    line, records = looked(Seen("EXT-1", fields=None, reversed_by="REV-1", reaches="settled"))
    effect, undone, receipt, check = records
    assert (effect.state, effect.matches) == ("settled", None)
    assert (undone.state, undone.undone_by, undone.reference) == ("reversed", "REV-1", "EXT-1")
    assert undone.causes == (line.chain.entries[3].digest,)
    assert receipt.digest == digest(encode({}))
    assert check.holds is None


def test_a_refusal_that_was_seen() -> None:
    _, records = looked(Declined("over limit", "REF-1"), source=BANK)
    effect, receipt = records
    assert (effect.state, effect.reference, effect.detail) == ("rejected", "REF-1", "over limit")
    assert (receipt.evidence, receipt.claim) == ("readback", "rejected")
    assert (receipt.domain, receipt.detail) == ("bank", "over limit")
    assert receipt.consistency == "linearizable"


@pytest.mark.parametrize(
    ("source", "as_of", "kept"),
    [
        (READ, None, 20),
        (READ, 15, 15),
        # A read vouches for the time at which it began, never for a later one.
        (READ, 25, 20),
        (LAGGING, None, 20),
        (EVENTUAL, None, None),
        (EVENTUAL, 15, None),
    ],
)
def test_what_an_empty_read_vouches_for(
    source: Source, as_of: int | None, kept: int | None
) -> None:
    given = None if as_of is None else T0 + as_of * SECOND
    _, (receipt,) = looked(Absent(given), source=source)
    assert receipt.evidence == "absence"
    assert receipt.as_of == (None if kept is None else T0 + kept * SECOND)
    assert (receipt.claim, receipt.detail) == (None, None)
    assert receipt.source == source.name
    assert receipt.consistency == source.consistency.value


def test_what_could_not_be_read() -> None:
    _, (receipt,) = looked(Unreadable("503 \ud800"))
    assert (receipt.evidence, receipt.as_of) == ("unreadable", None)
    assert receipt.detail == "503 ?"


def test_an_eventual_readback_of_an_effect_vouches_for_no_time() -> None:
    _, records = looked(Seen("EXT-1"), source=EVENTUAL)
    assert records[1].as_of is None


def test_one_look_may_return_several() -> None:
    _, records = looked(Seen("EXT-1"), Seen("EXT-2"), Unreadable("page 3"))
    assert len(records) == 7


def test_the_postcondition_of_the_contract_says_what_is_compared() -> None:
    line = Lineage(but(postcondition__fields=("amount",), postcondition__version="2"))
    line.release().look(Seen("EXT-1", fields={"amount": 125_000}))
    check = line.chain.entries[-1].record
    assert (check.holds, check.version) == (True, "2")


# --- comparing ---------------------------------------------------------------------------

FIELDS = ("payee", "amount")
COMPARED: dict[str, tuple[Seen, bool | None]] = {
    "all": (Seen("E", fields=PARAMETERS), True),
    "more than all": (Seen("E", fields=PARAMETERS | {"fee": 3}), True),
    "nothing shown": (Seen("E"), None),
    "nothing of ours shown": (Seen("E", fields={"fee": 3}), None),
    "some": (Seen("E", fields={"amount": 125_000}), None),
    "another amount": (Seen("E", fields=PARAMETERS | {"amount": 1}), False),
    "another amount, payee not shown": (Seen("E", fields={"amount": 1}), False),
    "an amount as text": (Seen("E", fields=PARAMETERS | {"amount": "125000"}), False),
    "the fingerprint": (Seen("E", fingerprint="f1"), True),
    "another fingerprint": (Seen("E", fingerprint="f2", fields=PARAMETERS), False),
    "our action": (Seen("E", fields=PARAMETERS, action_id=ACTION), True),
    "another action": (Seen("E", fields=PARAMETERS, action_id="pay-2"), False),
    "another action, same fingerprint": (
        Seen("E", fingerprint="f1", action_id="pay-2"),
        False,
    ),
}


@pytest.mark.parametrize("name", COMPARED)
def test_compared_with_the_intent(name: str) -> None:
    seen, matches = COMPARED[name]
    assert compare(Lineage().wanted.record, seen, FIELDS) is matches


def test_true_is_not_one() -> None:
    line = Lineage(intent=False, decided=None)
    line.intent(parameters={"count": 1})
    assert compare(line.wanted.record, Seen("E", fields={"count": True}), ("count",)) is False
    assert compare(line.wanted.record, Seen("E", fields={"count": 1}), ("count",)) is True
    assert compare(line.wanted.record, Seen("E", fields={"other": 1}), ("other",)) is False


def test_where_nothing_is_to_be_compared() -> None:
    assert compare(Lineage().wanted.record, Seen("E", fields={}), ()) is True
    assert compare(Lineage().wanted.record, Seen("E"), ()) is None


# --- what an observer returns ------------------------------------------------------------


@pytest.mark.parametrize(
    "reading",
    [
        Seen("EXT-1"),
        Seen(None, fields=PARAMETERS, reaches="accepted"),
        Declined("no"),
        Absent(),
        Absent(T0),
        Unreadable("503"),
    ],
)
def test_readings_are_taken_as_they_are(reading: Any) -> None:
    assert check_reading(reading) is reading


@pytest.mark.parametrize(
    ("returned", "words"),
    [
        (None, "returned NoneType"),
        ({"id": 1}, "returned dict"),
        (True, "returned bool"),
        (Seen("EXT-1", reaches="paid"), "reaches 'paid'"),
        (Seen(17), "cannot be kept"),  # type: ignore[arg-type]
        (Seen("EXT-1", fields={"amount": 1.5}), "fields"),
        (Seen("EXT-1", fields={"amount": 2**60}), "cannot be kept"),
        (Seen("EXT-1", fields=[1]), "cannot be kept"),  # type: ignore[arg-type]
        (Seen("EXT-1", result=object()), "cannot be kept"),
        (Seen("\ud800"), "cannot be kept"),
        (Seen("EXT-1", version=3), "cannot be kept"),  # type: ignore[arg-type]
        (Absent("now"), "cannot be kept"),  # type: ignore[arg-type]
        (Declined(None), "cannot be kept"),  # type: ignore[arg-type]
        (Unreadable("\ud800"), "cannot be kept"),
    ],
)
def test_what_no_record_can_hold_proves_nothing(returned: Any, words: str) -> None:
    """Evidence that a record could not hold, or not be read from it, must not stop recovery."""
    checked = check_reading(returned)
    assert isinstance(checked, Unreadable)
    assert words in checked.why
    _, (receipt,) = looked(checked)
    assert receipt.evidence == "unreadable"


def test_consistency_words() -> None:
    assert [item.value for item in Consistency] == ["linearizable", "bounded", "eventual"]
