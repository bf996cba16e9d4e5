"""`demo` and `matrix`: see it work, with other people's provider and with the crash matrix."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ascertain.cli.invocation import Invocation, command


def register(group: typer.Typer) -> None:
    """Add the commands of this group."""
    command(group, "demo", journal=False)(demo)
    command(group, "matrix", journal=False)(matrix)


def demo(
    invocation: Invocation,
    seed: Annotated[
        int | None, typer.Option("--seed", metavar="N", help="Repeat the run of this seed.")
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option("--keep", metavar="DIR", help="Leave journal and certificates here."),
    ] = None,
) -> int:
    """Payments through a lossy network, workers killed.

    200 payments twice: by the usual retry loop, then with Ascertain. Counted at a provider
    that nobody here wrote.
    """
    from ascertain.demo import run

    return run.main(seed=seed, json=invocation.json, keep=keep)


def matrix(invocation: Invocation) -> int:
    """The crash matrix, through the real journal.

    40 ways to be interrupted, and what recovery decides in each.
    """
    from ascertain.demo import matrix as cells

    return cells.main(json=invocation.json)
