"""`apply`: an effect inside a database of yours, fenced in its own transaction (DESIGN 4).

Fence, fingerprint, business mutation, stored result and outbox row commit together, on
the caller's connection. Move any of them outside and it is wrong: the tests kill the
process after every statement to show it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple

from ascertain.core.evidence import Reply
from ascertain.errors import InputRefused
from ascertain.observers.marker import (
    Duplicate,
    Handle,
    Marker,
    check_fence,
    finish_fence,
    read_fence,
    reference_of,
    write_fence,
)
from ascertain.ports import Ports, Steps
from ascertain.presented import Presented
from ascertain.reply import Done, NoEffect, Refusal, kept, names_of_error

SAVEPOINT = "ascertain_effect"


class Joined(NamedTuple):
    """A local release: its reply, or ``pending`` inside a transaction of the caller's.

    ``error``: what the user's function raised; it is raised again once it is recorded.
    ``existing``: the fence was won before, so that its row is the outcome.
    """

    reply: Reply | None
    pending: bool = False
    existing: bool = False
    error: BaseException | None = None


def marker_of(p: Presented) -> Marker:
    """The fence of a local action. Raises InputRefused where there is none."""
    sealer = p.declared.sealer
    if not isinstance(sealer, Marker):
        raise InputRefused(
            f"action type {p.declared.name!r} has no fence in a database of yours",
            fix="Declare it with journal.local_action(…, store=sqlite_marker(path)).",
        )
    return sealer


def local_steps(ports: Ports, p: Presented, call: Any, handle: Handle) -> Steps[Joined]:
    """Run the effect under its fence on ``handle``, whose transaction it joins or owns."""
    owned = not handle.active()
    try:
        yield ports.adapter("begin", handle.begin if owned else handle.join)
    except GeneratorExit:
        raise
    except BaseException as error:
        return Joined(Reply(transport="not_sent", detail=_clue(error)), error=error)
    try:
        reply = yield from fenced_steps(ports, p, call, handle)
    except Duplicate:
        return (yield from _existing(ports, p, handle, owned=owned))
    except GeneratorExit:
        if owned:
            handle.rollback()
        raise
    except Ended as error:
        with suppress(Exception):
            handle.rollback()
        return Joined(Reply(transport="raised", detail=_clue(error)), error=error)
    except BaseException as error:
        undone = yield from _taken_back(ports, p, handle, owned=owned)
        transport = "rolled_back" if undone else "raised"
        reply = Reply(transport=transport, detail=_clue(error), closed=undone)
        return Joined(reply, error=None if isinstance(error, NoEffect) else error)
    if not owned:
        return Joined(reply, pending=True)
    try:
        yield ports.adapter("commit", handle.commit)
    except GeneratorExit:
        raise
    except BaseException as error:
        reply = Reply(transport="lost", detail=f"COMMIT: {_clue(error)}")
        with suppress(Exception):
            handle.rollback()  # else the caller's next COMMIT could still take it along
        return Joined(reply, error=None if isinstance(error, Exception) else error)
    return Joined(reply)


def _clue(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".encode("utf-8", "replace").decode()[:180]


def _taken_back(ports: Ports, p: Presented, handle: Handle, *, owned: bool) -> Steps[bool]:
    """Take the effect back; False where it cannot be told that it is gone."""
    try:
        if owned:
            yield ports.adapter("rollback", handle.rollback)
            return not handle.active()
        return (yield ports.adapter("read_fence", lambda: read_fence(handle, p.action_id))) is None
    except Exception:
        return False


def fenced_steps(ports: Ports, p: Presented, call: Any, handle: Handle) -> Steps[Reply]:
    """Fence, effect and result inside the open transaction. Raises Duplicate.

    What the function raises takes the effect and its fence back, and nothing else of the
    caller's transaction; a refusal is then stored under the fence.
    """
    save, undo, release = (
        lambda: handle.run(f"SAVEPOINT {SAVEPOINT}", {}),
        lambda: handle.run(f"ROLLBACK TO SAVEPOINT {SAVEPOINT}", {}),
        lambda: handle.run(f"RELEASE SAVEPOINT {SAVEPOINT}", {}),
    )
    fence = _fence(p, call, handle)
    yield ports.adapter("savepoint", save)
    yield ports.adapter("fence", fence)
    given = p.declared.parameters.decode(p.plain)
    try:
        value = yield ports.adapter("release", lambda: p.declared.release(call, **given))
    except Refusal as refusal:
        yield from _still_open(ports, p, handle)
        reason = str(refusal) or "refused"
        yield ports.adapter("undo", undo)
        yield ports.adapter("fence", fence)
        yield ports.adapter(
            "result", lambda: finish_fence(handle, p.action_id, "rejected", reason=reason[:500])
        )
        yield ports.adapter("savepoint", release)
        named = p.contract.classify(names_of_error(refusal))
        return Reply(transport="replied", named=named, detail=reason[:200])
    except GeneratorExit:
        raise
    except BaseException:
        yield ports.adapter("undo", undo)
        yield ports.adapter("savepoint", release)
        raise
    yield from _still_open(ports, p, handle)
    result = kept(value.result if isinstance(value, Done) else value)
    yield ports.adapter("result", lambda: finish_fence(handle, p.action_id, "applied", result))
    yield ports.adapter("savepoint", release)
    named = p.contract.classify(("returned",))
    return Reply(
        transport="replied", named=named, result=result, reference=reference_of(p.action_id)
    )


class Ended(InputRefused):
    """The user's function ended the transaction that it was to leave alone."""


def _still_open(ports: Ports, p: Presented, handle: Handle) -> Steps[None]:
    """Does the transaction with the fence stand? Raises Ended: then nothing is known here."""
    row = None
    if handle.active():
        row = yield ports.adapter("read_fence", lambda: read_fence(handle, p.action_id))
    if row is None or not handle.active():
        raise Ended(
            f"the function of action {p.declared.name!r} ended its own transaction",
            fix="Take COMMIT, ROLLBACK and ON CONFLICT ROLLBACK out of it: `apply` ends the "
            "transaction. `recover` finds out what became of this one.",
        )


def _fence(p: Presented, call: Any, handle: Handle) -> Callable[[], None]:
    return lambda: write_fence(handle, p.action_id, p.fingerprint, "applied", call.number)


def _existing(ports: Ports, p: Presented, handle: Handle, *, owned: bool) -> Steps[Joined]:
    """The fence is held: by this action's effect, its refusal, or a seal."""
    yield ports.adapter("undo", lambda: handle.run(f"ROLLBACK TO SAVEPOINT {SAVEPOINT}", {}))
    row = yield ports.adapter("read_fence", lambda: read_fence(handle, p.action_id))
    if owned:
        yield ports.adapter("rollback", handle.rollback)
    else:
        yield ports.adapter("savepoint", lambda: handle.run(f"RELEASE SAVEPOINT {SAVEPOINT}", {}))
    if row is not None and row.state != "sealed":
        check_fence(row, p.action_id, p.fingerprint)
    detail = "its fence is sealed" if row is None or row.state == "sealed" else "it took effect"
    return Joined(Reply(transport="not_sent", detail=detail), existing=True)


def ended_by(handle: Handle, action_id: str) -> Callable[[], bool | None]:
    """Has the caller's transaction that the effect joined ended? None: that cannot be told.

    The caller's own connection sees its uncommitted rows: no row means that it was rolled
    back; a row and no open transaction, that it was committed.
    """

    def ended() -> bool | None:
        try:
            if not handle.active():
                return True
            return read_fence(handle, action_id) is None
        except Exception as error:
            closed = "closed" in str(error).lower()
            return True if closed else None

    return ended
