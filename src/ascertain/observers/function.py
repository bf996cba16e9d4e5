"""An observer that is a function of the user's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ascertain.core.evidence import Source

from . import Question


class FunctionObserver:
    """Asks ``function(question)``. What it raises means that it could not read."""

    def __init__(self, function: Callable[[Question], Any], source: Source) -> None:
        self.function = function
        self.source = source

    def observe(self, question: Question) -> Any:
        """Whatever the function returns."""
        return self.function(question)
