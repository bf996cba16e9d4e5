"""Wrong options of a call are refused before anything is recorded or sent."""

from __future__ import annotations

import datetime
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ascertain
from ascertain import (
    FOR_EVER,
    Absent,
    Action,
    Applied,
    Ascertain,
    Consistency,
    Contract,
    InFlight,
    Intent,
    Need,
    NotApplied,
    Precondition,
    Readback,
    Refusal,
    Rejected,
    Seen,
    Unknown,
    contracts,
    limits,
    sqlite_marker,
)
from ascertain.errors import InputRefused, JournalUnavailable

CONTRACT = Contract(
    name="bank",
    surface=(),
    readback=Readback(
        by="action_id", consistency=Consistency.LINEARIZABLE, keeps_records=True, retention=FOR_EVER
    ),
    in_flight=InFlight(after_release=0, after_close=0),
)


class Shop:
    """A journal, its action, and the bank that it pays."""

    def __init__(self, folder: Path) -> None:
        self.bank: list[str] = []
        self.journal: Ascertain = ascertain.open(folder / "journal.db", policy=limits())
        self.error: Exception | None = None

        @self.journal.action("pay", contract=CONTRACT)
        def pay(call: Any, *, n: int) -> Any:
            self.bank.append(call.action_id)
            if self.error is not None:
                raise self.error
            return {"id": call.action_id}

        @pay.observer
        def find(question: Any) -> Any:
            if question.action_id in self.bank:
                return Seen(question.action_id, fields={"n": question.parameters["n"]})
            return Absent()

        self.pay: Action = pay


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    made = Shop(tmp_path)
    yield made
    made.journal.close()


WRONG: list[Any] = [5, 1.5, True, b"x", object(), [], {}, ""]
NO_TEXT = [*WRONG, None, "x" * 501, "\ud800"]
NO_TIME = ["x", 1.5, True, b"x", object(), -1, 2**53, datetime.datetime.now(datetime.UTC)]


def options() -> Iterator[tuple[str, dict[str, Any]]]:
    """Every option with values that no record could hold."""
    for field in ("resource", "predicate", "version"):
        for value in NO_TEXT:
            given = {"resource": "r", "predicate": "p", "version": "1", field: value}
            yield f"precondition.{field}", {"preconditions": [Precondition(**given)]}
    for field, values in (
        ("guard", [1, None, "yes"]),
        ("fresh_for", NO_TIME),
        ("observed_at", NO_TIME),
        ("observe", [1, "f"]),
    ):
        for value in values:
            given = {"resource": "r", "predicate": "p", "version": "1", field: value}
            yield f"precondition.{field}", {"preconditions": [Precondition(**given)]}
    for value in ("x", ["x"], [None], 5, Precondition("r", "p", "1")):
        yield "preconditions", {"preconditions": value}
    for value in NO_TIME:
        yield "deadline", {"deadline": value}
    for value in ("order-1", 5, {"a": 1}, [5], [None], [""], ["me"], ["\ud800"]):
        yield "needs", {"needs": value}
    yield "needs", {"needs": [Need(action_id="a", lineage=5)]}  # type: ignore[arg-type]
    yield "needs", {"needs": [Need(action_id="a", lineage="a", until="soon")]}
    for field in ("subject", "execution_id", "step_id", "purpose", "approver", "tolerance"):
        for value in NO_TEXT:
            if value is not None or field == "subject":
                yield f"intent.{field}", {"intent": Intent(**{field: value})}
    for value in (0, -1, 1.5, True, "1", None, 2**53):
        yield "intent.version", {"intent": Intent(version=value)}
    for value in (5, "x", [1], {"a": 1.5}, {1: 2}):
        yield "intent.constraints", {"intent": Intent(constraints=value)}  # type: ignore[arg-type]
    for value in ("x", 5, {}):
        yield "intent", {"intent": value}


@pytest.mark.parametrize("place", sorted({name for name, _ in options()}))
def test_nothing_is_recorded_or_sent_for_a_wrong_option(shop: Shop, place: str) -> None:
    for name, given in options():
        if name == place:
            with pytest.raises(InputRefused) as refused:
                shop.pay.perform("me", n=1, **given)
            assert refused.value.fix, given
    assert shop.bank == []
    assert shop.journal.outcome("me") is None
    assert isinstance(shop.pay.perform("me", n=1), Applied), "the id is still free"


def test_what_is_right_is_taken(shop: Shop) -> None:
    shop.pay.perform("first", n=1)
    outcome = shop.pay.perform(
        "second",
        n=2,
        needs=("first",),
        deadline=FOR_EVER,
        preconditions=[Precondition("r", "p", "1", fresh_for=60_000_000, guard=True)],
        intent=Intent(subject="s", version=3, constraints={"a": [1, "x"]}),
    )
    assert isinstance(outcome, Applied)


@pytest.mark.parametrize("url", [None, 5, b"x", "", "sqlite://", "mysql://x"])
def test_only_a_path_or_a_url_opens_a_journal(url: Any, tmp_path: Path) -> None:
    before = sorted(Path.cwd().iterdir())
    with pytest.raises(JournalUnavailable):
        ascertain.open(url, policy=limits())
    assert sorted(Path.cwd().iterdir()) == before


@pytest.mark.parametrize("word", [402, None, ["x"], b"x"])
def test_a_refusal_counts_whatever_its_word(shop: Shop, word: Any) -> None:
    shop.error = Refusal(word)
    assert isinstance(shop.pay.perform("p", n=1), Rejected)


def test_one_lineage_that_cannot_be_read_does_not_stop_the_rest(shop: Shop, tmp_path: Path) -> None:
    shop.error = TimeoutError("lost")
    for name in ("bad", "good"):
        assert isinstance(shop.pay.perform(name, n=1), Unknown)
    conn = sqlite3.connect(tmp_path / "journal.db")
    conn.execute("DROP TRIGGER record_kept_update")
    conn.execute(
        "UPDATE record SET body = CAST(replace(body, '\"n\":1', '\"n\":{') AS BLOB) "
        "WHERE lineage = (SELECT number FROM action WHERE action_id = 'bad')"
    )
    conn.execute("UPDATE action SET next_at = 0")
    conn.commit()
    conn.close()
    found = {item.action_id: item for item in shop.journal.recover_all()}
    assert found["bad"].refused
    assert isinstance(found["bad"].outcome, Unknown)
    assert isinstance(found["good"].outcome, Applied)


# --- apply: the connection and its transaction ----------------------------------------------


@pytest.fixture
def ledger(shop: Shop, tmp_path: Path) -> tuple[Action, sqlite3.Connection, Path]:
    path = tmp_path / "ledger.db"
    conn = sqlite3.connect(path, isolation_level=None)
    conn.execute("CREATE TABLE t (n INTEGER UNIQUE ON CONFLICT ROLLBACK)")

    @shop.journal.local_action(
        "write", contract=contracts.local("ledger"), store=sqlite_marker(str(path))
    )
    def write(call: Any, *, n: int, how: str = "plain") -> Any:
        call.connection.execute("INSERT INTO t VALUES (?)", (n,))
        if how in ("COMMIT", "ROLLBACK"):
            call.connection.execute(how)
        if how == "conflict":
            try:
                call.connection.execute("INSERT INTO t VALUES (?)", (n,))
            except sqlite3.IntegrityError:
                raise Refusal("taken") from None
        return {"n": n}

    return write, conn, path


def rows(path: Path) -> list[int]:
    """What counts: the rows of the effect, as another connection sees them."""
    conn = sqlite3.connect(path)
    found = [n for (n,) in conn.execute("SELECT n FROM t")]
    conn.close()
    return found


def test_apply_wants_a_connection_to_its_own_store(
    ledger: tuple[Action, sqlite3.Connection, Path], tmp_path: Path
) -> None:
    write, conn, path = ledger
    other = tmp_path / "other.db"
    sqlite_marker(str(other))
    closed = sqlite3.connect(path)
    closed.close()
    bare = sqlite3.connect(tmp_path / "bare.db")
    for wrong in (sqlite3.connect(other), bare, closed, object(), None):
        with pytest.raises(InputRefused, match="connection is to"):
            write.apply("w", connection=wrong, n=1)
    assert write.outcome("w") is None
    assert isinstance(write.apply("w", connection=conn, n=1), Applied)
    assert rows(path) == [1]


@pytest.mark.parametrize("how", ["ROLLBACK", "conflict"])
def test_a_function_that_takes_its_transaction_back_leaves_nothing(
    shop: Shop, ledger: tuple[Action, sqlite3.Connection, Path], how: str
) -> None:
    write, conn, path = ledger
    with pytest.raises(InputRefused, match="ended its own transaction"):
        write.apply("w", connection=conn, n=1, how=how)
    assert rows(path) == []
    assert conn.execute("SELECT count(*) FROM ascertain_outbox").fetchone() == (0,)
    found = shop.journal.recover("w", act=False)
    assert isinstance(found.outcome, NotApplied)
    assert not conn.in_transaction


def test_a_function_that_commits_by_itself_is_found_out(
    shop: Shop, ledger: tuple[Action, sqlite3.Connection, Path]
) -> None:
    write, conn, path = ledger
    with pytest.raises(InputRefused, match="ended its own transaction"):
        write.apply("w", connection=conn, n=1, how="COMMIT")
    assert isinstance(shop.journal.recover("w").outcome, Applied)
    assert rows(path) == [1], "the effect is there once, and is never called absent"
