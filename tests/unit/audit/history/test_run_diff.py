"""Two kept audits: what is new, gone or changed, and of what nothing can be said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from migrator.audit.brokers.answers import LOGS
from migrator.audit.compare import (
    AskedBroker,
    AuditReport,
    BrokerDifference,
    BrokerLag,
    BrokersSide,
    Difference,
    DifferenceKind,
    FamilyCount,
    lag,
    unread_key,
)
from migrator.audit.fingerprints import SecretFingerprints
from migrator.audit.history.diff import SECRET, Change, RunsDiff, diff_runs, without_brokers, without_fingerprints
from migrator.audit.history.kept_runs import KeptRun
from migrator.audit.normalise import BROKER_CONFIGS, PARTITIONS, TOPICS
from migrator.audit.security_facts import SCRAM
from tests.support.kept_audits import a_report

OTHER_ID = Difference(TOPICS, "orders", "id", DifferenceKind.CHANGED, "one", "another")
LEADER = Difference(PARTITIONS, "orders-0", "leader", DifferenceKind.CHANGED, 1, 2)


def run(report: AuditReport) -> KeptRun:
    return KeptRun(Path("/kept"), report, 1.0)


def diff(first: AuditReport, second: AuditReport, **options: Any) -> RunsDiff:
    return diff_runs(run(first), run(second), **options)


def names(found: RunsDiff) -> list[tuple[Change, str, str]]:
    told = [(each, each.second or each.first) for each in found.differences]
    return [(each.change, side.difference.key, side.difference.field_) for each, side in told if side is not None]


def changed_families(found: RunsDiff) -> list[str]:
    return [each.family for each in found.families if each.changed]


def test_two_audits_that_say_the_same_are_unchanged_whenever_and_by_whatever_they_were_made() -> None:
    first, second = a_report([OTHER_ID], ended_at=1.0), a_report([OTHER_ID], engine="quick", ended_at=9.0)
    second.seconds, second.kraft = {"total": 99.0}, {"offset": 7_000, "epoch": 4}
    found = diff(first, second)
    assert (found.exit_code, found.changed, found.differences, changed_families(found)) == (0, False, [], [])
    assert (found.second.engine, found.second.offset, found.second.epoch) == ("quick", 7_000, 4)
    assert found.same_cluster is True


def test_a_difference_is_new_gone_or_changed_with_what_both_reports_say() -> None:
    moved = msgspec.structs.replace(LEADER, log=3)
    extra = Difference(TOPICS, "extra", "", DifferenceKind.MISSING_IN_LOG, {"id": "x"}, None)
    found = diff(a_report([OTHER_ID, LEADER]), a_report([extra, moved]))
    assert names(found) == [
        (Change.NEW, "extra", ""),
        (Change.CHANGED, "orders-0", "leader"),
        (Change.GONE, "orders", "id"),
    ]
    changed = found.differences[1]
    assert changed.first is not None
    assert changed.second is not None
    assert (changed.first.difference, changed.second.difference) == (LEADER, moved)
    assert found.exit_code == 1


def test_counts_change_where_no_difference_does() -> None:
    found = diff(a_report(equal=10), a_report(equal=11))
    assert found.exit_code == 1
    assert changed_families(found) == [each.family for each in found.families]
    assert found.differences == []


def test_a_difference_that_a_rule_expects_by_now_is_changed() -> None:
    meant = msgspec.structs.replace(LEADER, rule="a rule")
    (found,) = diff(a_report([LEADER]), a_report(expected=[meant])).differences
    assert found.change is Change.CHANGED
    assert found.first is not None
    assert found.second is not None
    assert (found.first.outcome, found.second.outcome) == ("different", "expected")


def test_a_dual_write_that_is_behind_at_another_offset_is_not_changed_by_that_alone() -> None:
    first, second = (msgspec.structs.replace(LEADER, rule=lag(1, offset)) for offset in (10, 99))
    assert diff(a_report(expected=[first]), a_report(expected=[second])).exit_code == 0


def test_a_key_that_could_not_be_read_is_named_as_such() -> None:
    unread = unread_key(TOPICS, "orders", "it is no JSON")
    (found,) = diff(a_report(), a_report([unread])).differences
    assert found.second is not None
    assert found.second.outcome == "not read"


def test_a_family_that_only_one_release_has_is_told() -> None:
    second = a_report()
    second.families.append(FamilyCount("share groups", 1, 1))
    found = diff(a_report(), second)
    assert found.families[-1].first is None
    assert found.exit_code == 1
    assert diff(second, a_report()).families[-1].second is None


def test_another_cluster_is_told_and_one_without_an_id_is_not_known() -> None:
    assert diff(a_report(), a_report(cluster_id="other")).same_cluster is False
    assert diff(a_report(), a_report(cluster_id="")).same_cluster is None


def test_a_key_that_is_told_twice_and_its_snapshot_are_differences_of_their_own() -> None:
    beside = msgspec.structs.replace(LEADER, kind=DifferenceKind.OTHER_IN_SNAPSHOT)
    assert names(diff(a_report([LEADER]), a_report([LEADER, LEADER, beside]))) == [
        (Change.NEW, "orders-0", "leader"),
        (Change.NEW, "orders-0", "leader"),
    ]


# --- secrets ----------------------------------------------------------------------------------------------


def a_secret(value: str, other: str = "other", key: str = "1") -> Difference:
    """As an audit of its own tells it, with a key of its own."""
    hashes = SecretFingerprints()
    name = "ssl.key.password"
    sides = hashes.value(name, value), hashes.value(name, other)
    return Difference(BROKER_CONFIGS, key, name, DifferenceKind.CHANGED, *sides)


def test_secret_values_of_two_audits_are_never_compared() -> None:
    """Their hashes have different keys: equal passwords look different, so no change may be claimed."""
    found = diff(a_report([a_secret("one")]), a_report([a_secret("one")]))
    assert (found.exit_code, found.differences, found.secrets) == (0, [], 1)


def test_a_new_difference_of_a_secret_shows_no_hash() -> None:
    whole = Difference(SCRAM, "/config/users/u", "", DifferenceKind.MISSING_IN_LOG, {"a": a_secret("x").log, "b": 1}, 0)
    found = diff(a_report(), a_report([a_secret("one"), whole]))
    assert "hmac" not in msgspec.json.encode(found).decode()
    told = [each.second.difference.zookeeper for each in found.differences if each.second is not None]
    assert told == [SECRET, {"a": SECRET, "b": 1}]


def test_what_is_beside_a_secret_is_compared() -> None:
    def facts(iterations: int) -> Difference:
        hidden = SecretFingerprints().value("salt", "s")
        return Difference(
            SCRAM, "u", "", DifferenceKind.MISSING_IN_LOG, {"salt": hidden, "iterations": iterations}, None
        )

    assert diff(a_report([facts(4096)]), a_report([facts(4096)])).exit_code == 0
    assert diff(a_report([facts(4096)]), a_report([facts(8192)])).exit_code == 1


def test_a_replay_has_the_key_of_its_audit_so_secrets_count() -> None:
    one, other = a_secret("one"), a_secret("one")
    assert diff(a_report([one]), a_report([one]), one_key=True).exit_code == 0
    found = diff(a_report([one]), a_report([other]), one_key=True)
    assert (found.exit_code, found.secrets) == (1, 0)


def test_a_text_that_only_begins_like_a_fingerprint_stays() -> None:
    assert without_fingerprints({"a": ["hmac-sha256:short", 1, None]}) == {"a": ["hmac-sha256:short", 1, None]}


# --- reports that are not whole ---------------------------------------------------------------------------


def topics(*numbers: int) -> list[Difference]:
    return [Difference(TOPICS, f"t{number:02}", "id", DifferenceKind.CHANGED, 1, 2) for number in numbers]


def test_what_is_past_the_end_of_a_cut_list_is_neither_new_nor_gone() -> None:
    first = a_report(topics(1, 2, 3, 4))
    second = a_report(topics(1, 3), left_off={"differences": 2})
    second.families = first.families
    found = diff(first, second)
    assert names(found) == [(Change.GONE, "t02", "id")], "its place is inside of the list"
    assert found.not_compared == 1, "t04 may be one of those that were left off"


def test_two_cut_reports_without_a_change_are_no_proof_of_none() -> None:
    cut = a_report(topics(1), left_off={"differences": 5})
    assert diff(cut, cut).exit_code == 2


def test_an_expected_list_that_was_cut_may_hold_what_the_other_one_tells() -> None:
    first = a_report(topics(1, 2))
    second = a_report(expected=topics(1), left_off={"expected": 1})
    assert diff(first, second).not_compared == 1


# --- brokers ----------------------------------------------------------------------------------------------


def brokers(*differences: BrokerDifference, **fields: Any) -> BrokersSide:
    wrong = {each.broker for each in differences}
    asked = [AskedBroker(each, "KRaft", compared=5, different=int(each in wrong)) for each in (1, 2)]
    return BrokersSide(**{"asked": asked, "differences": list(differences), **fields})


DELETED = BrokerDifference(2, LOGS, "orders-0", "", "missing on broker", None, {"log": True}, "broker")


def test_what_a_broker_says_is_new_gone_or_changed() -> None:
    other = msgspec.structs.replace(DELETED, alone="each")
    for first, second, change in (
        ([], [DELETED], Change.NEW),
        ([DELETED], [], Change.GONE),
        ([DELETED], [other], Change.CHANGED),
    ):
        found = diff(a_report(brokers=brokers(*first)), a_report(brokers=brokers(*second)))
        assert found.brokers is not None
        assert [each.change for each in found.brokers.differences] == [change]
        assert found.exit_code == 1
        assert [each.broker for each in found.brokers.brokers] == ([2] if change is not Change.CHANGED else [])


def test_a_broker_that_went_silent_and_zookeeper_that_stands_alone_are_told() -> None:
    silent = brokers(asked=[AskedBroker(1, "KRaft", compared=5), AskedBroker(2, "", "refused")])
    found = diff(a_report(brokers=brokers(zookeeper_alone=["topics a id"])), a_report(brokers=silent))
    assert found.brokers is not None
    (broker,) = found.brokers.brokers
    assert broker.second is not None
    assert (broker.broker, broker.second.problem) == (2, "refused")
    assert (found.brokers.alone_new, found.brokers.alone_gone) == ([], ["topics a id"])


def test_another_time_of_a_listing_and_another_lag_are_no_change() -> None:
    first, second = (
        brokers(asked=[AskedBroker(1, "KRaft", compared=5, listed_at_ms=at, lag=BrokerLag(at, at))]) for at in (1, 2)
    )
    found = diff(a_report(brokers=first), a_report(brokers=second))
    assert found.brokers is not None
    assert (found.exit_code, found.brokers.brokers) == (0, [])


def test_a_third_side_that_only_one_audit_asked_is_a_change_and_not_compared() -> None:
    found = diff(a_report(brokers=brokers()), a_report())
    assert (found.exit_code, found.brokers) == (1, None)


def test_a_cut_list_of_brokers_says_nothing_of_the_rest() -> None:
    found = diff(a_report(brokers=brokers(DELETED)), a_report(brokers=brokers(left_off=3)))
    assert found.brokers is not None
    assert (found.brokers.differences, found.brokers.not_compared) == ([], 1)


def test_without_brokers_a_report_is_what_the_two_sides_say() -> None:
    kept = without_brokers(run(a_report(brokers=brokers(DELETED))))
    assert (kept.report.brokers, kept.report.same, kept.report.exit_code) == (None, True, 0)


@pytest.mark.parametrize("value", ["a" * 5, 4, None, [1], {"a": {"b": 1}}])
def test_values_without_secrets_are_shown_as_they_are(value: Any) -> None:
    assert without_fingerprints(value) == value
