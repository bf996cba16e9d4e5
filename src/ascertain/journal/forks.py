"""What has to be done around ``os.fork`` by objects that hold locks or SQLite connections.

One set of hooks for the process, however many objects there are; they are held weakly.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import time
import weakref
from typing import Protocol

__all__ = ["FollowsForks", "follow_forks", "keep_for_ever"]

_WAIT_SECONDS = 30.0


class FollowsForks(Protocol):
    """An object that must know of forks. The three run in the thread that forks."""

    def before_fork(self, until: float) -> None:
        """In the parent, before. May wait for others, up to ``until`` (``time.monotonic``)."""

    def after_fork_in_parent(self) -> None:
        """In the parent, also where the fork failed."""

    def after_fork_in_child(self) -> None:
        """In the child, where the forking thread is the only one."""


_followers: weakref.WeakSet[FollowsForks] = weakref.WeakSet()
_of_parents: list[sqlite3.Connection] = []


def follow_forks(follower: FollowsForks) -> None:
    """Call ``follower`` around every fork from now on, for as long as somebody else keeps it."""
    _followers.add(follower)


def keep_for_ever(conn: sqlite3.Connection) -> None:
    """Keep a parent's connection from being closed in the child, also when the child ends.

    Closing it there would write into the parent's shared memory and delete its log.
    """
    _of_parents.append(conn)
    with contextlib.suppress(ImportError):
        import ctypes

        ctypes.pythonapi.Py_IncRef(ctypes.py_object(conn))


def _before() -> None:
    until = time.monotonic() + _WAIT_SECONDS
    for follower in list(_followers):
        follower.before_fork(until)


def _after_in_parent() -> None:
    for follower in list(_followers):
        follower.after_fork_in_parent()


def _after_in_child() -> None:
    for follower in list(_followers):
        follower.after_fork_in_child()


os.register_at_fork(
    before=_before, after_in_parent=_after_in_parent, after_in_child=_after_in_child
)
