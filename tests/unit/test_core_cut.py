"""The cut and its violations: each rule of DESIGN 5, broken once."""

from __future__ import annotations

from hashlib import sha256
from typing import Any

import msgspec
import pytest

from ascertain.core.cut import Breach, Sources, chain_violations, cut
from ascertain.core.records import (
    GENESIS,
    CapabilityGranted,
    CertificateIssued,
    Chain,
    CompensationLinked,
)
from tests.lineages import ACTION, JOURNAL, LEDGER, PARAMETERS, T0, Lineage, but

SECOND = 1_000_000


def done(**options: Any) -> Lineage:
    """Intent, allow, one attempt, a reply with its effect, and a readback."""
    return Lineage(**options).release().replied().seen()


def test_a_lineage_without_faults_is_closed() -> None:
    assert done().violations() == []


# Each: how the lineage is built, the rules that it breaks, and how grave the first one is.
def _intent_missing() -> Lineage:
    line = Lineage()
    return line.release(causes=(line.allowed.digest,))


def _decision_missing() -> Lineage:
    line = Lineage()
    return line.release(causes=(line.wanted.digest,))


def _decision_about(**changes: Any) -> Lineage:
    line = Lineage(decided=None)
    line.decided(**changes)
    return line.release()


def _other_version() -> Lineage:
    """The decision was made about version 3, the attempt names version 4."""
    line = Lineage()
    line.intent(version=4)
    return line.release()


def _limits(parameters: dict[str, Any], limits: dict[str, int]) -> Lineage:
    line = Lineage(intent=False, decided=None)
    line.intent(parameters=parameters)
    line.decided(limits=limits)
    return line.release()


def _revoked_before() -> Lineage:
    line = Lineage()
    line.revoke()
    return line.release()


def _decided_after() -> Lineage:
    """The digest of a record that comes later cannot be known; the rule holds all the same."""
    line = Lineage(decided=None)
    later = Lineage(decided=None)
    later.release()
    allowed = later.decided()
    line.release(causes=(line.wanted.digest, allowed.digest))
    line.decided()
    line.chain.entries[-1] = msgspec.structs.replace(
        line.chain.entries[-1], digest=allowed.digest, record=allowed.record
    )
    return line


def _precondition(holds: str) -> Lineage:
    line = Lineage(but(preconditions=("account-open",)))
    seen = line.precondition(holds)
    return line.release(causes=(line.wanted.digest, line.allowed.digest, seen.digest))


def _precondition_not_named() -> Lineage:
    line = Lineage(but(preconditions=("account-open",)))
    line.precondition()
    return line.release()


def _other_precondition() -> Lineage:
    line = Lineage(but(preconditions=("account-open",)))
    seen = line.precondition(predicate="invoice-approved")
    return line.release(causes=(line.wanted.digest, line.allowed.digest, seen.digest))


MISSING, MISMATCH, DENIED = Breach.MISSING, Breach.MISMATCH, Breach.DENIED
BROKEN: dict[str, tuple[Lineage, list[str], Breach]] = {
    "orphan effect": (Lineage().seen(), ["orphan-effect"], MISSING),
    "orphan effect, nothing decided": (
        Lineage(decided=None).seen(),
        ["orphan-effect"],
        MISSING,
    ),
    "orphan effect under a deny": (
        Lineage(decided="deny").seen(),
        ["orphan-effect"],
        DENIED,
    ),
    "effect of an attempt that is not recorded": (
        Lineage().release().effect(number=2),
        ["orphan-effect"],
        MISSING,
    ),
    "effect before its release": (Lineage().effect().release(), ["order"], MISMATCH),
    "attempt without intent": (_intent_missing(), ["attempt-without-intent"], MISSING),
    "attempt without decision": (_decision_missing(), ["attempt-without-decision"], MISSING),
    "attempt under a deny": (_decision_about(outcome="deny"), ["denied"], DENIED),
    "decision expired": (
        _decision_about(valid_until=T0 + 2 * SECOND),
        ["decision-validity"],
        MISMATCH,
    ),
    "decision not yet valid": (
        _decision_about(valid_from=T0 + 4 * SECOND),
        ["decision-validity"],
        MISMATCH,
    ),
    "decision revoked before": (_revoked_before(), ["decision-revoked"], MISMATCH),
    "decision after its release": (_decided_after(), ["order"], MISMATCH),
    "decision about another version": (_other_version(), ["decision-intent"], MISMATCH),
    "decision about another subject": (
        _decision_about(subject="acct-8"),
        ["decision-subject"],
        MISMATCH,
    ),
    "decision for another purpose": (
        _decision_about(purpose="refund"),
        ["decision-purpose"],
        MISMATCH,
    ),
    "decision for another type": (
        _decision_about(action_type="refund"),
        ["decision-action_type"],
        MISMATCH,
    ),
    "above the limit": (_decision_about(limits={"amount": 1}), ["decision-limits"], MISMATCH),
    "a limit on what is not there": (
        _decision_about(limits={"fee": 1}),
        ["decision-limits"],
        MISMATCH,
    ),
    "a limit on what is no number": (
        _limits({"amount": "12"}, {"amount": 200}),
        ["decision-limits"],
        MISMATCH,
    ),
    "a limit on a yes or no": (
        _limits({"amount": True}, {"amount": 200}),
        ["decision-limits"],
        MISMATCH,
    ),
    "a decision that was reserved for another": (
        Lineage().release(decision_id="d2"),
        ["decision-reserved"],
        MISMATCH,
    ),
    "payload": (Lineage().release(payload_hash="p2"), ["payload"], MISMATCH),
    "precondition broken": (
        _precondition("broken"),
        ["attempt-without-precondition"],
        MISSING,
    ),
    "precondition unverified": (
        _precondition("unverified"),
        ["attempt-without-precondition"],
        MISSING,
    ),
    "precondition not named": (
        _precondition_not_named(),
        ["attempt-without-precondition"],
        MISSING,
    ),
    "another precondition": (_other_precondition(), ["attempt-without-precondition"], MISSING),
    "the effect has another payload": (
        Lineage().release().effect(matches=False),
        ["effect-payload"],
        MISMATCH,
    ),
    "postcondition": (Lineage().release().checked(False), ["postcondition"], MISMATCH),
    "receipt for another action": (
        Lineage().release().receipt("readback", about="pay-2", claim="committed"),
        ["receipt-action"],
        MISMATCH,
    ),
    "absence of another action": (
        Lineage().release().receipt("absence", about="pay-2"),
        ["receipt-action"],
        MISMATCH,
    ),
    "receipt for another attempt": (
        Lineage().release().receipt("reply", claim="committed", number=2),
        ["receipt-attempt"],
        MISMATCH,
    ),
    "receipt before its release": (
        Lineage().receipt("reply", claim="committed").release(),
        ["order"],
        MISMATCH,
    ),
    "receipt observed before its release": (
        Lineage().release(at=20).receipt("reply", claim="committed", observed_at=T0 + 14_999_999),
        ["order"],
        MISMATCH,
    ),
    "release under a stale epoch": (
        Lineage().leased(epoch=2).release(),
        ["stale-epoch"],
        MISMATCH,
    ),
    "release under an epoch below an attempt's": (
        Lineage().release(epoch=3).release(epoch=2),
        ["stale-epoch"],
        MISMATCH,
    ),
    "decision under a stale epoch": (
        Lineage().release().leased(epoch=2).recovered(epoch=1),
        ["stale-epoch"],
        MISMATCH,
    ),
    "one attempt released twice": (
        Lineage().release().release(number=1),
        ["attempt-twice"],
        MISMATCH,
    ),
    "return without its attempt": (
        Lineage().release().returned("lost", number=2),
        ["return-without-attempt"],
        MISSING,
    ),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_named(name: str) -> None:
    line, rules, breach = BROKEN[name]
    found = line.violations()
    assert [item.rule for item in found] == rules
    assert found[0].breach is breach
    assert found[0].text
    digests = {entry.digest for entry in line.chain.entries}
    for item in found:
        assert item.first in digests
        assert item.second == "" or item.second in digests


def _precondition_held() -> Lineage:
    return _precondition("hold")


def _one_of_two_preconditions() -> Lineage:
    """Another predicate, and an older look that failed, stand beside the one that is asked for."""
    line = Lineage(but(preconditions=("account-open",)))
    seen = [
        line.precondition(predicate="invoice-approved"),
        line.precondition("broken"),
        line.precondition(),
    ]
    causes = (line.wanted.digest, line.allowed.digest, *(entry.digest for entry in seen))
    return line.release(causes=causes)


FINE: dict[str, Lineage] = {
    "one of several preconditions": _one_of_two_preconditions(),
    "late evidence under an old epoch is none": (
        Lineage().release().leased(epoch=2).replied().returned("lost")
    ),
    "released at the first moment": _decision_about(valid_from=T0 + 3 * SECOND),
    "released at the last moment": _decision_about(valid_until=T0 + 3 * SECOND),
    "as much as the limit": _decision_about(limits={"amount": PARAMETERS["amount"]}),
    "a refusal needs no attempt": Lineage().effect("rejected", reference=None),
    "a precondition that holds": _precondition_held(),
    "a receipt within the skew": (
        Lineage().release(at=20).receipt("reply", claim="committed", observed_at=T0 + 15_000_000)
    ),
    "an empty read before the release claims nothing": Lineage().absent().release(),
    "an unknown attempt's unclaimed receipt": (Lineage().release().receipt("unreadable", number=9)),
    "a receipt for this action": (
        Lineage().release().receipt("readback", about=ACTION, claim="committed")
    ),
    "the postcondition could not be checked": Lineage().release().checked(None),
    "an effect and its receipt between two releases": (
        Lineage().release().replied().seen().release().lost()
    ),
    "the same epoch": Lineage().leased(epoch=1).release().recovered(epoch=1),
    "an effect that could not be compared": Lineage().release().effect(matches=None),
}


@pytest.mark.parametrize("name", FINE)
def test_what_breaks_no_rule(name: str) -> None:
    assert FINE[name].violations() == []


def test_an_authority_revoked_after_the_release_undoes_nothing() -> None:
    line = Lineage().release().replied()
    line.revoke()
    assert line.violations() == []
    line.revoke("another")
    assert line.violations() == []


def test_a_revoked_decision_of_somebody_else_is_not_ours() -> None:
    line = Lineage()
    line.revoke("d2")
    assert line.release().violations() == []


def test_a_payload_names_both_records() -> None:
    line = Lineage().release(payload_hash="p2")
    (found,) = line.violations()
    assert (found.first, found.second) == (line.last.digest, line.wanted.digest)


def test_a_later_allow_does_not_hide_the_deny() -> None:
    """The newest decision counts for an orphan; an attempt stands on the one that it names."""
    line = Lineage(decided="deny")
    line.release()
    line.decided("allow", decision_id="d2")
    assert line.rules() == ["denied"]


# --- the view ----------------------------------------------------------------------------


def test_a_reply_is_not_replaced_by_a_later_word() -> None:
    line = Lineage().release().returned("replied", "declined").returned("lost")
    assert line.view.returned[1].record.transport == "replied"


def test_a_lost_return_is_replaced_by_a_late_reply() -> None:
    line = Lineage().release().lost().returned("replied", "declined")
    assert line.view.returned[1].record.reply == "declined"


def test_what_left_once_is_not_called_unsent() -> None:
    line = Lineage().release().lost().returned("not_sent")
    assert line.view.returned[1].record.transport == "lost"


def test_an_unsent_attempt_may_turn_out_to_have_left() -> None:
    line = Lineage().release().returned("not_sent").lost()
    assert line.view.returned[1].record.transport == "lost"


def test_a_return_before_its_release_says_nothing_of_it() -> None:
    line = Lineage().returned("not_sent", number=1).release()
    assert line.view.returned == {}
    assert [entry.position for entry in line.view.unmatched] == [3]


def test_the_first_proof_of_death_counts() -> None:
    line = Lineage().release().gone(at=10).gone(at=20)
    assert line.view.gone["worker-1"].record.at == T0 + 10 * SECOND


def test_whoever_releases_again_was_not_gone() -> None:
    line = Lineage().release(executor="w").gone("w").release(executor="w")
    assert line.view.gone == {}


def test_decisions_of_recovery_are_kept_in_order() -> None:
    line = Lineage().release().recovered(epoch=1).leased(epoch=2).recovered(epoch=2)
    assert [entry.record.epoch for entry in line.view.recoveries] == [1, 2]
    assert line.view.epoch == 2


def test_a_view_of_nothing() -> None:
    line = Lineage(intent=False, decided=None)
    assert line.view.intent is None
    assert line.view.last_release is None
    assert line.violations() == []
    assert line.view.epoch == 0


def test_the_newest_intent_and_attempt() -> None:
    line = Lineage().release().release()
    line.intent(version=4)
    assert line.view.intent.version == 4
    assert line.view.last_release.record.number == 2
    assert sorted(line.view.released) == [1, 2]


def test_records_are_sorted_by_action() -> None:
    line = Lineage().release()
    line.add(
        CompensationLinked, reference="EXT-1", compensator="pay-1/c", reversibility="exact_inverse"
    )
    line.leased(epoch=4)
    line.action_id = "pay-1/c"
    line.intent()
    line.add(
        CapabilityGranted,
        capability_id="c1",
        verb="observe",
        actor="w",
        scope="*",
        valid_until=T0,
        policy_version="1",
    )
    line.add(CertificateIssued, cut=3, digest="0" * 64, form="certificate")
    found = line.cut()
    assert set(found.views) == {"pay-1", "pay-1/c"}
    first, second = found.views["pay-1"], found.views["pay-1/c"]
    assert len(first.compensations) == 1
    assert first.epoch == 4
    assert len(second.intents) == 1
    assert second.decisions == []
    assert [len(getattr(second, name)) for name in ("receipts", "checks", "attested")] == [0, 0, 0]


# --- the cut -----------------------------------------------------------------------------


def test_a_cut_knows_the_prefix_of_each_stream() -> None:
    line = Lineage().release().replied()
    line.leased()
    entries = line.chain.entries
    found = line.cut()
    assert (found.lineage, found.position, found.digest) == ("root-1", 7, entries[-1].digest)
    assert found.as_of == T0 + line.now + SECOND
    assert found.sources == Sources(True, JOURNAL)
    assert found.prefixes() == {
        "intent": {"position": 1, "digest": entries[0].digest},
        "authority": {"position": 2, "digest": entries[1].digest},
        "state": {"position": 0, "digest": GENESIS},
        "effect": {"position": 5, "digest": entries[4].digest},
        "receipt": {"position": 6, "digest": entries[5].digest},
    }


def test_an_empty_cut() -> None:
    found = cut([], as_of=T0, sources=Sources())
    assert (found.lineage, found.position, found.digest, found.views) == ("", 0, GENESIS, {})
    assert found.sources == Sources(True, "")


def test_records_name_their_stream() -> None:
    streams = [entry.record.stream.value for entry in done().chain.entries]
    assert streams == [
        "intent", "authority", "effect", "effect", "effect", "receipt", "effect", "receipt",
        "receipt",
    ]  # fmt: skip


# --- the chain ---------------------------------------------------------------------------


def test_a_whole_chain() -> None:
    entries = done().chain.entries
    assert chain_violations(entries) == []
    assert chain_violations(entries, witnessed=len(entries)) == []
    assert chain_violations([]) == []


def test_a_journal_that_ends_before_what_was_shown() -> None:
    entries = done().chain.entries
    (found,) = chain_violations(entries, witnessed=len(entries) + 1)
    assert (found.rule, found.breach, found.first) == ("witness", MISMATCH, entries[-1].digest)
    (found,) = chain_violations([], witnessed=1)
    assert found.first == GENESIS


def test_a_record_taken_out_put_elsewhere_or_changed() -> None:
    entries = done().chain.entries
    (found,) = chain_violations([*entries[:2], *entries[3:]])
    assert (found.rule, found.first, found.second) == (
        "chain",
        entries[3].digest,
        entries[1].digest,
    )
    assert found.breach is MISMATCH
    assert len(chain_violations([entries[1], entries[0], *entries[2:]])) == 3
    changed = msgspec.structs.replace(entries[2], raw=entries[2].raw + b" ")
    assert [item.first for item in chain_violations([*entries[:2], changed, *entries[3:]])] == [
        entries[2].digest
    ]
    moved = msgspec.structs.replace(entries[0], position=2)
    assert len(chain_violations([moved])) == 1
    other = msgspec.structs.replace(entries[0], previous="1" * 64)
    assert len(chain_violations([other])) == 1


def test_a_chain_goes_on_from_where_it_was() -> None:
    line = done()
    first = line.chain.entries[:4]
    rest = Chain("root-1", 4, first[-1].digest)
    for entry in line.chain.entries[4:]:
        rest.add(entry.record)
    assert [entry.digest for entry in rest.entries] == [
        entry.digest for entry in line.chain.entries[4:]
    ]
    assert sha256(rest.entries[-1].raw).hexdigest() == rest.digest


def test_preconditions_are_asked_of_each_attempt() -> None:
    line = Lineage(but(LEDGER, preconditions=("account-open",)))
    held = line.precondition()
    line.release(causes=(line.wanted.digest, line.allowed.digest, held.digest))
    line.lost().release()
    assert line.rules() == ["attempt-without-precondition"]
    assert line.violations()[0].first == line.view.released[2].digest


def test_the_first_release_is_what_evidence_may_not_come_before() -> None:
    line = Lineage().release(at=10).replied(at=12).release(at=100).lost(at=101)
    assert line.violations() == []
    for early in (
        Lineage().effect().release().release(),
        Lineage().receipt("reply", claim="committed").release().release(),
    ):
        (found,) = early.violations()
        assert found.second == early.view.released[1].digest
