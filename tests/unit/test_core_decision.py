"""The decision table: total, disjoint, and the one that the design describes."""

from __future__ import annotations

import math
import random
from itertools import combinations, product
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascertain.core import decision_page
from ascertain.core.decision import ROWS, TABLE, Row, decide
from ascertain.core.facts import (
    DOMAINS,
    Closure,
    Compensation,
    Decision,
    Effects,
    Facts,
    Finding,
    Needs,
    Preconditions,
)

F = Finding
E, A, V = Decision.EXECUTE, Decision.ADOPT, Decision.VERIFY
R, C, Q = Decision.REAUTHORISE, Decision.COMPENSATE, Decision.QUARANTINE

# The decision of every row, in the order of the table. A row that asks for a look has three
# forms: verify, unobserved (reauthorise), exhausted (quarantine).
SINGLE: dict[str, Decision] = {
    "contradiction/applied-uncounted": Q,
    "contradiction/effect-denied-by-outcome": Q,
    "contradiction/compensated-nothing": Q,
    "contradiction/compensated-standing": Q,
    "compensation-failed/applied": Q,
    "compensation-failed/conflict": Q,
    "compensated/surplus": A,
    "compensated/denied": A,
    "surplus/compensate": C,
    "surplus/capability-lapsed": R,
    "surplus/sources": Q,
    "surplus/inexact": Q,
    "surplus/no-compensator": Q,
    "denied/compensate": C,
    "denied/capability-lapsed": R,
    "denied/sources": Q,
    "denied/inexact": Q,
    "denied/no-compensator": Q,
    "mismatch/one": Q,
    "mismatch/reversed": Q,
    "mismatch/reversed-denied": Q,
    "mismatch/none": Q,
    "mismatch/conflict": Q,
    "applied/reversed": A,
    "applied/reversed-denied": A,
    "applied/final": A,
    "rejected": A,
    "not-applied/sealed": R,
    "not-applied/needs-broken": R,
    "not-applied/authority-lapsed": R,
    "not-applied/continue-lapsed": R,
    "not-applied/precondition-broken": R,
    "not-applied/attempts-used": Q,
    "not-applied/execute": E,
    "unknown/verify": V,
    "unknown/verify/unobserved": R,
    "unknown/authority-lapsed": R,
    "unknown/continue-lapsed": R,
    "unknown/no-safe-replay": Q,
    "unknown/precondition": Q,
    "unknown/needs": Q,
    "unknown/attempts-used": Q,
    "unknown/breaker-open": Q,
    "unknown/replay": E,
}
LOOKED: tuple[str, ...] = (
    "compensation-open/applied",
    "compensation-open/conflict",
    "surplus/unsettled",
    "surplus/sources/cause-missing",
    "surplus/inexact/cause-missing",
    "surplus/no-compensator/cause-missing",
    "denied/unsettled",
    "denied/sources/cause-missing",
    "denied/inexact/cause-missing",
    "denied/no-compensator/cause-missing",
    "cause-missing/one",
    "cause-missing/reversed",
    "cause-missing/reversed-denied",
    "cause-missing/none",
    "cause-missing/conflict",
    "applied/short",
    "applied/provisional",
    "not-applied/needs-open",
    "not-applied/precondition-unverified",
    "not-applied/breaker-open",
)
EXPECTED: dict[str, Decision] = SINGLE | {
    f"{name}{form}": decision
    for name in LOOKED
    for form, decision in (("", V), ("/unobserved", R), ("/exhausted", Q))
}

WHOLE = math.prod(len(values) for values in DOMAINS.values())


def test_every_row_has_the_decision_that_is_written_here() -> None:
    assert {row.name: row.decision for row in TABLE} == EXPECTED
    assert {row.name: row for row in TABLE} == ROWS
    assert len(ROWS) == len(TABLE)


def test_every_row_has_a_reason_and_names_known_facts() -> None:
    for row in TABLE:
        assert len(row.reason) > 20, row.name
        assert row.reason[0].islower(), row.name
        assert list(row.when) == [name for name in DOMAINS if name in row.when], row.name
        for name, values in row.when.items():
            assert len(set(values)) == len(values), (row.name, name)
            assert set(values) <= set(DOMAINS[name]), (row.name, name)


def volume(row: Row) -> int:
    return math.prod(len(row.when.get(name, values)) for name, values in DOMAINS.items())


def test_the_rows_are_disjoint_and_cover_every_combination() -> None:
    """Pairwise disjoint boxes whose volumes add up to the whole: exactly one row for each."""
    assert WHOLE == 15_925_248
    for one, other in combinations(TABLE, 2):
        apart = any(
            not set(one.when[name]) & set(other.when[name])
            for name in one.when.keys() & other.when.keys()
        )
        assert apart, (one.name, other.name)
    assert all(volume(row) > 0 for row in TABLE)
    assert sum(volume(row) for row in TABLE) == WHOLE


def combinations_of(row: Row) -> int:
    """One bit for each combination that the row matches, numbered as `product` numbers them."""
    bits, weight = 1, 1
    for name in reversed(DOMAINS):
        chosen = row.when.get(name, DOMAINS[name])
        places = [place for place, value in enumerate(DOMAINS[name]) if value in chosen]
        bits = sum(bits << (place * weight) for place in places)
        weight *= len(DOMAINS[name])
    return bits


def test_each_of_the_combinations_is_in_one_row() -> None:
    """All 15,925,248 of them, one bit each."""
    reached = 0
    for row in TABLE:
        bits = combinations_of(row)
        assert bits.bit_count() == volume(row), row.name
        assert not reached & bits, row.name
        reached |= bits
    assert reached == (1 << WHOLE) - 1


@pytest.mark.full
def test_each_of_the_combinations_is_decided_as_it_is_described() -> None:
    """About a minute: the transcription below, for every combination."""
    decided = bytearray(WHOLE)
    order = list(Decision)
    for row in TABLE:
        bits, place = combinations_of(row), order.index(row.decision)
        raw = bits.to_bytes(WHOLE // 8, "little")
        for at, byte in enumerate(raw):
            if byte:
                for bit in range(8):
                    if byte >> bit & 1:
                        decided[at * 8 + bit] = place
    places = {decision: place for place, decision in enumerate(order)}
    for number, values in enumerate(product(*DOMAINS.values())):
        facts = Facts(*values)  # type: ignore[arg-type]
        assert places[described(facts)] == decided[number], facts


# --- the table of the design, transcribed ------------------------------------------------

APPLIED = (F.APPLIED_FINAL, F.APPLIED_SHORT, F.APPLIED_PROVISIONAL, F.APPLIED_REVERSED)

# Where the design's table, read to the letter, says something else or nothing, the code takes
# the safe reading. These are all the places:
DEVIATIONS = {
    "contradiction: compensation beside no effect": "a compensation counteracts an effect, so "
    "one that stands beside none contradicts; the design gives one example of a contradiction",
    "contradiction: applied compensation of a standing effect": "where one effect is proved, "
    "nobody denied it, it was compensated and still counts as standing",
    "denied and compensated": "adopted, as surplus effects are: nothing unearned is left",
    "surplus or denied, another attempt unsettled": "verify: the row above it asks only for "
    "that to be settled, and looking can settle it; the letter says quarantine",
    "reversed": "an applied and reversed effect under a deny is adopted as terminal: there is "
    "nothing left to compensate",
}


def look(facts: Facts) -> Decision:
    """Every verify asks for more to be had, else quarantine, and observe held, else reauthorise."""
    if not facts.more:
        return Q
    return V if facts.observe else R


def described(facts: Facts) -> Decision:
    """DESIGN 7's table: the first row that matches."""
    f = facts
    applied, conflict = f.finding in APPLIED, f.finding is F.CONFLICT
    if contradicts(f):
        return Q
    if f.compensation is Compensation.OPEN:
        return look(f)
    if f.compensation is Compensation.FAILED:
        return Q
    made = f.compensation is Compensation.APPLIED
    if made and f.effects in (Effects.SURPLUS, Effects.DENIED):
        return A
    unearned = f.effects is Effects.SURPLUS or (
        f.effects is Effects.DENIED and f.finding is not F.APPLIED_REVERSED
    )
    if unearned and not made:
        if not f.settled:
            return look(f)
        if f.sources and f.exact and f.compensator:
            return C if f.counteract else R
    if f.closure is Closure.CAUSE_MISSING:
        return look(f)
    if f.closure is not Closure.CLOSED or conflict or unearned:
        return Q
    if applied:
        if f.finding in (F.APPLIED_REVERSED, F.APPLIED_FINAL):
            return A
        return look(f)
    if f.finding is F.REJECTED:
        return A
    if f.finding is F.NOT_APPLIED_SEALED:
        return R
    return absent_described(f) if f.finding is F.NOT_APPLIED else unknown_described(f)


def contradicts(f: Facts) -> bool:
    applied, conflict = f.finding in APPLIED, f.finding is F.CONFLICT
    if applied and f.effects in (Effects.NONE, Effects.SURPLUS):
        return True
    if not applied and not conflict and f.effects is not Effects.NONE:
        return True
    if f.effects is Effects.NONE and f.compensation is not Compensation.NONE:
        return True
    standing = f.finding is not F.APPLIED_REVERSED
    return f.effects is Effects.ONE and f.compensation is Compensation.APPLIED and standing


def absent_described(f: Facts) -> Decision:
    if f.needs is Needs.OPEN:
        return look(f)
    if f.needs is Needs.BROKEN:
        return R
    if not f.authority or not f.proceed or f.preconditions is Preconditions.BROKEN:
        return R
    if f.preconditions is Preconditions.UNVERIFIED:
        return look(f)
    if not f.attempts_left:
        return Q
    return look(f) if f.breaker_open else E


def unknown_described(f: Facts) -> Decision:
    if f.more:
        return look(f)
    if not f.authority or not f.proceed:
        return R
    held = f.preconditions is Preconditions.HOLD and f.needs is Needs.MET
    if f.replay and held and f.attempts_left:
        return look(f) if f.breaker_open else E
    return Q


def chosen_at_random(chance: random.Random) -> Facts:
    return Facts(*(chance.choice(values) for values in DOMAINS.values()))  # type: ignore[arg-type]


def test_the_code_decides_as_the_design_says_on_random_facts() -> None:
    chance = random.Random(190)
    for _ in range(200_000):
        facts = chosen_at_random(chance)
        row = decide.__wrapped__(facts)
        assert row.matches(facts)
        assert row.decision is described(facts), (row.name, facts)


# Facts in which nothing is wrong, and what each outcome then is.
USUAL: dict[F, tuple[Effects, Decision]] = {
    F.APPLIED_FINAL: (Effects.ONE, A),
    F.APPLIED_SHORT: (Effects.ONE, V),
    F.APPLIED_PROVISIONAL: (Effects.ONE, V),
    F.APPLIED_REVERSED: (Effects.ONE, A),
    F.REJECTED: (Effects.NONE, A),
    F.NOT_APPLIED: (Effects.NONE, E),
    F.NOT_APPLIED_SEALED: (Effects.NONE, R),
    F.CONFLICT: (Effects.ONE, Q),
    F.UNKNOWN: (Effects.NONE, V),
}


def test_the_interesting_facts_are_decided_as_described() -> None:
    """Up to three facts away from the usual ones, in every way, for each outcome."""
    for finding, (effects, decision) in USUAL.items():
        usual = Facts(finding=finding, effects=effects)
        assert decide(usual).decision is decision
        for names in combinations([name for name in DOMAINS if name != "finding"], 3):
            for values in product(*(DOMAINS[name] for name in names)):
                facts = usual._replace(**dict(zip(names, values, strict=True)))
                assert decide(facts).decision is described(facts), facts


def test_the_corners_of_every_row_are_decided_as_described() -> None:
    for row in TABLE:
        for pick in (0, -1):
            corner = {name: row.when.get(name, v)[pick] for name, v in DOMAINS.items()}
            facts = Facts(**corner)  # type: ignore[arg-type]
            assert decide(facts) is row
            assert described(facts) is row.decision, row.name


every_fact = st.builds(Facts, **{name: st.sampled_from(v) for name, v in DOMAINS.items()})


@given(every_fact)
def test_a_fresh_effect_needs_what_it_needs(facts: Facts) -> None:
    decision = decide(facts).decision
    if decision is E:
        assert facts.authority and facts.proceed and facts.attempts_left  # noqa: PT018
        assert facts.preconditions is Preconditions.HOLD
        assert facts.needs is Needs.MET
        assert not facts.breaker_open
        assert facts.closure is Closure.CLOSED
        assert facts.finding is F.NOT_APPLIED or (facts.finding is F.UNKNOWN and facts.replay)
    if decision is C:
        assert facts.counteract and facts.settled and facts.sources  # noqa: PT018
        assert facts.exact and facts.compensator  # noqa: PT018
        assert facts.effects in (Effects.SURPLUS, Effects.DENIED)
    if decision is V:
        assert facts.more
        assert facts.observe


@given(every_fact, st.sampled_from(["authority", "observe", "proceed", "counteract"]))
def test_less_authority_never_allows_more(facts: Facts, name: str) -> None:
    """Taking a capability away never turns a decision into one that causes an effect."""
    without: dict[str, Any] = {name: False}
    less = decide(facts._replace(**without)).decision
    if less in (E, C):
        assert less is decide(facts).decision


def test_what_is_known_of_the_deviations_is_what_the_code_does() -> None:
    cases: dict[str, tuple[Facts, Decision]] = {
        "contradiction: compensation beside no effect": (
            Facts(finding=F.UNKNOWN, compensation=Compensation.OPEN),
            Q,
        ),
        "contradiction: applied compensation of a standing effect": (
            Facts(finding=F.APPLIED_FINAL, effects=Effects.ONE, compensation=Compensation.APPLIED),
            Q,
        ),
        "denied and compensated": (
            Facts(
                finding=F.APPLIED_FINAL, effects=Effects.DENIED, compensation=Compensation.APPLIED
            ),
            A,
        ),
        "surplus or denied, another attempt unsettled": (
            Facts(finding=F.CONFLICT, effects=Effects.SURPLUS, settled=False),
            V,
        ),
        "reversed": (Facts(finding=F.APPLIED_REVERSED, effects=Effects.DENIED), A),
    }
    assert cases.keys() == DEVIATIONS.keys()
    for name, (facts, decision) in cases.items():
        assert decide(facts).decision is decision, name


# --- the page ----------------------------------------------------------------------------

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "decision-table.md"


def test_the_page_is_made_from_the_rows() -> None:
    text = decision_page.page()
    for row in TABLE:
        line = next(line for line in text.splitlines() if line.startswith(f"| `{row.name}` |"))
        assert f"| **{row.decision.value}** |" in line
        assert row.reason[1:] in line
        assert all(f"`{name}`" in line for name in row.when)
    assert set(decision_page.MEANINGS) == set(DOMAINS)
    assert list(decision_page.groups()) == list(decision_page.HEADINGS)


def test_the_page_is_up_to_date() -> None:
    """Else run `make docs` and commit the result."""
    assert PAGE.read_text(encoding="utf-8") == decision_page.page().rstrip() + "\n"


def test_the_diagram_shows_each_way_once() -> None:
    root = ElementTree.fromstring(decision_page.diagram())
    ways = {(row.name.partition("/")[0], row.decision) for row in TABLE}
    assert len([node for node in root if node.tag.endswith("path")]) == len(ways)
    shown = [node.text for node in root if node.tag.endswith("text")]
    assert shown == [*decision_page.HEADINGS.values(), *(item.value for item in Decision)]
