"""Payments to the real `FakeProvider`, over HTTP, by an adapter as a user would write it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ascertain as a
from ascertain.testing import ProviderClient, Transport

READ = a.Readback(
    by="action_id", consistency=a.Consistency.LINEARIZABLE, keeps_records=True, retention=a.DAY
)
REPLIES = a.Replies(
    success=(a.Success(reply="returned"),),
    refusals=("http:402",),
    no_effect=("http:429", "raised:builtins.ConnectionRefusedError"),
)


def terms(**changes: Any) -> a.Contract:
    """A provider with a readback, whose requests land within a moment of their connection."""
    parts: dict[str, Any] = {
        "name": "fake-payment",
        "surface": (),
        "readback": READ,
        "replies": REPLIES,
        "in_flight": a.InFlight(after_release=0, after_close=300_000),
    }
    return a.Contract(**(parts | changes))


KEYED = {
    "key": a.Key(scope=a.Scope.PROVIDER, first_result=True, retention=a.DAY),
    "readback": a.Readback(),
}


class HTTPError(Exception):
    """A reply that is no success."""

    def __init__(self, code: int) -> None:
        super().__init__(f"{code}")
        self.status_code = code


class Payments:
    """A journal and a payment action over HTTP. ``keyed``: the key travels with the request."""

    def __init__(
        self,
        place: Path,
        url: str,
        contract: a.Contract,
        *,
        keyed: bool = False,
        policy: Any = None,
        timeout_s: float = 2.0,
        **options: Any,
    ) -> None:
        self.client = ProviderClient(url, timeout_s)
        self.reading = self.client
        self.sent = 0
        self.journal = a.open(
            place / "journal.db", policy=policy or a.limits({"amount": 1000}), **options
        )

        @self.journal.action("pay", contract=contract)
        def pay(call: Any, *, payee: str, amount: int) -> Any:
            self.sent += 1
            key = call.key if keyed else ""
            found = self.client.pay(call.action_id, payee=payee, amount=amount, key=key)
            return reply_of(found)

        self.pay = pay
        if contract.readback.by != "none":
            pay.observer(self.look)

        @pay.compensator(reversibility="exact_inverse", contract=undo_terms())
        def refund(call: Any, effect: Any) -> Any:
            found = self.client.reverse(effect.reference, call.action_id, key=call.key)
            return reply_of(found)

    def look(self, question: a.Question) -> Any:
        """Every effect under the action's id."""
        found = self.reading.find(question.action_id)
        if found.transport is not Transport.REPLIED or found.code != 200:
            return a.Unreadable(f"{found.transport.value} {found.code}")
        listed: Any = found.document["effects"]
        return [
            a.Seen(
                each["id"],
                fields={name: each["payload"][name] for name in ("payee", "amount")},
                reaches="committed" if each["state"] == "committed" else "accepted",
                action_id=each["action_id"],
                reversed_by=each["reversals"][0]["id"] if each["reversals"] else None,
            )
            for each in listed
        ] or a.Absent()

    def perform(self, action_id: str, payee: str = "Northwind", amount: int = 7, **o: Any) -> Any:
        """One payment."""
        return self.pay.perform(action_id, payee=payee, amount=amount, **o)


def reply_of(found: Any) -> Any:
    """What the exchange says, as an adapter tells it."""
    match found.transport:
        case Transport.TIMED_OUT:
            raise TimeoutError(found.why)
        case Transport.CONNECTION_LOST:
            raise ConnectionResetError(found.why)
        case Transport.NOT_SENT:
            raise ConnectionRefusedError(found.why)
    if found.code not in (201, 202):
        raise HTTPError(found.code)
    reference = found.document["id"]
    return a.Done(reference=reference, reaches="committed" if found.code == 201 else "accepted")


def undo_terms() -> a.Contract:
    """A reversal's contract: keyed."""
    return a.Contract(
        name="fake-reversal",
        surface=(),
        key=a.Key(scope=a.Scope.PROVIDER, first_result=True, retention=a.DAY),
    )
