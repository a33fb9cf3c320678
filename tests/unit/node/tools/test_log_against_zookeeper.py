"""A rollback without controllers and what a log says otherwise than ZooKeeper: versions, and things never mirrored."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from migrator.driver.copy import make_copy
from migrator.findings.driver import WITHOUT_CONTROLLERS_WOULD_DIFFER
from migrator.findings.finding import FindingError
from migrator.node.tools.without_controllers import (
    WithoutControllersPlan,
    execute_without_controllers,
    plan_without_controllers,
)
from migrator.node.zookeeper.tree_reader import read_tree
from migrator.wire.messages.metadata import ClientQuotaRecord, PartitionChangeRecord
from migrator.wire.messages.shared import ClientQuotaEntity
from migrator.wire.records import decode_record
from migrator.wire.schema import Message
from migrator.zk import paths
from migrator.zk.multi import Delete, Multi, Operation, SetData
from migrator.zk.znodes import MigrationZnode, controller_data, migration_data
from tests.support.fake_zookeeper import FakeEnsemble
from tests.support.seeded_tree import SeededTree
from tests.unit.node.tools.test_without_controllers_with_logs import a_log

CHANGES = 2_500
STATE = paths.state("t000000", 1)


def a_cluster_and_its_log(place: Path, *more: Message) -> tuple[FakeEnsemble, Path]:
    """ZooKeeper has every record of the log, as its `/migration` says."""
    ensemble = FakeEnsemble()
    SeededTree(topics=2, partitions=2, producer_block_end=999).plant(ensemble)
    copied = [decode_record(value) for value in make_copy(read_tree(ensemble.session())).values()]
    log = a_log(place, copied, *([list(more)] if more else []))
    end = len(copied) + len(more)
    ensemble.create(paths.CONTROLLER, controller_data(3000, 5, 1))
    ensemble.create(paths.MIGRATION, migration_data(MigrationZnode(3000, 5, end, 5)))
    return ensemble, log


def planned(ensemble: FakeEnsemble, log: Path | None, *, accept_loss: bool = False) -> WithoutControllersPlan:
    return plan_without_controllers(ensemble.session(), [log] if log else [], accept_loss=accept_loss)


def worn(place: Path) -> tuple[FakeEnsemble, Path]:
    """One partition changed thousands of times and is as it was; its znode was made anew."""
    ensemble, _ = a_cluster_and_its_log(place)
    topic = read_tree(ensemble.session()).topics["t000000"].topic
    change = PartitionChangeRecord(partition_id=1, topic_id=topic.id, isr=topic.partitions[1].isr)
    return a_cluster_and_its_log(place.with_name("worn"), *[change] * CHANGES)


def test_versions_that_are_behind_are_raised_before_the_claim_goes(tmp_path: Path) -> None:
    ensemble, log = worn(tmp_path / "log")
    before = ensemble.nodes[STATE]
    version, data = before.version, before.data
    plan = planned(ensemble, log)
    assert [each.path for each in plan.look.behind] == [STATE]
    assert plan.look.lines == (
        "1 partition states are behind their partition epochs; 2500 writes raise them first, about 1 s",
    )
    assert ensemble.nodes[STATE].version == version
    execute_without_controllers(ensemble.session(), plan)
    assert (ensemble.nodes[STATE].version, ensemble.nodes[STATE].data) == (version + CHANGES, data)
    assert paths.CONTROLLER not in ensemble.nodes


def written_again(place: Path, changes: int = 3) -> tuple[FakeEnsemble, Path]:
    """As stock does when it begins to lead: the same data once more, without an entry in the log."""
    ensemble, log = a_cluster_and_its_log(place)
    for _ in range(changes):
        ensemble.apply(Multi((SetData(STATE, ensemble.nodes[STATE].data),)), 0)
    return ensemble, log


def test_versions_that_stock_left_ahead_lose_nothing_and_are_named(tmp_path: Path) -> None:
    ensemble, log = written_again(tmp_path / "log")
    version = ensemble.nodes[STATE].version
    plan = planned(ensemble, log)
    assert (plan.look.ahead, plan.look.behind, plan.look.differing) == (1, (), ())
    (line,) = plan.look.lines
    assert line.startswith("1 partition states are ahead of their partition epochs, as stock controllers leave them")
    assert "restart each broker afterwards" in line
    execute_without_controllers(ensemble.session(), plan)
    assert ensemble.nodes[STATE].version == version
    assert paths.CONTROLLER not in ensemble.nodes


def test_content_that_differs_in_a_state_that_is_ahead_is_refused(tmp_path: Path) -> None:
    ensemble, log = written_again(tmp_path / "log")
    state = json.loads(ensemble.nodes[STATE].data)
    ensemble.apply(Multi((SetData(STATE, json.dumps({**state, "isr": state["isr"][:1]}).encode()),)), 0)
    with pytest.raises(FindingError, match="Z2K-2127"):
        planned(ensemble, log)


def test_without_a_log_nobody_knows_whether_versions_are_behind(tmp_path: Path) -> None:
    ensemble, _ = worn(tmp_path / "log")
    (line,) = planned(ensemble, None).look.lines
    assert line.startswith("not verified: whether partition states are at their partition epochs")


def test_a_tree_that_says_what_the_log_says_needs_nothing(tmp_path: Path) -> None:
    ensemble, log = a_cluster_and_its_log(tmp_path / "log")
    assert planned(ensemble, log).look.lines == ("partition states are at their partition epochs, and nothing differs",)


@pytest.mark.parametrize("moves", ["the claim", "a state", "a state is gone"])
def test_versions_are_raised_only_while_everything_stands(tmp_path: Path, moves: str) -> None:
    ensemble, log = worn(tmp_path / "log")
    plan = planned(ensemble, log)
    what: dict[str, Operation] = {
        "the claim": SetData(paths.CONTROLLER_EPOCH, b"9"),
        "a state": SetData(STATE, ensemble.nodes[STATE].data),
        "a state is gone": Delete(STATE),
    }
    ensemble.apply(Multi((what[moves],)), 0)
    before = None if moves == "a state is gone" else ensemble.nodes[STATE].version
    with pytest.raises(FindingError, match=r"Z2K-2019.*ZooKeeper moved meanwhile"):
        execute_without_controllers(ensemble.session(), plan)
    assert paths.CONTROLLER in ensemble.nodes
    assert (ensemble.nodes[STATE].version if STATE in ensemble.nodes else None) == before


def test_what_the_log_has_and_zookeeper_never_got_is_named_before_it_is_lost(tmp_path: Path) -> None:
    """`/migration` says that ZooKeeper lacks no record; the quota has no form there."""
    quota = ClientQuotaRecord(
        entity=[ClientQuotaEntity(entity_type="user", entity_name=".")], key="request_percentage", value=50.0
    )
    ensemble, log = a_cluster_and_its_log(tmp_path / "log", quota)
    with pytest.raises(FindingError) as refused:
        planned(ensemble, log)
    assert refused.value.code == WITHOUT_CONTROLLERS_WOULD_DIFFER.code
    assert refused.value.occurrence.values["count"] == 1
    (line,) = planned(ensemble, log, accept_loss=True).look.lines
    assert line.startswith("1 things differ, and ZooKeeper's stay; the first is ")
