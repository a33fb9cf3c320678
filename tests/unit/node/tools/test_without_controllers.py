"""The rollback with only ZooKeeper alive: the plan changes nothing, and what is not safe is refused."""

from __future__ import annotations

import os
import socket

import pytest

from migrator.driver.claim import ClaimObservation
from migrator.findings.driver import LOG_HAS_TO_BE_SHOWN
from migrator.findings.finding import FindingError
from migrator.findings.preflight import CONTROLLERS_RUN
from migrator.findings.road import FINALIZE_INTENT_STANDS
from migrator.node.tools.without_controllers import PRODUCER_ID_MARGIN as MARGIN
from migrator.node.tools.without_controllers import describe, execute_without_controllers, plan_without_controllers
from migrator.node.zookeeper.claims import read_claim
from migrator.node.zookeeper.kraft_brokers import KraftBrokersNoted, forget_kraft_brokers, kraft_brokers
from migrator.node.zookeeper.presence import Shown
from migrator.zk import paths
from migrator.zk.multi import Create, Delete, Multi, SetData
from migrator.zk.znodes import (
    PRODUCER_ID_MAX,
    ControllerZnode,
    MigrationZnode,
    controller_data,
    migration_data,
    parse_producer_ids,
    producer_ids_data,
)
from tests.support.fake_zookeeper import FakeEnsemble
from tests.support.seeded_tree import SeededTree, state_json

STANDING = MigrationZnode(3000, 5, 1200, 5)


def a_dead_dual_write(
    *, controller: bytes | None = controller_data(3000, 5, 1), migration: bool = True
) -> FakeEnsemble:
    """Every broker in ZooKeeper mode; our controller's persistent claim, and nobody behind it."""
    ensemble = FakeEnsemble()
    SeededTree(topics=2, partitions=2).plant(ensemble)
    session = ensemble.session()
    assert session.apply(Multi((SetData(paths.CONTROLLER_EPOCH, b"9"),))).applied
    if controller is not None:
        ensemble.create(paths.CONTROLLER, controller)
    if migration:
        ensemble.create(paths.MIGRATION, migration_data(STANDING))
    return ensemble


def refusal(ensemble: FakeEnsemble) -> str:
    before = ensemble.tree()
    with pytest.raises(FindingError) as raised:
        plan_without_controllers(ensemble.session())
    assert raised.value.code == "Z2K-2019"
    assert ensemble.tree() == before
    return str(raised.value.occurrence.values["reason"])


def test_the_plan_shows_what_stands_and_what_would_be_done_and_changes_nothing() -> None:
    ensemble = a_dead_dual_write()
    before = ensemble.tree()
    plan = plan_without_controllers(ensemble.session())
    assert ensemble.tree() == before
    assert plan.before == (
        "/controller: KRaft controller 3000, KRaft epoch 5",
        "/controller_epoch: 9 (version 1)",
        f"/migration: {migration_data(STANDING).decode()}",
    )
    assert plan.mirrored == (
        "everything up to offset 1200 of epoch 5; a rollback loses what was committed after it",
        "not verified: whether ZooKeeper lacks a change (--log DIR compares with a controller's log)",
    )
    assert plan.brokers == (1, 2, 3)
    (multi,) = plan.multis
    assert multi == Multi(
        (
            SetData("/controller_epoch", b"9", 1),
            SetData("/latest_producer_id_block", producer_ids_data(-1, 6_000 + MARGIN, 6_999 + MARGIN), 0),
            Delete("/migration", 0),
            Delete("/controller", 0),
        )
    )


def test_a_release_leaves_the_place_free_for_a_zookeeper_controller() -> None:
    """F-42: /migration goes with it; topics and everything else stay."""
    ensemble = a_dead_dual_write()
    before = ensemble.tree()
    session = ensemble.session()
    after = execute_without_controllers(session, plan_without_controllers(session))
    assert after == ("/controller: absent", "/controller_epoch: 9 (version 2)", "/migration: absent")
    assert {path for path in before if path not in ensemble.nodes} == {paths.CONTROLLER, paths.MIGRATION}


def test_the_next_zookeeper_controller_outranks_every_partition_state() -> None:
    """F-40."""
    ensemble = a_dead_dual_write()
    state = state_json().replace(b'"controller_epoch":1', b'"controller_epoch":30')
    ensemble.create(paths.state("t000001", 1), state)
    session = ensemble.session()
    execute_without_controllers(session, plan_without_controllers(session))
    assert ensemble.nodes[paths.CONTROLLER_EPOCH].data == b"30"


@pytest.mark.parametrize("migration", [True, False])
@pytest.mark.parametrize("controller", [controller_data(3000, 5, 1), None])
def test_what_a_half_done_release_left_is_released(controller: bytes | None, migration: bool) -> None:
    ensemble = a_dead_dual_write(controller=controller, migration=migration)
    if controller is None and not migration:
        assert refusal(ensemble) == "nothing is claimed"
        return
    session = ensemble.session()
    execute_without_controllers(session, plan_without_controllers(session))
    observed = read_claim(session)
    assert (observed.controller, observed.migration_version) == (None, -1)


# --- producer ids -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("blocks_unmirrored", [0, 1, 500_000_000])
def test_no_producer_id_that_ours_handed_out_unmirrored_is_handed_out_again(blocks_unmirrored: int) -> None:
    """F-29. The next ZooKeeper controller begins behind the end of the block; ZooKeeper's ends at 5999."""
    ensemble = a_dead_dual_write()
    session = ensemble.session()
    execute_without_controllers(session, plan_without_controllers(session))
    znode = ensemble.nodes[paths.PRODUCER_IDS]
    block = parse_producer_ids(paths.PRODUCER_IDS, znode.data)
    assert block is not None
    assert int(block.block_end) + 1 > 5_999 + 1_000 * blocks_unmirrored
    assert int(block.block_end) - int(block.block_start) + 1 == 1_000
    assert (block.version, block.broker, znode.version) == (1, -1, 1)


@pytest.mark.parametrize(("data", "version"), [(None, 0), (b"", 1)])
def test_a_missing_producer_id_block_is_made_for_the_next_controller_which_would_not(
    data: bytes | None, version: int
) -> None:
    ensemble = a_dead_dual_write()
    if data is None:
        del ensemble.nodes[paths.PRODUCER_IDS]
    else:
        ensemble.nodes[paths.PRODUCER_IDS].data = data
    session = ensemble.session()
    execute_without_controllers(session, plan_without_controllers(session))
    znode = ensemble.nodes[paths.PRODUCER_IDS]
    assert (znode.data, znode.version) == (producer_ids_data(-1, MARGIN, MARGIN + 999), version)


def test_a_producer_id_block_that_nobody_can_read_is_left_for_a_person() -> None:
    ensemble = a_dead_dual_write()
    ensemble.nodes[paths.PRODUCER_IDS].data = b"[]"
    assert paths.PRODUCER_IDS in refusal(ensemble)


def test_producer_ids_that_are_used_up_are_not_pushed_over_the_end() -> None:
    ensemble = a_dead_dual_write()
    last = PRODUCER_ID_MAX - MARGIN - 1
    ensemble.nodes[paths.PRODUCER_IDS].data = producer_ids_data(-1, last - 999, last)
    assert "no room for more producer ids" in refusal(ensemble)


def test_a_broker_that_rules_already_is_not_deposed() -> None:
    assert refusal(a_dead_dual_write(controller=controller_data(2, -1, 1))) == "broker 2 is controller already"


def test_what_stands_is_told_in_words() -> None:
    held = ControllerZnode(2, 2, "1", -1)
    assert describe(ClaimObservation(9, 4, held, 0, 77)) == (
        "/controller: ZooKeeper-mode broker 2, KRaft epoch -1",
        "/controller_epoch: 9 (version 4)",
        "/migration: absent",
    )
    assert describe(ClaimObservation(migration_version=0))[2] == "/migration: unreadable"


def test_a_claim_whose_owner_lives_is_not_taken_from_it() -> None:
    ensemble = a_dead_dual_write(controller=None)
    session = ensemble.session()
    session.apply(Multi((Create(paths.CONTROLLER, controller_data(3000, 5, 1), ephemeral=True),)))
    assert "its controller lives" in refusal(ensemble)


def test_a_broker_with_replicas_that_is_not_in_zookeeper_mode_forbids_the_release() -> None:
    """Rolled to KRaft mode, or down: its partitions would be led by nobody who knows them."""
    ensemble = a_dead_dual_write()
    del ensemble.nodes["/brokers/ids/2"]
    assert "brokers [2] hold replicas and are not in ZooKeeper mode" in refusal(ensemble)


def test_nothing_is_released_once_a_finalize_was_begun() -> None:
    """POST_MIGRATION may be committed while everybody who knows of it is dead."""
    ensemble = a_dead_dual_write()
    ensemble.create(paths.FINALIZE_INTENT, b'{"who":"ann"}')
    before = ensemble.tree()
    with pytest.raises(FindingError) as raised:
        plan_without_controllers(ensemble.session())
    assert raised.value.code == FINALIZE_INTENT_STANDS.code == "Z2K-4211"
    assert '{"who":"ann"}' in str(raised.value)
    assert ensemble.tree() == before


def test_a_zookeeper_that_never_had_a_controller_is_not_released() -> None:
    ensemble = a_dead_dual_write()
    del ensemble.nodes[paths.CONTROLLER_EPOCH]
    assert refusal(ensemble) == "/controller_epoch does not exist"


@pytest.mark.parametrize(
    ("meanwhile", "named"),
    [
        (SetData(paths.CONTROLLER_EPOCH, b"10"), "bad_version at: set /controller_epoch"),
        (SetData(paths.MIGRATION, migration_data(STANDING)), "bad_version at: delete /migration"),
        (Delete(paths.CONTROLLER), "no_node at: delete /controller"),
        (
            SetData(paths.PRODUCER_IDS, producer_ids_data(1, 6_000, 6_999)),
            "bad_version at: set /latest_producer_id_block",
        ),
    ],
)
def test_a_release_is_refused_whole_when_zookeeper_moved_since_the_plan(
    meanwhile: SetData | Delete, named: str
) -> None:
    ensemble = a_dead_dual_write()
    session = ensemble.session()
    plan = plan_without_controllers(session)
    assert ensemble.session().apply(Multi((meanwhile,))).applied
    before = ensemble.tree()
    with pytest.raises(FindingError) as raised:
        execute_without_controllers(session, plan)
    assert raised.value.code == "Z2K-2019"
    assert named in str(raised.value)
    assert ensemble.tree() == before


@pytest.mark.parametrize(("name", "data"), [("77", b"{not JSON"), ("seven", b"{}")])
def test_a_registration_that_no_controller_can_read_is_not_left_to_the_next_one(name: str, data: bytes) -> None:
    ensemble = a_dead_dual_write()
    ensemble.create(f"{paths.BROKER_IDS}/{name}", data)
    assert refusal(ensemble).startswith(f"{paths.BROKER_IDS}/{name} cannot be read")


# --- brokers that were in KRaft mode -----------------------------------------------------------------------


def noted_in(ensemble: FakeEnsemble) -> tuple[int, ...] | None:
    znode = ensemble.session().get(paths.KRAFT_BROKERS)
    return None if znode is None else kraft_brokers(znode)


def test_once_brokers_were_in_kraft_mode_a_log_has_to_be_shown_or_the_loss_accepted() -> None:
    ensemble = a_dead_dual_write()
    noted = KraftBrokersNoted(ensemble.session())
    noted.note([])
    assert noted_in(ensemble) is None
    noted.note([2])
    noted.note([2, 1])
    before = ensemble.tree()
    with pytest.raises(FindingError) as raised:
        plan_without_controllers(ensemble.session())
    assert raised.value.code == LOG_HAS_TO_BE_SHOWN.code == "Z2K-2131"
    assert "Brokers [1, 2] were in KRaft mode" in str(raised.value)
    assert ensemble.tree() == before
    session = ensemble.session()
    execute_without_controllers(session, plan_without_controllers(session, accept_loss=True))
    assert paths.KRAFT_BROKERS not in ensemble.nodes


def test_brokers_in_kraft_mode_are_noted_once_and_what_another_leader_noted_stays() -> None:
    ensemble = a_dead_dual_write()
    KraftBrokersNoted(ensemble.session()).note([7])
    noted = KraftBrokersNoted(ensemble.session())
    noted.note([1])
    assert noted_in(ensemble) == (1, 7)
    applied = len(ensemble.log)
    noted.note([1])
    assert len(ensemble.log) == applied
    forget_kraft_brokers(ensemble.session())
    forget_kraft_brokers(ensemble.session())
    assert noted_in(ensemble) is None


def test_a_znode_of_kraft_brokers_that_nobody_can_read_counts_all_the_same() -> None:
    ensemble = a_dead_dual_write()
    ensemble.create(paths.KRAFT_BROKERS, b"\xff")
    with pytest.raises(FindingError, match="Brokers of unknown ids were in KRaft mode"):
        plan_without_controllers(ensemble.session())
    KraftBrokersNoted(ensemble.session()).note([3])
    assert noted_in(ensemble) == (3,)


# --- controllers that run ---------------------------------------------------------------------------------


def test_a_release_is_refused_while_the_controller_that_leads_has_a_session() -> None:
    ensemble = a_dead_dual_write()
    leads = ensemble.session()
    Shown(leads, 3000).show(5)
    session = ensemble.session()
    plan = plan_without_controllers(session)
    before = ensemble.tree()
    with pytest.raises(FindingError) as raised:
        execute_without_controllers(session, plan)
    assert raised.value.code == CONTROLLERS_RUN.code == "Z2K-1118"
    host = f"controller 3000, process {os.getpid()} on host {socket.gethostname()}"
    assert f"{host}, whose session holds /cluster/zk2kraft-3000" in str(raised.value)
    assert ensemble.tree() == before
    leads.close()
    execute_without_controllers(session, plan_without_controllers(session))
    assert paths.CONTROLLER not in ensemble.nodes


def test_a_controller_shows_itself_again_in_each_session_and_claim_and_asks_nothing_in_between() -> None:
    ensemble = a_dead_dual_write()
    Shown(ensemble.session(), 3000).show(5)
    session = ensemble.session()
    shown = Shown(session, 3000)
    shown.show(5)
    assert ensemble.nodes[paths.presence(3000)].owner == session.session_id
    applied = len(ensemble.log)
    shown.show(5)
    assert len(ensemble.log) == applied
    shown.show(7)
    assert b'"kraft_epoch":7' in (ensemble.nodes[paths.presence(3000)].data or b"")
    session.session_id = 77
    shown.show(7)
    assert ensemble.nodes[paths.presence(3000)].owner == 77


def test_a_sign_that_nobody_can_read_is_one_all_the_same() -> None:
    ensemble = a_dead_dual_write()
    session = ensemble.session()
    session.apply(Multi((Create(paths.presence(7), b"\xff", ephemeral=True),)))
    runs = plan_without_controllers(ensemble.session()).runs
    assert runs is not None
    assert "a controller, whose session holds /cluster/zk2kraft-7" in runs.text
