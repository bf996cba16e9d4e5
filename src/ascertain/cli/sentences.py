"""`explain`: what is known of one action, in plain sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ascertain.cli.account import Account, limits, next_commands, refusal
from ascertain.cli.output import console, styled
from ascertain.cli.wording import DECISION_WORDS, Place, moment, plural, verdict_words, when
from ascertain.core.absence import Absence
from ascertain.core.facts import Decision, Finding
from ascertain.outcomes import WORDS

_RETURNS = {
    "timed_out": "no reply came in time",
    "lost": "the connection was lost after it had left",
    "raised": "it ended with an error that the contract does not name",
    "not_sent": "nothing left this machine",
    "rolled_back": "its transaction was rolled back",
}
_CLAIMS = {
    "applied": "it happened",
    "not_applied": "it did not happen and cannot any more",
    "rejected": "it was refused",
    "reversed": "it was undone",
}
_ARGUMENTS = {
    Absence.NEVER_RELEASED: "it was never released, and no record can be missing",
    Absence.TOLD: "every attempt was told that it had no effect",
    Absence.SEALED: "its fence is sealed, so that nothing of it can take effect",
    Absence.GONE_AND_SEEN: "nothing of it can still land, and whoever looked found nothing",
}


def sentences(account: Account, place: Place) -> dict[str, list[str]]:
    """The account in paragraphs, by heading."""
    told = {
        "What was wanted": list(_wanted(account)),
        "What was done": list(_done(account)),
        "What is known": list(_known(account)),
        "What comes next": list(_next(account)),
        "To type": next_commands(account, place),
        "Mind that": [f"{_upper(text)}." for text in limits(account)],
    }
    return {heading: lines for heading, lines in told.items() if lines}


def _wanted(account: Account) -> Iterator[str]:
    intent, now = account.view.intent, account.now
    if intent is None:
        yield "No intent is recorded: whatever is known of it came from elsewhere."
        return
    given = ", ".join(f"{name} {_value(value)}" for name, value in intent.parameters.items())
    version = f", version {intent.version}" if intent.version > 1 else ""
    subject = "" if intent.subject == "unspecified" else f" for {intent.subject}"
    yield (
        f"{intent.action_type}{version}{subject}{': ' + given if given else ''}; asked for "
        f"{moment(account.row.created_at, now)}."
    )
    if intent.compensates:
        yield f"It compensates {intent.compensates}."
    for need in intent.needs:
        yield f"It needs {need.action_id} to be {need.until} first."
    decisions = account.view.decisions
    if decisions:
        record = decisions[-1].record
        if record.outcome == "allow":
            until = moment(record.valid_until, now)
            yield f"{record.actor} allowed it until {until} (policy {record.policy_version})."
        else:
            why = f": {record.reason}" if record.reason else ""
            yield f"{record.actor} did not allow it{why} (policy {record.policy_version})."


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"


def _done(account: Account) -> Iterator[str]:
    view, now = account.view, account.now
    if not view.released:
        if account.refused_here:
            yield f"It was not sent: {refusal(account)}."
        else:
            yield "It was not sent, as far as this journal says."
    for number, entry in sorted(view.released.items()):
        returned = view.returned.get(number)
        sent = f"Attempt {number} was released {moment(entry.record.at, now)}"
        if returned is None:
            gone = entry.record.executor in view.gone
            word = "; its process is gone" if gone else ""
            yield f"{sent}, and nothing is known of its return{word}."
        else:
            yield f"{sent}; {_return(returned.record)}."
    looks = [e for e in view.receipts if e.record.evidence in ("readback", "absence", "unreadable")]
    if looks:
        last = looks[-1].record
        saw = {"absence": "nothing was there", "unreadable": "it could not be read"}
        found = saw.get(last.evidence) or f"it was there ({last.claim or 'seen'})"
        count = plural(len(looks), "look", "looks")
        yield f"{count} at {last.source}; the last, {moment(last.observed_at, now)}: {found}."
    for entry in view.seals:
        yield f"Its fence was sealed {moment(entry.record.at, now)}."
    for entry in view.compensations:
        record = entry.record
        yield f"Effect {record.reference} is counteracted by {record.compensator}."
    for entry in view.attested:
        record = entry.record
        claim = _CLAIMS.get(record.claim, record.claim)
        yield (
            f"{record.operator} attests that {claim}, because: {record.reason} "
            f"(on the authority of {record.authority})."
        )


def _return(record: Any) -> str:
    known = _RETURNS.get(record.transport)
    if known is None:
        named = f"a reply came ({record.reply})" if record.reply else None
        known = named or "a reply came that the contract does not name"
    return f"{known} ({record.detail})" if record.detail else known


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _known(account: Account) -> Iterator[str]:
    verdict, now = account.judgement.verdict, account.now
    finding = verdict.finding
    if finding is Finding.UNKNOWN and account.next_look is not None:
        again = "now" if account.next_look <= now else f"at {moment(account.next_look, now)}"
        yield f"{_upper(WORDS[finding])}: look again {again} ({verdict.outcome.value})."
    else:
        yield f"{_upper(verdict_words(finding, account.decision.name))}."
    if verdict.argument is not None:
        kind = verdict.argument.kind
        yield f"How that is known: {_ARGUMENTS[kind]} ({kind.value})."
    elif verdict.reason and finding is not Finding.APPLIED_FINAL:
        yield f"Why: {verdict.reason}."
    for effect in verdict.effects:
        name = effect.reference or "without a reference of its own"
        who = ", ".join(sorted(effect.domains)) or "nobody"
        verb = "vouch" if len(effect.domains) > 1 else "vouches"
        yield f"The effect is {name}; {who} {verb} for it."
    if verdict.missing:
        lead = "What would settle it" if finding is Finding.UNKNOWN else "What is missing"
        yield f"{lead}: {'; or '.join(verdict.missing)}."
    for item in account.judgement.violations:
        yield f"What does not fit: {item.text} ({item.rule})."


def _next(account: Account) -> Iterator[str]:
    row, now = account.decision, account.now
    if account.driven_by is not None:
        yield (
            f"It is being driven right now by {account.driven_by}, until "
            f"{moment(account.row.lease_until, now)}."
        )
        return
    if account.refused_here:
        yield "Nothing, on its own: it may be performed again, with a fresh decision."
        return
    said = DECISION_WORDS[row.decision]
    yield f"{_upper(said)} ({row.decision.value}): {row.reason} (row {row.name})."
    if account.decided is None and row.decision is not Decision.ADOPT:
        yield "Nobody has decided yet; this is what recovery comes to if all is allowed."
    if account.next_look is not None:
        yield f"Recovery takes it up {when(account.next_look, now)}."


def explain(account: Account, place: Place) -> None:
    """Print it."""
    from rich.padding import Padding
    from rich.text import Text

    out = console()
    out.print(styled(account.row.action_id, "bold"))
    for heading, lines in sentences(account, place).items():
        out.print()
        out.print(Text(heading, style="bold"))
        for line in lines:
            out.print(Padding(styled(line), (0, 0, 0, 2)))
