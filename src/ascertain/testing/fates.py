"""What a lossy network does to a request and its reply, drawn from a seed.

Pure: no socket, no clock, no randomness of its own. The same seed, the same request and the same
occurrence of it give the same fate, whatever the order in which concurrent clients arrive.
"""

from __future__ import annotations

import hashlib
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from ascertain.errors import InputRefused

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})


class Fate(Enum):
    """One way in which an exchange can end."""

    PASS = "pass"
    DROP_REQUEST = "drop_request"
    DELAY_REQUEST = "delay_request"
    DROP_REPLY = "drop_reply"
    DELAY_REPLY = "delay_reply"
    DOUBLE_REPLY = "double_reply"
    DOUBLE_REQUEST = "double_request"


@dataclass(frozen=True, slots=True)
class Course:
    """What a fate means: how often each way is travelled, and which way is slow."""

    deliveries: int
    copies: int
    slow_request: bool = False
    slow_reply: bool = False


COURSES: Mapping[Fate, Course] = {
    Fate.PASS: Course(deliveries=1, copies=1),
    Fate.DROP_REQUEST: Course(deliveries=0, copies=0),
    Fate.DELAY_REQUEST: Course(deliveries=1, copies=1, slow_request=True),
    Fate.DROP_REPLY: Course(deliveries=1, copies=0),
    Fate.DELAY_REPLY: Course(deliveries=1, copies=1, slow_reply=True),
    Fate.DOUBLE_REPLY: Course(deliveries=1, copies=2),
    Fate.DOUBLE_REQUEST: Course(deliveries=2, copies=1),
}


@dataclass(frozen=True, slots=True)
class Faults:
    """How often each fate is drawn, and how long the slow ones take.

    ``rates`` are probabilities for each request, together at most 1; the rest passes. Requests of
    safe methods (GET, HEAD, OPTIONS) get the rates times ``read_scale``.
    """

    rates: Mapping[Fate, float] = field(default_factory=dict)
    read_scale: float = 0.0
    delay_ms_max: int = 300
    reply_delay_ms: int = 1_500

    def __post_init__(self) -> None:
        """Refuse rates and delays that mean nothing."""
        if any(rate < 0 for rate in self.rates.values()) or sum(self.rates.values()) > 1 + 1e-9:
            raise InputRefused(
                "the rates of a lossy network are probabilities, together at most 1",
                fix=f"Got { ({fate.value: rate for fate, rate in self.rates.items()}) }.",
            )
        if Fate.PASS in self.rates:
            raise InputRefused(
                "no rate is given for 'pass'", fix="What no other rate takes passes."
            )
        if not 0 <= self.read_scale <= 1:
            raise InputRefused("read_scale is between 0 and 1", fix=f"Got {self.read_scale}.")
        if self.delay_ms_max < 1 or self.reply_delay_ms < 0:
            raise InputRefused(
                "delays are positive whole milliseconds",
                fix=f"Got delay_ms_max={self.delay_ms_max}, reply_delay_ms={self.reply_delay_ms}.",
            )


def parse_rates(rates: Mapping[str, float]) -> dict[Fate, float]:
    """Rates by the fate's name, as they come from a command line or a document."""
    known = {fate.value: fate for fate in Fate}
    unknown = sorted(set(rates) - set(known))
    if unknown:
        raise InputRefused(
            f"no such fate: {', '.join(unknown)}", fix=f"Fates are {', '.join(known)}."
        )
    return {known[name]: float(rate) for name, rate in rates.items()}


@dataclass(frozen=True, slots=True)
class Draw:
    """The fate of one request. ``delay_ms`` slows a request, or parts the two of a doubled one."""

    fate: Fate
    delay_ms: int
    occurrence: int


class Fates:
    """Draws a fate for each request; remembers how often it has seen the same one."""

    def __init__(self, faults: Faults, seed: int) -> None:
        self.faults = faults
        self.seed = seed
        self._seen: Counter[str] = Counter()
        self._next: dict[bool, deque[Fate]] = {True: deque(), False: deque()}

    def put_next(self, fates: list[Fate], *, mutating: bool = True) -> None:
        """Ordain the fates of the coming requests, whatever the rates say."""
        self._next[mutating].extend(fates)

    def draw(self, method: str, identity: str) -> Draw:
        """The fate of this request. ``identity``: what makes two requests the same one."""
        mutating = method not in SAFE_METHODS
        name = f"{method} {identity}"
        self._seen[name] += 1
        occurrence = self._seen[name]
        digest = hashlib.sha256(f"{self.seed}|{name}|{occurrence}".encode()).digest()
        chance = int.from_bytes(digest[:6], "big") / (1 << 48)
        delay_ms = 1 + int.from_bytes(digest[6:12], "big") % self.faults.delay_ms_max
        ordained = self._next[mutating]
        fate = ordained.popleft() if ordained else self._by_chance(chance, mutating)
        return Draw(fate, delay_ms, occurrence)

    def _by_chance(self, chance: float, mutating: bool) -> Fate:
        scale = 1.0 if mutating else self.faults.read_scale
        reached = 0.0
        for fate in Fate:
            reached += self.faults.rates.get(fate, 0.0) * scale
            if chance < reached:
                return fate
        return Fate.PASS
