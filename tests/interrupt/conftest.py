"""Every kill is counted, and shown at the end of the run (`tests/conftest.py`)."""

from collections.abc import Iterator

import pytest

from tests.interrupt.forked import Kills


@pytest.fixture
def kills(request: pytest.FixtureRequest) -> Iterator[Kills]:
    counted = Kills()
    yield counted
    request.node.user_properties.append(("kills", counted.delivered))
