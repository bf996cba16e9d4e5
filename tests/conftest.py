"""What every test shares: the search profiles, and the rule for tests that need other programs."""

import os
import shutil
import sys
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("moderate", derandomize=True, deadline=None, max_examples=100)
settings.register_profile("full", deadline=None, max_examples=2000, print_blob=True)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "moderate"))


PLACES = os.pathsep.join((str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)))
"""Where programs are looked for: beside the interpreter too, which an environment need not name."""


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("tools"):
        missing = [name for name in marker.args if shutil.which(name, path=PLACES) is None]
        if missing:
            pytest.skip(f"not installed: {', '.join(missing)}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """How many processes were really killed: each was seen to die by SIGKILL."""
    kills = sum(
        number
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", "") == "teardown"
        for name, number in report.user_properties
        if name == "kills"
    )
    if kills:
        terminalreporter.write_line(f"kills: {kills}")
