"""What tree and log say of the cluster as a whole (B01 to B06, E06, E07, S19): both engines say the same word."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from migrator.audit import normalise
from migrator.audit.beside import others_in_snapshot
from migrator.audit.cluster import CLUSTER, CLUSTER_KEYS, METADATA_VERSION, MIGRATION_STATE, EpochLimit
from migrator.audit.compare import AuditReport, ExpectedDifferences, KeyOutcome, judge
from migrator.audit.log_states import LogStates
from migrator.audit.normalise import PARTITIONS
from migrator.audit.quick import SecondPass, compare_sides, facts_of, quick_audit
from migrator.driver.copy import make_copy
from migrator.model.image import Position
from migrator.model.values import MigrationState
from migrator.node.zookeeper.tree_reader import read_tree
from migrator.wire.messages.metadata import FeatureLevelRecord, ZkMigrationStateRecord
from migrator.wire.records import decode_record
from migrator.wire.schema import Message
from tests.support.fake_zookeeper import FakeEnsemble
from tests.unit.audit.test_quick import states_of
from tests.unit.audit.test_spark_compare import RULES, TREE, input_rows, judged, records_of

LEVEL = FeatureLevelRecord(METADATA_VERSION, 21)
KEY = f"{TREE.name(1)}-1"
STATE = f"/brokers/topics/{TREE.name(1)}/partitions/1/state"
Tree = Callable[[FakeEnsemble], None]


def says(path: str, data: bytes) -> Tree:
    return lambda ensemble: ensemble.create(path, data)


def gone(path: str) -> Tree:
    def change(ensemble: FakeEnsemble) -> None:
        ensemble.nodes.pop(path)

    return change


def written_by(epoch: int) -> Tree:
    def change(ensemble: FakeEnsemble) -> None:
        state = json.loads(ensemble.nodes[STATE].data)
        ensemble.nodes[STATE].data = json.dumps({**state, "controller_epoch": epoch}).encode()

    return change


def in_dual_write(ensemble: FakeEnsemble) -> None:
    """A KRaft controller of epoch 5 has the claim."""
    claim = {"version": 2, "brokerid": 3000, "timestamp": "1", "kraftControllerEpoch": 5}
    ensemble.create("/controller", json.dumps(claim).encode())
    ensemble.create("/migration", json.dumps({"kraft_metadata_offset": 9, "kraft_metadata_epoch": 5}).encode())


def migration(state: int) -> ZkMigrationStateRecord:
    return ZkMigrationStateRecord(state)


MIGRATING = migration(MigrationState.MIGRATION)
Plant = tuple[Iterable[Tree], list[Message], tuple[str, str], KeyOutcome]
WRONG: dict[str, Plant] = {
    "B01 a state of a later controller than any": (
        [written_by(999)], [LEVEL], (PARTITIONS, KEY), KeyOutcome.DIFFERENT,
    ),
    "B01 in dual-write": (
        [in_dual_write, written_by(6)], [LEVEL, MIGRATING], (PARTITIONS, KEY), KeyOutcome.DIFFERENT,
    ),
    "B02 no controller ever": (
        [says("/controller_epoch", b"0")], [LEVEL], (CLUSTER, "/controller_epoch"), KeyOutcome.DIFFERENT,
    ),
    "B03 more than 32 bits": (
        [says("/controller_epoch", b"99999999999")], [LEVEL], (CLUSTER, "/controller_epoch"), KeyOutcome.NOT_READ,
    ),
    "B03 thousands of digits": (
        [says("/controller_epoch", b"9" * 5_000)], [LEVEL], (CLUSTER, "/controller_epoch"), KeyOutcome.NOT_READ,
    ),
    "B03 no number": (
        [says("/controller_epoch", b"1e0")], [LEVEL], (CLUSTER, "/controller_epoch"), KeyOutcome.NOT_READ,
    ),
    "B04 no epoch": (
        [gone("/controller_epoch")], [LEVEL], (CLUSTER, "/controller_epoch"), KeyOutcome.DIFFERENT,
    ),
    "B05 no id": ([gone("/cluster/id")], [LEVEL], (CLUSTER, "/cluster/id"), KeyOutcome.DIFFERENT),
    "B06 no JSON": ([says("/cluster/id", b"abc")], [LEVEL], (CLUSTER, "/cluster/id"), KeyOutcome.NOT_READ),
    "B06 nested too deeply": (
        [says("/cluster/id", b"[" * 200_000)], [LEVEL], (CLUSTER, "/cluster/id"), KeyOutcome.NOT_READ,
    ),
    "E06 a level on which nothing migrates": (
        [], [LEVEL, FeatureLevelRecord(METADATA_VERSION, 1)], (CLUSTER, METADATA_VERSION), KeyOutcome.DIFFERENT,
    ),
    "S19 no level": (
        [], [LEVEL, FeatureLevelRecord(METADATA_VERSION, 0)], (CLUSTER, METADATA_VERSION), KeyOutcome.DIFFERENT,
    ),
    "no level ever": ([], [], (CLUSTER, METADATA_VERSION), KeyOutcome.DIFFERENT),
    "E07 the way back is over": (
        [in_dual_write], [LEVEL, MIGRATING, migration(3)], (CLUSTER, MIGRATION_STATE), KeyOutcome.DIFFERENT,
    ),
    "the end without a migration": ([], [LEVEL, migration(3)], (CLUSTER, MIGRATION_STATE), KeyOutcome.DIFFERENT),
    "a dual-write that the log does not know": (
        [in_dual_write], [LEVEL, migration(2)], (CLUSTER, MIGRATION_STATE), KeyOutcome.DIFFERENT,
    ),
    "a state that Kafka does not have": (
        [in_dual_write], [LEVEL, migration(9)], (CLUSTER, MIGRATION_STATE), KeyOutcome.DIFFERENT,
    ),
}  # fmt: skip
RIGHT: dict[str, tuple[Iterable[Tree], list[Message]]] = {
    "before a migration": ([], [LEVEL]),
    "a copy": ([], [LEVEL, MIGRATING]),
    "in dual-write": ([in_dual_write], [LEVEL, migration(2), MIGRATING]),
    "a state that stock wrote with its own epoch (F-40)": ([in_dual_write, written_by(5)], [LEVEL, MIGRATING]),
    "the state NONE, as snapshots say it": ([], [LEVEL, migration(0)]),
    "another feature": ([], [LEVEL, FeatureLevelRecord("kraft.version", 0)]),
    "a later level than 3.9 knows": ([], [LEVEL, FeatureLevelRecord(METADATA_VERSION, 25)]),
}


def outcomes(changes: Iterable[Tree], records: list[Message]) -> tuple[dict[Any, str], dict[Any, str]]:
    """What the quick engine, and a task of Spark, say of each key that is not equal."""
    ensemble = FakeEnsemble()
    TREE.plant(ensemble)
    for each in changes:
        each(ensemble)
    log = [*records_of(0, 1, 2), *records]
    quick = compare_sides(ensemble.session(), facts_of(log), RULES, of_cluster=True)
    by_quick = {
        (each.family, each.key): "not read" if each.kind == "not read" else "different" for each in quick.differences
    }
    rows = judged(input_rows(ensemble, log))
    bad = (KeyOutcome.DIFFERENT.value, KeyOutcome.NOT_READ.value)
    return by_quick, {(row["family"], row["key"]): row["outcome"] for row in rows if row["outcome"] in bad}


def of_interest(found: dict[Any, str]) -> dict[Any, str]:
    """The tree's configurations are not in these logs."""
    return {key: outcome for key, outcome in found.items() if key[0] in (CLUSTER, PARTITIONS)}


@pytest.mark.parametrize("name", WRONG)
def test_both_engines_name_it_and_nothing_else(name: str) -> None:
    changes, records, key, outcome = WRONG[name]
    assert list(map(of_interest, outcomes(changes, records))) == [{key: outcome.value}] * 2


@pytest.mark.parametrize("name", RIGHT)
def test_what_a_healthy_cluster_says_passes(name: str) -> None:
    assert list(map(of_interest, outcomes(*RIGHT[name]))) == [{}, {}]


def test_every_key_is_counted_whatever_the_sides_have() -> None:
    ensemble = FakeEnsemble()
    counts = compare_sides(ensemble.session(), facts_of([]), RULES, of_cluster=True).counts[CLUSTER]
    assert (counts.compared, counts.equal, counts.different) == (len(CLUSTER_KEYS), 1, 3)


def test_a_controller_that_is_elected_while_states_are_read_is_none_that_never_was() -> None:
    """It raised `/controller_epoch` before it wrote a state."""
    epochs = iter([1, 2, 2])
    limit = EpochLimit(lambda: next(epochs))
    assert not limit.is_above(1)
    assert not limit.is_above(2)
    assert limit.is_above(3)


def test_as_many_states_as_a_tree_has_are_above_for_one_question() -> None:
    """F-40: after a rollback of stock each may be. A higher one is a new question."""
    asked: list[int] = []

    def read() -> int:
        asked.append(1)
        return 1

    limit = EpochLimit(read)
    assert all(limit.is_above(7) for _ in range(1_000))
    assert len(asked) == 2
    assert limit.is_above(8)
    assert len(asked) == 3


def test_in_dual_write_a_higher_epoch_is_named_and_holds_no_way_back() -> None:
    """A rollback, by whichever way, writes one that is higher still."""
    said = {"leader": 1, "controller_epoch": 999}
    rules = ExpectedDifferences(in_dual_write=True)
    outcome, (found,) = judge(PARTITIONS, KEY, said, {"leader": 1}, rules)
    assert (outcome, found.field_, found.zookeeper) == (KeyOutcome.EXPECTED, "controller_epoch", 999)
    assert judge(PARTITIONS, KEY, said, {"leader": 1}, ExpectedDifferences())[0] is KeyOutcome.DIFFERENT


@pytest.mark.parametrize("record", [migration(3), FeatureLevelRecord(METADATA_VERSION, 1)])
def test_what_the_log_says_behind_what_zookeeper_has_is_no_lag(record: Message) -> None:
    """Nobody mirrors any more once it says POST_MIGRATION: it stands behind `/migration` for good."""
    ensemble = FakeEnsemble()
    TREE.plant(ensemble)
    in_dual_write(ensemble)
    records = [LEVEL, *map(decode_record, make_copy(read_tree(ensemble.session())).values()), MIGRATING]
    offset = len(records) - 1
    ensemble.nodes["/migration"].data = json.dumps(
        {"kraft_metadata_offset": offset, "kraft_metadata_epoch": 5}
    ).encode()

    def audited(more: list[Message]) -> AuditReport:
        def read_log(low: int, wanted: Position) -> tuple[LogStates, Position]:
            return states_of([*records, *more], low), Position(5, len(records) + len(more) - 1)

        rules = ExpectedDifferences(10_000, in_dual_write=True)
        return quick_audit(ensemble.session(), read_log, rules=rules, settle_s=0, follows=True)

    assert audited([]).exit_code == 0
    found = audited([record])
    assert (found.exit_code, {each.family for each in found.differences}) == (1, {CLUSTER})


def test_a_key_that_is_read_again_is_counted_once() -> None:
    """What cannot be read is told by the second look, where the log has changed something of the cluster meanwhile."""
    ensemble = FakeEnsemble()
    TREE.plant(ensemble)
    in_dual_write(ensemble)
    ensemble.nodes["/cluster/id"].data = b"abc"
    log = states_of([*records_of(0, 1, 2), MIGRATING, LEVEL], low=len(records_of(0, 1, 2)))
    pending = SecondPass.of(log)
    comparison = compare_sides(ensemble.session(), log.facts, RULES, pending=pending, of_cluster=True)
    assert comparison.counts[CLUSTER].compared == 0


def test_a_snapshot_of_kafka_4_has_forgotten_the_migration() -> None:
    over = {(CLUSTER, MIGRATION_STATE): {"state": 3}}
    assert not list(others_in_snapshot({}, over, 9))
    (lost,) = others_in_snapshot({}, {(CLUSTER, MIGRATION_STATE): {"state": 1}}, 9)
    assert lost.key == MIGRATION_STATE


def test_a_state_as_long_as_a_znode_may_be_is_read_and_not_kept() -> None:
    """Thousands of them would fill the memory of a controller."""
    kept = normalise._kept_state.cache_info().currsize
    state = {"controller_epoch": 1, "leader": 1, "version": 1, "leader_epoch": 0, "isr": [1] * 100_000}
    assert len(normalise.zk_state("/s", json.dumps(state).encode(), 0)["isr"]) == 100_000
    assert normalise._kept_state.cache_info().currsize == kept


def test_the_driver_s_own_audits_wait_for_none_of_it() -> None:
    """A takeover has its gate (Z2K-1036), and the emergency exit writes a higher epoch than any state has."""
    ensemble = FakeEnsemble()
    TREE.plant(ensemble)
    written_by(999)(ensemble)
    ensemble.nodes.pop("/cluster/id")
    found = compare_sides(ensemble.session(), facts_of(records_of(0, 1, 2)), RULES)
    assert {(each.family, each.key) for each in found.differences if each.family in (CLUSTER, PARTITIONS)} == set()
    assert found.counts[CLUSTER].compared == 0
