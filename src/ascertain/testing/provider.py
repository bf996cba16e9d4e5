"""A fake provider with books of its own, as a program of its own.

::

    python -m ascertain.testing.provider --port 0 --ledger books.db --term keys=ignored

=========================================  =========================================================
``POST /v1/effects``                       make an effect: ``{"action_id", "payee", "amount", …}``;
                                           201, or 202 under ``accept_first``
``GET /v1/effects?action_id=ID``           readback by the action's identity
``GET /v1/effects/EFFECT``                 readback by the provider's reference
``POST /v1/effects/EFFECT/reversals``      reverse it, under an action id of the reversal's own
``POST /v1/seals``                         refuse an action id from now on (term ``seals``)
``GET /control/ledger``                    the truth
``POST /control/set``                      change terms (`ascertain.testing.Terms`)
``GET /control/held``                      action ids of the requests that wait for a release
``POST /control/release``                  let them commit: all, or those of one ``action_id``
=========================================  =========================================================

`FakeProvider` starts it and speaks to it.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import cast

from ascertain.errors import AscertainError, InputRefused
from ascertain.testing.ledger import Ledger, now_ms
from ascertain.testing.programs import announce, end_with_parent
from ascertain.testing.terms import Terms
from ascertain.testing.wire import Answer, Arrival, Server, refused

HOLD_S_MAX = 120.0
KEY_WAIT_S_MAX = 60.0


@dataclass(frozen=True, slots=True)
class Order:
    """A mutating request: what it asks for, and for whom."""

    kind: str
    action_id: str
    payload: dict[str, object]
    target: str = ""
    key: str = ""
    digest: str = ""
    if_match: str = ""


@dataclass(slots=True)
class _Held:
    action_id: str
    released: threading.Event = field(default_factory=threading.Event)


class Provider:
    """What the provider does; the wire is another module's."""

    def __init__(self, ledger: Ledger, terms: Terms) -> None:
        self.ledger = ledger
        self.terms = terms
        self._changed = threading.Condition()
        self._held: dict[int, _Held] = {}

    def answer(self, arrival: Arrival) -> Answer:
        """The answer to whatever came in."""
        parts = [part for part in arrival.path.split("/") if part]
        try:
            match (arrival.method, *parts):
                case ("POST", "v1", "effects"):
                    return self._take(_order("effect", arrival))
                case ("POST", "v1", "effects", str(reference), "reversals"):
                    return self._take(_order("reversal", arrival, target=reference))
                case ("POST", "v1", "seals"):
                    return self._seal(_action_id(arrival.document()))
                case ("GET", "v1", "effects"):
                    return self._read(action_id=arrival.query.get("action_id"))
                case ("GET", "v1", "effects", str(reference)):
                    return self._read(reference=reference)
                case (_, "control", str(word)):
                    return self._control(word, arrival)
        except InputRefused as error:
            return refused(400, error.message)
        return refused(404, "no such place")

    # --- control -----------------------------------------------------------------------------

    def _control(self, word: str, arrival: Arrival) -> Answer:
        match (arrival.method, word):
            case ("GET", "ledger"):
                return Answer(200, self.ledger.books())
            case ("GET", "terms"):
                return Answer(200, asdict(self.terms))
            case ("GET", "held"):
                with self._changed:
                    return Answer(200, {"held": [each.action_id for each in self._held.values()]})
            case ("POST", "set"):
                with self._changed:
                    self.terms = self.terms.changed(arrival.document())
                    return Answer(200, asdict(self.terms))
            case ("POST", "release"):
                return Answer(200, {"released": self._release(arrival.document())})
        return refused(404, "no such control")

    def _release(self, wanted: dict[str, object]) -> int:
        with self._changed:
            chosen = [
                held
                for held in self._held.values()
                if wanted.get("action_id") in (None, held.action_id)
            ]
        for held in chosen:
            held.released.set()
        return len(chosen)

    def _spend(self, counter: str) -> bool:
        """True if a counted fault falls on this request."""
        with self._changed:
            left = cast(int, getattr(self.terms, counter))
            if left > 0:
                self.terms = replace(self.terms, **{counter: left - 1})  # type: ignore[arg-type]
            return left != 0

    # --- reading -----------------------------------------------------------------------------

    def _read(self, action_id: str | None = None, reference: str | None = None) -> Answer:
        terms = self.terms
        if terms.readback == "failing":
            return refused(503, "readback is broken")
        if terms.readback == "none" and reference is None:
            return refused(404, "there is no reading by action id here")
        found = self.ledger.effects(action_id, reference=reference, lag_ms=terms.readback_lag_ms)
        if reference is None:
            as_of = now_ms() - terms.readback_lag_ms
            return Answer(200, {"effects": found, "as_of_ms": as_of})
        return Answer(200, found[0]) if found else refused(404, "no such effect")

    # --- effects -----------------------------------------------------------------------------

    def _seal(self, action_id: str) -> Answer:
        if not self.terms.seals:
            return refused(404, "there are no seals here")
        if self.ledger.seal(action_id):
            return Answer(201, {"action_id": action_id, "sealed": True})
        return refused(409, "this action id has taken effect")

    def _take(self, order: Order) -> Answer:
        """A mutating request, from its arrival to its answer."""
        number = self.ledger.arrived(order.kind, order.action_id, order.key, order.digest)
        answer = self._refusal(order) or self._under_key(number, order)
        self.ledger.answered(number, str(answer.code) if answer.code else "shut down")
        return answer

    def _refusal(self, order: Order) -> Answer | None:
        """What is said before the key is looked at; nothing has been done."""
        terms = self.terms
        if terms.revoked:
            return refused(403, "the credential is revoked")
        if self._spend("throttle"):
            return refused(429, "too many requests", headers={"Retry-After": "1"})
        if order.if_match and order.if_match.strip('"') != str(terms.version):
            return refused(412, f"the resource stands at version {terms.version}")
        if self._spend("close_before_commit"):
            return Answer(0)
        if self._spend("error_before_commit"):
            return refused(500, "internal error")
        return None

    def _under_key(self, number: int, order: Order) -> Answer:
        """Idempotency: at most one first request for each key, all others get its result."""
        if not order.key or self.terms.keys == "ignored":
            return self._execute(number, order, save=False)
        until = time.monotonic() + KEY_WAIT_S_MAX
        while time.monotonic() < until:
            with self._changed:
                known = self.ledger.key(order.key, self.terms.key_retention_ms)
                if known is None:
                    self.ledger.take_key(order.key, order.digest)
                    break
                if known.digest != order.digest and self.terms.mismatch:
                    return refused(self.terms.mismatch, "this key was used with another payload")
                if known.code is not None:
                    body = cast(dict[str, object], json.loads(known.answer))
                    return Answer(known.code, body, {"Idempotent-Replayed": "true"})
                if self.terms.concurrent:
                    return refused(self.terms.concurrent, "this key is in use right now")
                self._changed.wait(0.2)
        else:
            return refused(503, "the first request under this key takes too long")
        try:
            return self._execute(number, order, save=True)
        finally:
            with self._changed:
                self.ledger.drop_key(order.key)
                self._changed.notify_all()

    def _execute(self, number: int, order: Order, *, save: bool) -> Answer:
        declined = self._declined(order)
        if declined is not None:
            if save and declined.code == 402:
                self.ledger.save_answer(order.key, declined.code, json.dumps(declined.body))
            return declined
        if self.terms.accept_first and order.kind == "effect":
            return self._accept(number, order, save=save)
        if not self._wait_for_commit(number, order.action_id):
            return refused(503, "given up before the commit")
        lose = self._spend("lose_reply")
        fail = self._spend("error_after_commit")
        copies = 2 if order.kind == "effect" and self._spend("double") else 1
        with self.ledger.transaction():
            if order.kind == "effect" and self.ledger.sealed(order.action_id):
                return refused(409, "this action id is sealed")
            body = self._commit(order, copies)
            keeps = self.terms.error_keeps if fail else "result"
            if save and keeps != "nothing":
                kept = Answer(201, body) if keeps == "result" else refused(500, "internal error")
                self.ledger.save_answer(order.key, kept.code, json.dumps(kept.body))
        time.sleep(self.terms.reply_delay_ms / 1000)
        if lose:
            return Answer(0)
        return refused(500, "internal error") if fail else Answer(201, body)

    def _declined(self, order: Order) -> Answer | None:
        """A refusal for good."""
        if order.kind == "effect":
            if order.payload.get("payee") in self.terms.decline_payees:
                return refused(402, "declined", reason="declined")
            return None
        found = self.ledger.effects(reference=order.target)
        if not found or self.terms.reversals == "none":
            return refused(404, "nothing to reverse")
        if found[0]["reversals"] and self.terms.reversals == "once":
            return refused(409, "reversed before")
        return None

    def _commit(self, order: Order, copies: int) -> dict[str, object]:
        if order.kind == "reversal":
            reference = self.ledger.reverse(order.target, order.action_id)
            return {"id": reference, "effect_id": order.target, "action_id": order.action_id}
        references = [self.ledger.accept(order.action_id, order.payload) for _ in range(copies)]
        for reference in references:
            self.ledger.commit(reference)
        return self.ledger.effects(reference=references[0])[0]

    def _accept(self, number: int, order: Order, *, save: bool) -> Answer:
        """Answer now; the commit comes later."""
        with self.ledger.transaction():
            if self.ledger.sealed(order.action_id):
                return refused(409, "this action id is sealed")
            reference = self.ledger.accept(order.action_id, order.payload)
            body = self.ledger.effects(reference=reference)[0]
            if save:
                self.ledger.save_answer(order.key, 202, json.dumps(body))

        def settle() -> None:
            if self._wait_for_commit(number, order.action_id):
                self.ledger.commit(reference)

        threading.Thread(target=settle, name=f"settle-{number}", daemon=True).start()
        return Answer(0 if self._spend("lose_reply") else 202, body)

    def _wait_for_commit(self, number: int, action_id: str) -> bool:
        """Wait as long as the terms say. False: nobody released it, and nothing is done."""
        if self.terms.commit == "at_once":
            return True
        if self.terms.commit == "delayed":
            time.sleep(self.terms.commit_delay_ms / 1000)
            return True
        held = _Held(action_id)
        with self._changed:
            self._held[number] = held
        released = held.released.wait(HOLD_S_MAX)
        with self._changed:
            del self._held[number]
        return released


def _action_id(document: dict[str, object]) -> str:
    action_id = document.get("action_id")
    if not isinstance(action_id, str) or not action_id:
        raise InputRefused("a request needs an action_id")
    return action_id


def _order(kind: str, arrival: Arrival, *, target: str = "") -> Order:
    payload = arrival.document()
    canonical = json.dumps([kind, target, payload], sort_keys=True)
    return Order(
        kind=kind,
        action_id=_action_id(payload),
        payload=payload,
        target=target,
        key=arrival.header("idempotency-key"),
        digest=hashlib.sha256(canonical.encode()).hexdigest()[:16],
        if_match=arrival.header("if-match"),
    )


def parse_term(text: str) -> tuple[str, object]:
    """``name=value`` from the command line; the value is JSON, or a bare word."""
    name, _, value = text.partition("=")
    try:
        return name, cast(object, json.loads(value))
    except ValueError:
        return name, value


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the provider until it is told to end."""
    parser = argparse.ArgumentParser(
        prog="python -m ascertain.testing.provider",
        description="A fake provider on the loopback interface.",
    )
    parser.add_argument("--port", type=int, default=0, help="0: a free one")
    parser.add_argument("--ledger", default=":memory:", metavar="FILE")
    parser.add_argument("--term", action="append", default=[], metavar="NAME=VALUE")
    options = parser.parse_args(arguments)
    end_with_parent()
    try:
        terms = Terms().changed(dict(parse_term(term) for term in options.term))
        provider = Provider(Ledger(options.ledger), terms)
        server = Server(options.port, provider.answer)
        announce({"port": server.port, "terms": asdict(terms)})
        server.serve_forever()
    except (AscertainError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except KeyboardInterrupt:
        pass
    return 0


if __name__ == "__main__":
    sys.exit(main())
