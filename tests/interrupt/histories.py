"""Histories: a payment that is killed, a recovery that is killed too, and what must hold after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ascertain.errors import RecoveryRefused
from tests.interrupt.forked import Point, value
from tests.interrupt.scene import TERMINAL, Scene, word

ROUNDS = 8


def honest(scene: Scene, action_id: str) -> None:
    """What the journal says now does not contradict the provider's books."""
    found = word(scene.journal.outcome(action_id))
    effects = scene.ledger.effects(action_id)
    assert len(effects) <= 1, f"{len(effects)} effects"
    assert not (effects and found in ("NotApplied", "Rejected")), f"{found} with an effect"
    assert effects or found != "Applied", "Applied without an effect"
    scene.verify(action_id)


def act(place: Path, kind: str, fate: str, action_id: str, point: Point | None) -> dict[str, Any]:
    """The payment, to be killed at ``point``. What it acknowledges stands in a file."""
    scene = Scene(place, kind, fate=fate, point=point)
    with scene.striker.watching():
        outcome = scene.perform(action_id)
    if point is None:
        scene.journal.close()
    with (place / "acknowledged").open("a") as file:
        file.write(f"{action_id} {word(outcome)}\n")
    striker = scene.striker
    return {"outcome": word(outcome), "counts": striker.counts, "ops": striker.ops}


def mend(place: Path, kind: str, action_id: str, point: Point | None) -> dict[str, Any]:
    """One recovery, to be killed at ``point``."""
    scene = Scene(place, kind, point=point)
    honest(scene, action_id)
    striker = scene.striker
    try:
        with striker.watching():
            found = scene.journal.recover(action_id)
    except RecoveryRefused:
        return {"known": False, "counts": striker.counts, "ops": striker.ops}
    honest(scene, action_id)
    if point is None:
        scene.journal.close()
    said = {"known": True, "decision": found.decision, "outcome": word(found.outcome)}
    return said | {"counts": striker.counts, "ops": striker.ops}


def finish(place: Path, kind: str, action_id: str) -> dict[str, Any]:
    """Recover until there is nothing more to do; then the client asks once more."""
    scene = Scene(place, kind)
    decision, rounds = "", 0
    while decision not in TERMINAL and rounds < ROUNDS:
        rounds += 1
        honest(scene, action_id)
        try:
            found = scene.journal.recover(action_id)
        except RecoveryRefused:
            break
        assert not found.busy, "the dead still hold it"
        decision = found.decision
    honest(scene, action_id)
    known = scene.journal.outcome(action_id)
    again = scene.perform(action_id)
    honest(scene, action_id)
    row = scene.journal.journal.action(action_id)
    return {
        "known": word(known),
        "sealed": bool(getattr(known, "sealed", False)),
        "decision": decision,
        "again": word(again),
        "reference": getattr(getattr(again, "receipt", None), "reference", ""),
        "open": row.open if row else None,
        "effects": [x["id"] for x in scene.ledger.effects(action_id)],
    }


def check(place: Path, kind: str, action_id: str, end: dict[str, Any]) -> None:
    """What must hold once everything has been recovered."""
    acks = place / "acknowledged"
    lines = acks.read_text().splitlines() if acks.exists() else []
    acknowledged = dict(line.split() for line in lines).get(action_id)
    effects = end["effects"]
    assert len(effects) <= 1, end
    assert end["open"] is False, end
    if acknowledged == "Applied":
        assert end["known"] == "Applied", end
    if end["again"] == "Applied":
        assert end["reference"] in effects, end
    elif end["again"] == "Unknown":
        assert kind == "neither", end
        assert end["decision"] == "quarantine", end
    else:
        assert end["again"] == "NotApplied", end
        assert end["sealed"], end
        assert (kind, effects) == ("seal", []), end
    if kind in ("key", "readback"):
        assert end["again"] == "Applied", end


def finish_all(place: Path, kind: str, names: list[str]) -> list[dict[str, Any]]:
    """`finish` for each; the first failure ends it."""
    return [finish(place, kind, name) for name in names]


def settle(place: Path, kind: str, names: list[str]) -> list[dict[str, Any]]:
    """Finish in one child, and check each."""
    ends: list[dict[str, Any]] = value(finish_all, place, kind, names)
    for name, end in zip(names, ends, strict=True):
        check(place, kind, name, end)
    return ends


def warm(place: Path) -> None:
    """Load, in this process, all that a child will need: forks then start at once."""
    place.mkdir()
    act(place, "seal", "commits", "warm", None)
    mend(place, "seal", "warm", None)
