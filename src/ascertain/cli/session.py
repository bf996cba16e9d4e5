"""Which journal a command works on, and how it is opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ascertain.authority import Grant, Request, Ruling
from ascertain.cli.output import notice
from ascertain.errors import InputRefused, RecoveryRefused
from ascertain.opening import open_journal, path_of

if TYPE_CHECKING:
    from ascertain.cli.invocation import Invocation
    from ascertain.journal import Journal
    from ascertain.opened import Ascertain


class Nobody:
    """The policy of a command that releases nothing: it allows nothing."""

    def decide(self, request: Request) -> Ruling:
        """Deny."""
        return Ruling(
            outcome="deny",
            decision_id=f"{request.action_id}/cli/{request.now}",
            actor="command line",
            policy_version="none",
            valid_from=request.now,
            valid_until=request.now,
            action_id=request.action_id,
            reason="the command line has no policy; --app names the program that has one",
        )

    def grants(self, request: Request) -> tuple[Grant, ...]:
        """Nothing."""
        return ()


@contextmanager
def reading(invocation: Invocation) -> Iterator[Ascertain]:
    """The journal, to be read; the app's own where no other is named."""
    if invocation.journal is None and invocation.app is not None:
        with _app(invocation) as opened:
            yield opened
        return
    with open_journal(_named(invocation), policy=Nobody(), read_only=True) as opened:
        warn(opened.journal)
        yield opened


@contextmanager
def writing(invocation: Invocation) -> Iterator[Ascertain]:
    """The journal, to be written to by a command that releases nothing."""
    if invocation.journal is None and invocation.app is not None:
        with _app(invocation) as opened:
            yield opened
        return
    with open_journal(_named(invocation), policy=Nobody(), create=False) as opened:
        yield opened


@contextmanager
def acting(invocation: Invocation) -> Iterator[Ascertain]:
    """The app's journal with its actions and its policy. Raises RecoveryRefused without an app."""
    if invocation.app is None:
        raise RecoveryRefused(
            "recovery needs the program: its actions know how to look, and its policy what may "
            "be done",
            fix="Write --app module:object, or set ASCERTAIN_APP. `--dry-run` works without.",
        )
    with _app(invocation) as opened:
        yield opened


@contextmanager
def _app(invocation: Invocation) -> Iterator[Ascertain]:
    from ascertain.cli.apps import load_app

    assert invocation.app is not None
    with load_app(invocation.app) as opened:
        if invocation.journal is not None:
            _same(invocation, opened.journal)
        yield opened


def _same(invocation: Invocation, journal: Journal) -> None:
    """Is the journal that was named the one that the app opened? Raises InputRefused."""
    assert invocation.journal is not None
    ours, named = path_of(journal.url).absolute(), path_of(invocation.journal).absolute()
    if ours != named and not (ours.exists() and named.exists() and ours.samefile(named)):
        raise InputRefused(
            f"{invocation.app} opened {ours}, and the journal named is {named}",
            fix="Leave out --journal (and ASCERTAIN_JOURNAL), or name the app's own.",
        )


def _named(invocation: Invocation) -> str:
    if invocation.journal is None:
        raise InputRefused(
            "no journal is named",
            fix="Write --journal payments.db, or set ASCERTAIN_JOURNAL.",
        )
    return invocation.journal


def journal_path(invocation: Invocation) -> Path:
    """The file of the journal that is named. Raises InputRefused, JournalUnavailable."""
    return path_of(_named(invocation))


def warn(journal: Journal) -> None:
    """Say on stderr why an absent record proves nothing here, where that is so."""
    doubt = getattr(journal, "doubt", None)
    if doubt is not None:
        notice(f"warning: {doubt}; that a record is missing proves nothing here")
