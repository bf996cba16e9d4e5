"""A shop with one action of each kind: read only (one for a module), or for each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.acceptance.command import Desk


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    """A shop whose journal may be changed."""
    made = Desk(tmp_path)
    made.program("scene")
    return made


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Desk:
    """A shop that is only looked at."""
    made = Desk(tmp_path_factory.mktemp("shop"), remembers=True)
    made.program("scene")
    return made


@pytest.fixture
def empty(tmp_path: Path) -> Desk:
    """A shop that has done nothing yet."""
    return Desk(tmp_path)
