"""What may be declared as an effect contract, and what is refused with a word on what to write."""

from __future__ import annotations

import msgspec
import pytest

from ascertain.core.contract import (
    DAY,
    FOR_EVER,
    SECOND,
    Consequence,
    Consistency,
    Contract,
    Evidence,
    InFlight,
    Key,
    Observation,
    Readback,
    Replies,
    Retention,
    Reversibility,
    Scope,
    Seal,
    Success,
    reply_refusal,
    validate,
)
from ascertain.errors import DeclarationRefused
from tests.lineages import KEYED, LEDGER, but

TIMEOUTS = (
    "timeout",
    "raised:builtins.TimeoutError",
    "raised:httpx.ReadTimeout",
    "raised:requests.exceptions.Timeout",
    "code:deadline_exceeded",
    "timed_out",
    "http:504_time-out",
)
LOST = (
    "raised:builtins.ConnectionError",
    "raised:builtins.ConnectionResetError",
    "raised:builtins.OSError",
    "raised:http.client.RemoteDisconnected",
    "raised:httpx.TransportError",
    "raised:stripe.APIConnectionError",
    "raised:requests.exceptions.RequestException",
    "Exception",
)
OPEN = ("http:500", "http:503", "http:5xx", "http:408", "http:409", "http:425")


@pytest.mark.parametrize("name", [*TIMEOUTS, *LOST, *OPEN])
@pytest.mark.parametrize("listed", ["success", "refusals", "no_effect"])
def test_what_leaves_open_what_happened_stands_in_no_list(name: str, listed: str) -> None:
    names = (Success(reply="returned"), Success(reply=name)) if listed == "success" else (name,)
    contract = but(replies=msgspec.structs.replace(Replies(), **{listed: names}))
    with pytest.raises(DeclarationRefused) as refused:
        validate(contract)
    assert repr(name) in str(refused.value)
    assert f"replies.{listed}" in str(refused.value)


@pytest.mark.parametrize(
    "name",
    [
        "declined", "http:402", "http:429", "http:404", "code:card_declined",
        "raised:builtins.ConnectionRefusedError", "raised:stripe.CardError", "returned",
        "raised:app.SeatTakenError",
    ],
)  # fmt: skip
def test_what_says_what_happened_may_be_listed(name: str) -> None:
    assert reply_refusal(name) is None


REFUSED: dict[str, tuple[Contract, str]] = {
    "surface not declared": (but(surface=None), "surface is not declared"),
    "one reply in two lists": (
        but(replies__no_effect=("declined",)),
        "stands in replies.refusals and in replies.no_effect",
    ),
    "no success": (but(replies__success=()), "replies.success is empty"),
    "a success reaches nothing known": (
        but(replies__success=(Success(reply="returned", reaches="paid"),)),
        "reaches 'paid'",
    ),
    "bounded without a lag": (
        but(readback__consistency=Consistency.BOUNDED),
        "bounded readback has no lag",
    ),
    "first result without a key": (
        but(key=Key(first_result=True, retention=DAY)),
        "first_result without a key scope",
    ),
    "first result without its retention": (
        but(KEYED, key__retention=None),
        "without the key's retention",
    ),
    "records kept too short": (
        but(retention=Retention(records=29 * DAY)),
        "longest replay path",
    ),
    "stored refusals without a key": (
        but(replies__refusals_stored=True),
        "refusals_stored without a key",
    ),
    "negative": (but(in_flight=InFlight(after_release=-1)), "in_flight.after_release is -1"),
    "negative skew": (but(skew=-1), "skew is -1"),
    "too long": (but(KEYED, key__retention=FOR_EVER + 1), "key.retention is"),
    "no attempts": (but(attempts=0), "a count is below one"),
    "no looks": (but(observation=Observation(looks=0)), "a count is below one"),
    "no witnesses": (but(evidence=Evidence(witnesses=0)), "a count is below one"),
    "governed": (but(governed="paid"), "governed is 'paid'"),
    "readback by": (but(readback__by="guess"), "readback.by is 'guess'"),
    "seal": (but(seal=Seal(reach="all", store="db")), "seal.reach is 'all'"),
    "late arrival": (but(retention__late_arrival="drop"), "retention.late_arrival is 'drop'"),
    "epoch seals are for later": (
        but(seal=Seal(reach="epoch", store="db")),
        "cannot be honoured yet",
    ),
    "archives are for later": (but(retention__late_arrival="archive"), "cannot be honoured yet"),
    "a seal without its store": (but(seal=Seal(reach="action")), "without its store"),
    "irreversible and blind": (
        Contract(name="mail", surface=(), reversibility=Reversibility.IRREVERSIBLE),
        "unknown for ever",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_a_word_on_what_to_write(name: str) -> None:
    contract, words = REFUSED[name]
    with pytest.raises(DeclarationRefused) as refused:
        validate(contract)
    assert words in str(refused.value)
    assert refused.value.fix


def test_every_problem_is_named_at_once() -> None:
    with pytest.raises(DeclarationRefused) as refused:
        validate(but(surface=None, attempts=0, governed="paid"))
    assert all(
        words in str(refused.value) for words in ("surface", "below one", "governed is 'paid'")
    )


IRREVERSIBLE = Contract(name="mail", surface=(), reversibility=Reversibility.IRREVERSIBLE)


@pytest.mark.parametrize(
    "contract",
    [
        LEDGER,
        KEYED,
        Contract(name="plain", surface=()),
        but(IRREVERSIBLE, key=Key(scope=Scope.PROVIDER)),
        but(IRREVERSIBLE, seal=Seal(reach="action", store="db")),
        but(IRREVERSIBLE, readback=Readback(by="marker")),
        but(IRREVERSIBLE, convergent=True),
        but(IRREVERSIBLE, permanent_unknown_accepted_by="the board: a lost digest is harmless"),
        but(readback__consistency=Consistency.BOUNDED, readback__lag=SECOND),
        but(retention=Retention(records=30 * DAY)),
        but(skew=0),
    ],
)
def test_may_be_declared(contract: Contract) -> None:
    assert validate(contract) is contract


def test_the_identity_of_a_contract_is_its_content() -> None:
    again = msgspec.json.decode(msgspec.json.encode(KEYED), type=Contract)
    assert again == KEYED
    assert again.digest == KEYED.digest
    assert but(KEYED, attempts=4).digest != KEYED.digest
    with pytest.raises(msgspec.ValidationError):
        msgspec.json.decode(b'{"name": "x", "atempts": 3}', type=Contract)


def test_witnesses_follow_from_consequence_unless_declared() -> None:
    assert but(consequence=Consequence.LOW).witnesses == 1
    assert but(consequence=Consequence.MEDIUM).witnesses == 1
    assert but(consequence=Consequence.HIGH).witnesses == 2
    assert but(consequence=Consequence.HIGH, evidence=Evidence(witnesses=1)).witnesses == 1


def test_the_first_name_that_is_listed_classifies_a_reply() -> None:
    assert LEDGER.classify(("code:x", "http:402", "returned")) == "http:402"
    assert LEDGER.classify(("http:429",)) == "http:429"
    assert LEDGER.classify(("http:200", "returned")) == "returned"
    assert LEDGER.classify(("http:500",)) == ""
    assert LEDGER.classify(()) == ""
    assert LEDGER.reaches == {"returned": "committed", "queued": "accepted"}
