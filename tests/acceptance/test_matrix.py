"""The crash matrix against the interruption harness of seed 000, whose text is the oracle."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HARNESS = Path(__file__).parents[1] / "vectors" / "seed-000-harness.txt"
FACTS = ("crash_at", "idempotent", "readback", "revoked")


@pytest.fixture(scope="module")
def harness() -> Any:
    """The seed's own code, run as it was printed."""
    module = ModuleType("seed_000_harness")
    sys.modules[module.__name__] = module
    exec(compile(HARNESS.read_text("utf-8"), str(HARNESS), "exec"), vars(module))
    return module


@pytest.fixture(scope="module")
def found() -> list[dict[str, Any]]:
    """The rows of the command, as another program gets them."""
    program = "import sys; from ascertain.demo import matrix; sys.exit(matrix.main(json=True))"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120)
    assert ran.returncode == 0, ran.stderr.decode()
    rows: list[dict[str, Any]] = json.loads(ran.stdout)
    return rows


def wanted(harness: Any) -> list[dict[str, Any]]:
    rows = []
    for crash, idempotent, readback, revoked in itertools.product(
        harness.CrashPoint, (False, True), (False, True), (False, True)
    ):
        decision, commits, cut = harness.run_scenario(
            crash, idempotent=idempotent, readable=readback, revoke_before_recovery=revoked
        )
        rows.append(
            {
                "crash_at": crash.value,
                "idempotent": idempotent,
                "readback": readback,
                "revoked": revoked,
                "decision": decision.value,
                "commits": commits,
                "effect": cut.effect_status.value,
            }
        )
    return rows


def by_facts(rows: list[dict[str, Any]]) -> dict[tuple[Any, ...], dict[str, Any]]:
    return {tuple(row[name] for name in FACTS): row for row in rows}


def test_every_cell_is_as_the_harness_gives_it(harness: Any, found: list[dict[str, Any]]) -> None:
    expected = by_facts(wanted(harness))
    got = by_facts(found)
    assert len(found) == len(got) == 40
    differ = [(expected[facts], got[facts]) for facts in expected if got[facts] != expected[facts]]
    assert not differ
    assert got == expected


def test_the_harness_has_all_the_decisions_that_it_can_reach(harness: Any) -> None:
    """So that a broken oracle does not agree with a broken matrix."""
    decisions = {row["decision"] for row in wanted(harness)}
    assert decisions == {"execute", "adopt_existing_effect", "reauthorise", "verify", "quarantine"}
