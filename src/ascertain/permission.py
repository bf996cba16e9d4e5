"""May this be released now? Authority, preconditions and what stands against them.

Every answer is a record or a reason in words; an error while asking is never a yes.
"""

from __future__ import annotations

import msgspec

from ascertain.authority import Authority, Request, Ruling
from ascertain.authority.limits import Limits
from ascertain.core.codec import encode
from ascertain.core.contract import Consequence, Contract
from ascertain.core.records import AuthorityDecided, Chain, Entry, PreconditionObserved
from ascertain.errors import InputRefused
from ascertain.ports import Ports, Steps
from ascertain.presented import Precondition, Presented


def request_for(p: Presented, now: int) -> Request:
    """What an authority is asked about a presented intent."""
    return Request(
        action_id=p.action_id,
        action_type=p.declared.name,
        subject=p.subject,
        purpose=p.purpose,
        parameters=p.plain,
        consequence=p.contract.consequence.value,
        approver=p.approver,
        now=now,
    )


def ask(ports: Ports, authority: Authority, request: Request) -> Steps[Ruling]:
    """The authority's ruling; an error while asking is a deny that says so."""
    try:
        ruling = yield ports.adapter("authorise", lambda: authority.decide(request))
        if not isinstance(ruling, Ruling):
            why = f"the authority returned {type(ruling).__name__}, not a Ruling"
        elif type(authority) is Limits or (wrong := _unkeepable(ruling)) is None:
            return ruling
        else:
            why = f"the authority returned a Ruling that cannot be recorded: {wrong}"[:300]
    except Exception as error:
        why = f"the authority could not be asked: {type(error).__name__}: {error}"[:300]
    return Ruling(
        outcome="deny",
        decision_id=f"{request.action_id}/unasked/{request.now}",
        actor="unknown",
        policy_version="unknown",
        valid_from=request.now,
        valid_until=request.now,
        action_id=request.action_id,
        reason=why,
    )


def _unkeepable(ruling: Ruling) -> str | None:
    """Why no record can hold the ruling, or None. Nothing that it says would count then."""
    try:
        plain = msgspec.structs.asdict(ruling)
        msgspec.convert(plain, Ruling)
        encode(plain)
    except (InputRefused, msgspec.ValidationError, TypeError, ValueError) as error:
        return str(error).encode("utf-8", "replace").decode()
    return None


def objection(p: Presented, ruling: Ruling, now: int) -> str | None:
    """Why this ruling does not allow this intent now, or None (DESIGN 4, step 1)."""
    if ruling.outcome != "allow":
        return f"denied: {ruling.reason or 'no reason given'}"
    if not ruling.valid_from <= now <= ruling.valid_until:
        return "the decision is not valid now"
    if ruling.action_id not in (None, p.action_id):
        return f"the decision was made for action {ruling.action_id!r}"
    for name, most in ruling.limits.items():
        value = p.plain.get(name)
        if not isinstance(value, int) or isinstance(value, bool) or value > most:
            return f"{name} is not within the decision's limit"
    if p.contract.consequence is Consequence.HIGH and (
        ruling.approver is None or ruling.approver == ruling.actor
    ):
        return "high consequence asks for a second person's approval"
    return None


def own(ruling: Ruling, action_id: str) -> bool:
    """Does the decision's id belong to this action alone, so that no use is reserved?"""
    return ruling.action_id == action_id and ruling.decision_id.startswith(f"{action_id}/")


def add_ruling(chain: Chain, p: Presented, ruling: Ruling, intent: Entry, now: int) -> Entry:
    """Append the decision receipt."""
    return chain.add(
        AuthorityDecided(
            action_id=p.action_id,
            at=now,
            causes=(intent.digest,),
            decision_id=ruling.decision_id,
            outcome=ruling.outcome,
            actor=ruling.actor,
            approver=ruling.approver,
            subject=p.subject,
            purpose=p.purpose,
            action_type=p.declared.name,
            limits=ruling.limits,
            policy_version=ruling.policy_version,
            checked_at=now,
            valid_from=ruling.valid_from,
            valid_until=ruling.valid_until,
            uses=ruling.uses,
            reason=ruling.reason,
            credential_digest=ruling.credential_digest,
            intent_digest=intent.digest,
        )
    )


def observe_precondition(
    ports: Ports, p: Presented, wanted: Precondition, now: int, *, word: bool
) -> Steps[PreconditionObserved]:
    """Look at one precondition; not being able to is "unverified", never "hold".

    ``word``: the caller has just looked, so that its word counts where no observer does.
    """
    look = wanted.observe or p.declared.preconditions.get(wanted.predicate)
    holds, found, source = "hold" if word else "unverified", None, "caller"
    if look is not None:
        source = getattr(look, "__qualname__", "observer")
        try:
            current = str((yield ports.adapter("precondition", lambda: look(wanted.resource))))
            holds = "hold" if current == wanted.version else "broken"
            found = None if current == wanted.version else current[:500]
        except Exception:
            holds = "unverified"
    return PreconditionObserved(
        action_id=p.action_id,
        at=now,
        resource=wanted.resource,
        predicate=wanted.predicate,
        version=wanted.version,
        found=found,
        source=source,
        observed_at=now if look is not None else wanted.observed_at or now,
        holds=holds,
        fresh_for=wanted.fresh_for,
        guard=wanted.guard,
    )


def precondition_fault(
    contract: Contract, observed: list[PreconditionObserved], now: int
) -> str | None:
    """Why the preconditions do not carry a release, or None."""
    for name in contract.preconditions:
        if all(item.predicate != name for item in observed):
            return f"the contract asks for the precondition {name!r}"
    for item in observed:
        if item.holds != "hold" and not item.guard:
            word = "does not hold" if item.holds == "broken" else "could not be verified"
            return f"precondition {item.predicate!r} of {item.resource!r} {word}"
        if item.fresh_for is not None and now - item.observed_at > item.fresh_for:
            return f"precondition {item.predicate!r} of {item.resource!r} is not fresh"
    return None
