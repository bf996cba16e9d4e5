"""The core's tests notice almost every small change of its code. Long: run by `make test-full`."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.full
def test_almost_every_change_of_the_core_is_noticed() -> None:
    """At least 95 % of all mutants of cut, effects, absence, outcome, judgement and decision."""
    ran = subprocess.run(
        [sys.executable, "tools/mutate.py", "--jobs", "2"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=3600,
        check=False,
    )
    print(ran.stdout)
    found = re.search(r"(\d+) mutants, .* ([\d.]+)% killed", ran.stdout)
    assert found is not None, ran.stdout + ran.stderr
    assert int(found[1]) > 1000
    assert float(found[2]) >= 95.0, ran.stdout
    assert ran.returncode == 0
