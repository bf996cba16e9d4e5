"""The effect contract: what a provider promises about one type of action (DESIGN 3).

It is data. It is validated when it is declared, stored by digest, and bound into
every certificate. Whatever it does not know is None and counts as the unsafe case.
Durations are integers in microseconds (`SECOND`, `MINUTE`, `HOUR`, `DAY`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum
from functools import cached_property
from typing import Any

import msgspec

from ascertain.errors import DeclarationRefused

from .codec import digest, encode

SECOND = 1_000_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR
FOR_EVER = 2**53 - 1
"""A duration that never ends, where a provider says so."""

LEVELS = ("accepted", "committed", "settled")
"""Transitions of an effect in order; the contract names the one that counts."""


class Scope(Enum):
    """Who deduplicates by the key (RCC `idempotency_scope`)."""

    PROVIDER = "provider"
    APPLICATION = "application"
    NONE = "none"


class Consistency(Enum):
    """What a read may miss."""

    LINEARIZABLE = "linearizable"
    BOUNDED = "bounded"
    EVENTUAL = "eventual"


class Consequence(Enum):
    """How much an error costs; what is asked before release follows from it."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class Reversibility(Enum):
    """What a compensation can bring back (seed 000, "not time reversal")."""

    EXACT_INVERSE = "exact_inverse"
    BUSINESS_OFFSET = "business_offset"
    BEST_EFFORT_REPAIR = "best_effort_repair"
    IRREVERSIBLE = "irreversible"


class Part(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of the contract's parts."""


class Key(Part, frozen=True, kw_only=True):
    """The idempotency key. ``first_result``: a repeated key returns the first result."""

    scope: Scope = Scope.NONE
    carried_in: str = ""
    retention: int | None = None
    first_result: bool = False
    on_mismatch: str = "unknown"
    on_concurrent: str = "unknown"


class Success(Part, frozen=True, kw_only=True):
    """A reply that proves an effect, as far as ``reaches``."""

    reply: str
    reaches: str = "committed"


class Replies(Part, frozen=True, kw_only=True):
    """Three lists and a rest, which is UNKNOWN. See `ascertain.reply` for the names.

    ``refusals_stored``: the provider keeps a refusal under the key, so that it
    covers every attempt with that key and payload.
    """

    success: tuple[Success, ...] = (Success(reply="returned"),)
    refusals: tuple[str, ...] = ("declined",)
    no_effect: tuple[str, ...] = ("no_effect",)
    refusals_stored: bool = False


class Readback(Part, frozen=True, kw_only=True):
    """How the outcome can be read.

    ``by``: "action_id", "client_reference", "marker" or "none".
    ``keeps_records``: it reads a record that only its ``retention`` removes, not
    current state that others may delete.
    """

    by: str = "none"
    consistency: Consistency = Consistency.EVENTUAL
    lag: int | None = None
    keeps_records: bool = False
    retention: int | None = None


class InFlight(Part, frozen=True, kw_only=True):
    """How long a request may still land: after release, after its connection closed.

    None: not known, so that the passing of time never proves anything.
    ``longest_pause``: how long an executor may stand still before it goes on; a
    declared assumption, which the certificate names.
    ``doubles``: the network may deliver one request twice.
    ``client_retries``: the client library retries on its own, unreported.
    """

    after_release: int | None = None
    after_close: int | None = None
    longest_pause: int | None = None
    doubles: bool = False
    client_retries: bool = False


class Seal(Part, frozen=True, kw_only=True):
    """Can absence be made permanent? ``reach``: "none", "action" or "epoch"."""

    reach: str = "none"
    store: str = ""


class Postcondition(Part, frozen=True, kw_only=True):
    """Versioned predicate over authoritative state; ``fields`` are compared with the intent."""

    name: str = "effect-attributed"
    version: str = "1"
    fields: tuple[str, ...] | None = None


class Evidence(Part, frozen=True, kw_only=True):
    """The least evidence that closes the cut: witnesses from distinct control domains."""

    witnesses: int | None = None


class Retention(Part, frozen=True, kw_only=True):
    """How long fence and records live, and by which path the same intent may return."""

    records: int = FOR_EVER
    longest_replay: int = 30 * DAY
    late_arrival: str = "reject"


class Observation(Part, frozen=True, kw_only=True):
    """Bounded backoff: delays ``first``, times two, up to ``longest``; ``looks`` in all."""

    first: int = SECOND
    longest: int = 5 * MINUTE
    looks: int = 12


class Surface(Part, frozen=True, kw_only=True):
    """A further effect of the action: a fee, a mail, a webhook. In or out of the boundary."""

    effect: str
    inside: bool


class Contract(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """What is known about one type of effect. See the module and DESIGN 3.

    ``governed``: the transition that counts. ``preconditions``: predicates that every
    attempt must stand on. ``attempts``: how many releases one action may have.
    ``skew``: how far two clocks may differ.
    """

    name: str
    version: str = "1"
    domain: str = "provider"
    governed: str = "committed"
    consequence: Consequence = Consequence.MEDIUM
    reversibility: Reversibility = Reversibility.BUSINESS_OFFSET
    surface: tuple[Surface, ...] | None = None
    key: Key = Key()
    replies: Replies = Replies()
    readback: Readback = Readback()
    in_flight: InFlight = InFlight()
    seal: Seal = Seal()
    preconditions: tuple[str, ...] = ()
    postcondition: Postcondition = Postcondition()
    evidence: Evidence = Evidence()
    retention: Retention = Retention()
    observation: Observation = Observation()
    attempts: int = 3
    skew: int = 5 * SECOND
    convergent: bool = False
    permanent_unknown_accepted_by: str | None = None

    @cached_property
    def plain(self) -> Any:
        """The contract as a value of the JSON profile."""
        return msgspec.json.decode(msgspec.json.encode(self))

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical contract: its identity in records and certificates."""
        return digest(encode(self.plain))

    @cached_property
    def witnesses(self) -> int:
        """Distinct control domains asked for: as declared, else by consequence."""
        declared = self.evidence.witnesses
        if declared is not None:
            return declared
        return 2 if self.consequence is Consequence.HIGH else 1

    @cached_property
    def reaches(self) -> dict[str, str]:
        """Each success reply's transition."""
        return {item.reply: item.reaches for item in self.replies.success}

    def classify(self, names: tuple[str, ...]) -> str:
        """The first of a reply's names that the contract lists, or "" (unknown)."""
        replies = self.replies
        for name in names:
            if name in self.reaches or name in replies.refusals or name in replies.no_effect:
                return name
        return ""


_TIMEOUT = re.compile(r"time.?d?.?out|deadline", re.IGNORECASE)
_LOST = re.compile(
    r"(^|[.:])(BaseException|Exception|OSError|IOError|ConnectionError|ConnectionResetError"
    r"|ConnectionAbortedError|BrokenPipeError|RemoteDisconnected|IncompleteRead|BadStatusLine"
    r"|APIConnectionError|NetworkError|ReadError|WriteError|RemoteProtocolError|TransportError"
    r"|HTTPError|RequestException|RequestError|ChunkedEncodingError|KeyboardInterrupt)$"
)
_SERVER = re.compile(r"^http:(5\d\d|5xx|408|409|425)$")


def reply_refusal(name: str) -> str | None:
    """Why a reply name can stand in none of the three lists, or None (DESIGN 3, replies)."""
    if _TIMEOUT.search(name):
        return "a timeout says that no answer came, not what happened"
    if _LOST.search(name):
        return "a lost connection, or an error that also covers one, does not say what happened"
    if _SERVER.match(name):
        return "this answer leaves open what happened"
    return None


def _problems(contract: Contract) -> Iterator[tuple[str, str]]:
    """(what is wrong, what to write) for each rule of DESIGN 3 that does not hold."""
    yield from _reply_problems(contract.replies)
    yield from _bound_problems(contract)
    yield from _word_problems(contract)
    if contract.convergent and contract.surface:
        yield (
            "a convergent action has further effects",
            "Repeating it repeats them: take convergent=True out, or fence them on their own.",
        )
    if contract.surface is None:
        yield (
            "the surface is not declared",
            "Write surface=() if the call has no further effect, or list each fee, mail, webhook "
            'and downstream job: Surface(effect="receipt mail", inside=False).',
        )
    safe = (
        contract.key.scope is not Scope.NONE
        or contract.seal.reach != "none"
        or contract.readback.by != "none"
        or contract.convergent
    )
    if (
        contract.reversibility is Reversibility.IRREVERSIBLE
        and not safe
        and not contract.permanent_unknown_accepted_by
    ):
        yield (
            "an irreversible effect with neither key, seal nor readback can stay unknown for ever",
            'Write permanent_unknown_accepted_by="<who accepts that, and why>", or a readback.',
        )


def _reply_problems(replies: Replies) -> Iterator[tuple[str, str]]:
    lists = {
        "success": tuple(item.reply for item in replies.success),
        "refusals": replies.refusals,
        "no_effect": replies.no_effect,
    }
    seen: dict[str, str] = {}
    for listed, names in lists.items():
        for name in names:
            why = reply_refusal(name)
            if why is not None:
                yield (
                    f"{name!r} stands in replies.{listed}: {why}",
                    f"Take {name!r} out of replies.{listed}; what no list names is UNKNOWN and is "
                    "looked up.",
                )
            if name in seen:
                yield (
                    f"{name!r} stands in replies.{seen[name]} and in replies.{listed}",
                    "Keep it in one list.",
                )
            seen[name] = listed
    if not replies.success:
        yield ("replies.success is empty", 'Write success=(Success(reply="returned"),).')
    for item in replies.success:
        if item.reaches not in LEVELS:
            yield (
                f"a success reaches {item.reaches!r}",
                f"Write one of {', '.join(LEVELS)}.",
            )


def _bound_problems(contract: Contract) -> Iterator[tuple[str, str]]:
    readback, key, retention = contract.readback, contract.key, contract.retention
    if readback.consistency is Consistency.BOUNDED and readback.lag is None:
        yield (
            "a bounded readback has no lag",
            "Write lag=…, or Consistency.EVENTUAL where the provider promises none.",
        )
    if key.first_result and key.scope is Scope.NONE:
        yield (
            "key.first_result without a key scope",
            "Write scope=Scope.PROVIDER (or APPLICATION), or first_result=False.",
        )
    if key.first_result and key.retention is None:
        yield (
            "key.first_result without the key's retention",
            "Write retention=…; a replay after it is a second effect.",
        )
    if retention.records < retention.longest_replay:
        yield (
            "records are kept for less time than the longest replay path",
            "Write retention=Retention(records=…) at least as long as longest_replay: client "
            "retries, redelivery, restored backups and resubmission by hand included.",
        )
    if contract.replies.refusals_stored and key.scope is Scope.NONE:
        yield (
            "refusals_stored without a key",
            "A refusal is stored under a key: declare the key, or refusals_stored=False.",
        )
    for name, value in _durations(contract):
        if value is not None and not 0 <= value <= FOR_EVER:
            yield (f"{name} is {value}", "Write microseconds, from 0 up to FOR_EVER.")
    if contract.attempts < 1 or contract.observation.looks < 1 or contract.witnesses < 1:
        yield ("a count is below one", "attempts, observation.looks and witnesses start at 1.")


def _durations(contract: Contract) -> Iterator[tuple[str, int | None]]:
    for part in ("key", "readback", "in_flight", "retention", "observation"):
        for field in (
            "retention",
            "lag",
            "after_release",
            "after_close",
            "records",
            "longest_replay",
            "first",
            "longest",
        ):
            value = getattr(getattr(contract, part), field, None)
            yield f"{part}.{field}", value
    yield "skew", contract.skew


_WORDS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("governed", LEVELS),
    ("readback.by", ("action_id", "client_reference", "marker", "none")),
    ("seal.reach", ("none", "action", "epoch")),
    ("retention.late_arrival", ("reject", "quarantine", "archive")),
)

_LATER: tuple[tuple[str, Any, str], ...] = (
    ("seal.reach", "epoch", "epoch seals need the observers of a later release"),
    (
        "retention.late_arrival",
        "quarantine",
        "late arrivals meet the full record until there are retention tiers",
    ),
    ("retention.late_arrival", "archive", "archives need the retention tiers of a later release"),
)


def _word_problems(contract: Contract) -> Iterator[tuple[str, str]]:
    for path, words in _WORDS:
        value: Any = contract
        for name in path.split("."):
            value = getattr(value, name)
        if value not in words:
            yield (f"{path} is {value!r}", f"Write one of {', '.join(words)}.")
        for later, refused, why in _LATER:
            if later == path and value == refused:
                yield (f"{path}={value!r} cannot be honoured yet: {why}", "Write another value.")
    if contract.seal.reach != "none" and not contract.seal.store:
        yield ("a seal without its store", 'Write seal=Seal(reach="action", store="…").')


def validate(contract: Contract) -> Contract:
    """The contract, if it may be registered. Raises DeclarationRefused, listing every problem."""
    problems = list(_problems(contract))
    if problems:
        what = "; ".join(problem for problem, _ in problems)
        raise DeclarationRefused(
            f"contract {contract.name!r} is refused: {what}",
            fix="\n".join(write for _, write in problems),
        )
    return contract
