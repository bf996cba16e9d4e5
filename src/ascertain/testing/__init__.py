"""A test kit: a fake provider, a lossy network in front of it, and a client that tells the truth.

Provider and network are programs of their own, so that the process under test can be killed while
they go on. Fixtures for pytest are in `ascertain.testing.fixtures`.
"""

from ascertain.testing.client import Exchange, ProviderClient, Transport
from ascertain.testing.fakes import (
    FakeProvider,
    FaultProxy,
    LossyProvider,
    StartProvider,
    StartProxy,
)
from ascertain.testing.fates import Fate
from ascertain.testing.programs import Program, free_port
from ascertain.testing.terms import Terms

__all__ = [
    "Exchange",
    "FakeProvider",
    "Fate",
    "FaultProxy",
    "LossyProvider",
    "Program",
    "ProviderClient",
    "StartProvider",
    "StartProxy",
    "Terms",
    "Transport",
    "free_port",
]
