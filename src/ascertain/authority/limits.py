"""The built-in policy: limits on named integer parameters, for a stated time."""

from __future__ import annotations

from collections.abc import Mapping

from ascertain.core.codec import digest, encode
from ascertain.core.contract import MINUTE
from ascertain.errors import DeclarationRefused

from . import VERBS, Grant, Request, Ruling


class Limits:
    """Allows what stays within ``maximum``. See `limits`."""

    def __init__(
        self,
        maximum: Mapping[str, int],
        *,
        actor: str,
        approver: str | None,
        valid_for: int,
        verbs: tuple[str, ...],
    ) -> None:
        self.maximum = dict(maximum)
        self.actor = actor
        self.approver = approver
        self.valid_for = valid_for
        self.verbs = verbs
        shape = {
            "maximum": self.maximum,
            "actor": actor,
            "approver": approver,
            "valid_for": valid_for,
            "verbs": list(verbs),
        }
        self.version = f"limits/{digest(encode(shape))[:12]}"

    def decide(self, request: Request) -> Ruling:
        """Allow within the limits; deny with the parameter's name otherwise."""
        limits = {n: most for n, most in self.maximum.items() if n in request.parameters}
        over = [name for name, most in limits.items() if not _within(request, name, most)]
        reason = f"{', '.join(over)} above the limit" if over else None
        return Ruling(
            outcome="deny" if over else "allow",
            decision_id=f"{request.action_id}/{request.now}",
            actor=self.actor,
            approver=request.approver or self.approver,
            policy_version=self.version,
            valid_from=request.now,
            valid_until=request.now + self.valid_for,
            action_id=request.action_id,
            limits=limits,
            reason=reason,
        )

    def grants(self, request: Request) -> tuple[Grant, ...]:
        """One capability for each verb that the policy names, for this action alone."""
        return tuple(
            Grant(
                verb=verb,
                capability_id=f"{request.action_id}/{verb}/{request.now}",
                actor=self.actor,
                scope=request.action_id,
                valid_until=request.now + self.valid_for,
                policy_version=self.version,
            )
            for verb in self.verbs
        )


def _within(request: Request, name: str, most: int) -> bool:
    value = request.parameters[name]
    return isinstance(value, int) and not isinstance(value, bool) and value <= most


def limits(
    maximum: Mapping[str, int] | None = None,
    *,
    actor: str = "limits",
    approver: str | None = None,
    valid_for: int = 10 * MINUTE,
    verbs: tuple[str, ...] = VERBS,
) -> Limits:
    """The built-in policy.

    ``maximum``: the most that a named integer parameter may be, for the actions that have
    it. ``valid_for``: how long an allow holds, in microseconds. ``verbs``: what recovery
    may do. ``actor``, ``approver``: who stands behind it, as recorded.

    Raises DeclarationRefused.
    """
    wrong = [verb for verb in verbs if verb not in VERBS]
    if wrong or valid_for <= 0:
        raise DeclarationRefused(
            f"limits(verbs={verbs!r}, valid_for={valid_for!r}) is not a policy",
            fix=f"Verbs are {', '.join(VERBS)}; valid_for is microseconds above zero.",
        )
    for name, most in (maximum or {}).items():
        if type(most) is not int:
            raise DeclarationRefused(
                f"the limit of {name} is not an integer", fix="Give minor units, as an integer."
            )
    return Limits(maximum or {}, actor=actor, approver=approver, valid_for=valid_for, verbs=verbs)
