"""Fixtures for pytest: ``pytest_plugins = ["ascertain.testing.fixtures"]``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from ascertain.testing.fakes import (
    FakeProvider,
    FaultProxy,
    LossyProvider,
    StartProvider,
    StartProxy,
)


@pytest.fixture
def start_provider() -> Iterator[StartProvider]:
    """Start fake providers with the terms given; they end with the test."""
    with ExitStack() as stack:

        def start(*, ledger: Path | None = None, **terms: object) -> FakeProvider:
            return stack.enter_context(FakeProvider(ledger=ledger, port=0, **terms))

        yield start


@pytest.fixture
def start_proxy(tmp_path: Path) -> Iterator[StartProxy]:
    """Start lossy proxies in front of ``host:port``; they keep journals and end with the test."""
    with ExitStack() as stack:
        count = 0

        def start(
            upstream: str,
            *,
            seed: int = 1,
            read_scale: float = 0.0,
            delay_ms_max: int = 300,
            reply_delay_ms: int = 1_500,
            identity: str = "",
            **rates: float,
        ) -> FaultProxy:
            nonlocal count
            count += 1
            proxy = FaultProxy(
                upstream,
                seed=seed,
                port=0,
                read_scale=read_scale,
                delay_ms_max=delay_ms_max,
                reply_delay_ms=reply_delay_ms,
                identity=identity,
                journal=tmp_path / f"fates-{count}.jsonl",
                **rates,
            )
            return stack.enter_context(proxy)

        yield start


@pytest.fixture
def fake_provider(start_provider: StartProvider) -> FakeProvider:
    """A provider that honours keys and can be read back at once."""
    return start_provider()


@pytest.fixture
def fault_proxy(fake_provider: FakeProvider, start_proxy: StartProxy) -> FaultProxy:
    """A network in front of ``fake_provider`` that is sound until told otherwise."""
    return start_proxy(fake_provider.address)


@pytest.fixture
def lossy_provider(fake_provider: FakeProvider, fault_proxy: FaultProxy) -> LossyProvider:
    """``fake_provider`` behind ``fault_proxy``: set terms on one, faults on the other."""
    return LossyProvider(fake_provider, fault_proxy)
