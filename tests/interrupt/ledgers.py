"""`apply`: a posting in a database of one's own, killed anywhere, and what must hold after."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any, NamedTuple

import ascertain as a
from ascertain.core.cut import chain_violations
from ascertain.errors import RecoveryRefused
from tests.interrupt.forked import Point, Striker
from tests.interrupt.scene import word

START = 100
AMOUNT = 7

TERMS = a.Contract(
    name="posting",
    surface=(),
    key=a.Key(scope=a.Scope.APPLICATION),
    readback=a.Readback(
        by="marker",
        consistency=a.Consistency.LINEARIZABLE,
        keeps_records=True,
        retention=a.FOR_EVER,
    ),
    seal=a.Seal(reach="action", store="app"),
    in_flight=a.InFlight(after_release=0, after_close=0),
)


class Way(NamedTuple):
    """How `apply` is used. ``shared``: journal and effect are one file."""

    shared: bool
    library: str
    outer: bool

    def __str__(self) -> str:
        """As a test's name."""
        place = "shared" if self.shared else "separate"
        return f"{place}-{self.library}-{'outer' if self.outer else 'own'}"


WAYS = (
    Way(True, "sqlite3", False),
    Way(True, "sqlite3", True),
    Way(False, "sqlite3", False),
    Way(False, "sqlite3", True),
    Way(False, "sqlalchemy", False),
    Way(False, "sqlalchemy", True),
    Way(True, "sqlalchemy", False),
)


class Books:
    """One process with a journal, and an application's database with an account in it."""

    def __init__(
        self, place: Path, way: Way, point: Point | None = None, striker: Striker | None = None
    ) -> None:
        self.way = way
        self.path = place / ("journal.db" if way.shared else "app.db")
        self.striker = striker or Striker(point)
        if point is not None and point.kind == "sql":
            self.striker.follow_sql()
        self.journal = a.open(
            place / "journal.db", policy=a.limits({"amount": 1000}), seam=self.striker
        )
        self._tables()
        self.engine: Any = None
        if way.library == "sqlalchemy":
            import sqlalchemy

            self.engine = sqlalchemy.create_engine(f"sqlite:///{self.path}")
            store = a.sqlalchemy_marker(self.engine)
        else:
            store = a.sqlite_marker(str(self.path))
        self.mood = "write"

        @self.journal.local_action("post", contract=TERMS, store=store)
        def post(call: Any, *, amount: int) -> Any:
            return self._post(call, amount)

        self.post = post

    def _tables(self) -> None:
        conn = sqlite3.connect(self.path, timeout=30, isolation_level=None)
        conn.execute("CREATE TABLE IF NOT EXISTS account (id INTEGER PRIMARY KEY, balance INTEGER)")
        conn.execute("CREATE TABLE IF NOT EXISTS posting (action_id TEXT, amount INTEGER)")
        conn.execute("CREATE TABLE IF NOT EXISTS note (action_id TEXT)")
        conn.execute("INSERT OR IGNORE INTO account VALUES (1, ?)", (START,))
        conn.close()

    def run(self, conn: Any, sql: str, **values: Any) -> None:
        """One statement, by whichever library."""
        if self.way.library == "sqlalchemy":
            from sqlalchemy import text

            conn.execute(text(sql), values)
        else:
            conn.execute(sql, values)

    def _post(self, call: Any, amount: int) -> Any:
        conn = call.connection
        self.run(conn, "UPDATE account SET balance = balance - :n WHERE id = 1", n=amount)
        if self.mood == "raise":
            raise ValueError("in the middle")
        if self.mood == "refuse":
            raise a.Refusal("overdrawn")
        if self.mood == "nothing":
            raise a.NoEffect("busy")
        self.run(
            conn,
            "INSERT INTO posting (action_id, amount) VALUES (:i, :n)",
            i=call.action_id,
            n=amount,
        )
        return {"id": f"posting-{call.action_id}"}

    def apply(self, action_id: str, *, commit: bool = True) -> Any:
        """The posting, in its own transaction or in one of the caller's."""
        if self.way.library == "sqlalchemy":
            return self._apply_session(action_id, commit=commit)
        conn = sqlite3.connect(self.path, timeout=30, isolation_level=None)
        try:
            if not self.way.outer:
                return self.post.apply(action_id, connection=conn, amount=AMOUNT)
            conn.execute("BEGIN IMMEDIATE")
            self.run(conn, "INSERT INTO note (action_id) VALUES (:i)", i=action_id)
            outcome = self.post.apply(action_id, connection=conn, amount=AMOUNT)
            conn.execute("COMMIT" if commit else "ROLLBACK")
            return outcome
        finally:
            conn.close()

    def _apply_session(self, action_id: str, *, commit: bool) -> Any:
        from sqlalchemy.orm import Session

        with Session(self.engine) as session:
            if not self.way.outer:
                return self.post.apply(action_id, connection=session, amount=AMOUNT)
            session.begin()
            outcome = self.post.apply(action_id, connection=session, amount=AMOUNT)
            self.run(session, "INSERT INTO note (action_id) VALUES (:i)", i=action_id)
            if commit:
                session.commit()
            else:
                session.rollback()
            return outcome

    def rows(self, sql: str, *values: Any) -> list[tuple[Any, ...]]:
        """Read the application's database."""
        conn = sqlite3.connect(self.path, timeout=30)
        try:
            return conn.execute(sql, values).fetchall()
        finally:
            conn.close()

    def state(self, action_id: str) -> dict[str, Any]:
        """What stands in the application's database, and what the journal says of it."""
        (balance,) = self.rows("SELECT balance FROM account")[0]
        (postings,) = self.rows("SELECT count(*) FROM posting")[0]
        (mine,) = self.rows("SELECT count(*) FROM posting WHERE action_id = ?", action_id)[0]
        (notes,) = self.rows("SELECT count(*) FROM note WHERE action_id = ?", action_id)[0]
        fence = self.rows("SELECT state FROM ascertain_fence WHERE action_id = ?", action_id)
        assert balance == START - AMOUNT * postings, "the balance moved by something else"
        assert mine <= 1
        assert [state for (state,) in fence] in ([], ["applied"], ["sealed"], ["rejected"])
        assert (fence == [("applied",)]) == (mine == 1), "fence and effect are not there together"
        said = self.journal.outcome(action_id)
        if mine:
            assert word(said) not in ("NotApplied", "Rejected", "nothing"), said
        else:
            assert word(said) != "Applied", said
        row = self.journal.journal.action(action_id)
        if row is not None:
            assert chain_violations(self.journal.journal.entries(action_id)) == []
        return {"postings": mine, "notes": notes, "outcome": word(said), "open": row and row.open}


def act(place: Path, way: Way, action_id: str, point: Point | None) -> dict[str, Any]:
    """The posting, to be killed at ``point``."""
    books = Books(place, way, point)
    with books.striker.watching():
        outcome = books.apply(action_id)
    if word(outcome) == "Applied":
        with (place / "acknowledged").open("a") as file:
            file.write(f"{action_id}\n")
    if point is None:
        books.journal.close()
    striker = books.striker
    return {"outcome": word(outcome), "counts": striker.counts, "ops": striker.ops}


def mend(place: Path, way: Way, action_id: str, point: Point | None) -> dict[str, Any]:
    """One recovery, to be killed at ``point``."""
    books = Books(place, way, point)
    books.state(action_id)
    striker = books.striker
    found = None
    try:
        with striker.watching():
            found = books.journal.recover(action_id)
    except RecoveryRefused:
        pass
    said = books.state(action_id)
    decision = found.decision if found is not None else ""
    return said | {"decision": decision, "counts": striker.counts, "ops": striker.ops}


def finish(place: Path, way: Way, action_id: str, *, mended: bool = False) -> dict[str, Any]:
    """Recover, then call again as a client would; check the books at each step.

    ``mended``: a recovery may have posted it already, without the caller's own rows.
    """
    books = Books(place, way)
    first = books.state(action_id)
    if way.outer and not mended:
        assert first["notes"] == first["postings"], "the caller's rows and the effect came apart"
    for _ in range(4):
        try:
            found = books.journal.recover(action_id)
        except RecoveryRefused:
            break
        assert not found.busy
        if found.decision in ("adopt", "quarantine", "reauthorise"):
            break
    known = books.state(action_id)
    acks = place / "acknowledged"
    if acks.exists() and action_id in acks.read_text().split():
        assert first["postings"] == 1, "what was acknowledged is lost"
    again = books.apply(action_id)
    if way.outer and word(again) == "Pending":
        again = books.post.perform(action_id, amount=AMOUNT)
        assert word(again) == "Applied", again
        assert books.journal.recover(action_id).decision == "adopt"
    end = books.state(action_id)
    assert end["postings"] == 1, (known, word(again), end)
    assert end["outcome"] == "Applied", end
    assert end["open"] is False, end
    return end


def finish_all(place: Path, way: Way, names: list[str], mended: bool = False) -> int:
    """`finish` for each."""
    for name in names:
        finish(place, way, name, mended=mended)
    return len(names)
