"""A program of a user's, for the tests of the command: payments with a ledger as provider.

It is copied into the test's directory and loaded there by ``--app shop:journal``. What becomes
of a payment follows from its payee.
"""

import json
import os
import signal
import sys
import time
from pathlib import Path

import ascertain as a

LEDGER = Path("ledger.json")
SEEN = {
    "readback": a.Readback(
        by="action_id",
        consistency=a.Consistency.LINEARIZABLE,
        keeps_records=True,
        retention=a.FOR_EVER,
    ),
    "in_flight": a.InFlight(after_release=a.SECOND // 100, after_close=0),
    "surface": (),
}
BANK = a.Contract(name="bank", observation=a.Observation(first=a.SECOND // 100, looks=3), **SEEN)
POST = a.Contract(name="post", surface=())
LATER = a.Contract(name="later", observation=a.Observation(first=a.HOUR, longest=a.HOUR), **SEEN)
BRANCH = a.Contract(name="branch", preconditions=("open",), **SEEN)

journal = a.open(os.environ.get("SHOP_JOURNAL", "shop.db"), policy=a.limits({"amount": 100_000}))


def book(action_id: str, kind: str = "payment") -> str:
    """The provider's own record of an effect."""
    known = json.loads(LEDGER.read_text()) if LEDGER.exists() else []
    reference = f"{kind}-{len(known) + 1}"
    known.append({"action_id": action_id, "reference": reference})
    LEDGER.write_text(json.dumps(known))
    return reference


def booked(action_id: str) -> list[str]:
    known = json.loads(LEDGER.read_text()) if LEDGER.exists() else []
    return [item["reference"] for item in known if item["action_id"] == action_id]


def send(call, payee):
    if payee == "declines":
        raise a.Refusal("account closed")
    if payee == "busy":
        raise a.NoEffect("try later")
    if payee == "silent":
        raise TimeoutError("no reply")
    reference = book(call.action_id)
    if payee == "lost":
        raise TimeoutError("no reply")
    if payee == "dies":
        os.kill(os.getpid(), signal.SIGKILL)
    if payee == "twice":
        book(call.action_id)
        raise TimeoutError("no reply")
    return a.Done(reference=reference)


@journal.action("pay", contract=BANK, target="payee")
def pay(call, *, payee: str, amount: int):
    return send(call, payee)


@pay.observer
def ledger(question):
    if os.environ.get("SHOP_SLOW"):
        print("looking", flush=True)
        time.sleep(60)
    found = booked(question.action_id)
    if not found:
        return a.Absent(as_of=time.time_ns() // 1000)
    return [a.Seen(reference=name, fields=question.parameters) for name in found]


@pay.compensator(reversibility="business_offset")
def refund(call, effect):
    return a.Done(reference=book(call.action_id, "refund"))


@journal.action("mail", contract=POST)
def mail(call, *, payee: str):
    return send(call, payee)


@journal.action("withdraw", contract=BRANCH)
def withdraw(call, *, payee: str):
    return send(call, payee)


@withdraw.observer
def slips(question):
    return ledger(question)


@withdraw.precondition("open")
def is_open(resource):
    return "yes"


def scene() -> None:
    """One action of each kind."""
    intent = a.Intent(execution_id="run-190", step_id="pay", version=3, subject="acct-7")
    pay.perform("fine", payee="Northwind", amount=12_500, intent=intent)
    pay.perform("declined", payee="declines", amount=1)
    pay.perform("busy", payee="busy", amount=1)
    pay.perform("denied", payee="Northwind", amount=2_000_000)
    pay.perform("silent", payee="silent", amount=1)
    pay.perform("lost", payee="lost", amount=1)
    mail.perform("letter", payee="lost")
    withdraw.perform("cash", payee="Northwind",
                     preconditions=[a.Precondition("branch-1", "open", "yes")])  # fmt: skip
    pay.perform("after", payee="Northwind", amount=1, needs=["silent"])


def pay_one(action_id: str, payee: str, subject: str = "acct-7") -> None:
    pay.perform(action_id, payee=payee, amount=1, intent=a.Intent(subject=subject))


def pay_many(count: str) -> None:
    for number in range(int(count)):
        pay.perform(f"many-{number}", payee="Northwind", amount=1)


def pay_after(action_id: str) -> None:
    print(pay.perform(action_id, payee="Northwind", amount=1, needs=["silent"]))


def mail_one(action_id: str) -> None:
    mail.perform(action_id, payee="lost")


@journal.action("slow mail", contract=LATER)
def later(call, *, payee: str):
    return send(call, payee)


@later.observer
def sorting(question):
    return a.Unreadable("closed")


def mail_later(action_id: str) -> None:
    later.perform(action_id, payee="lost")


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
