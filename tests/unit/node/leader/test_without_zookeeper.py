"""With every broker in KRaft mode an absent ZooKeeper keeps nobody from starting, leading and serving."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from msgspec.structs import replace

from migrator.control_api.states import State
from migrator.controller.incarnations import is_ours, our_incarnation, registered_by_others
from migrator.driver.machine import all_in_kraft_mode, writes_without_claim
from migrator.model.image import Image
from migrator.model.values import Broker, Controller, MigrationState
from migrator.node.leader.voter_observations import QuorumView, VoterObservations
from migrator.node.process.startup import zookeeper_needed
from tests.support.builders import a_broker, an_id, an_image
from tests.unit.node.driver.test_divergence_watch import Log, Node

KRAFT = [a_broker(each, migrating=False) for each in (1, 2, 3)]
HYBRID = [*KRAFT[:2], a_broker(3)]
LEFT_OVER = [*KRAFT, a_broker(4, fenced=True)]


def image(brokers: list[Broker], state: MigrationState = MigrationState.MIGRATION) -> Image:
    return an_image(brokers=brokers, migration=state)


@pytest.mark.parametrize(("brokers", "all_kraft"), [(KRAFT, True), (HYBRID, False), (LEFT_OVER, False), ([], False)])
def test_a_registration_in_zookeeper_mode_also_a_fenced_one_keeps_every_rule(
    brokers: list[Broker], *, all_kraft: bool
) -> None:
    assert all_in_kraft_mode(image(brokers)) is all_kraft
    assert writes_without_claim(State.RESUMING, image(brokers)) is all_kraft
    assert zookeeper_needed(image(brokers)) is not all_kraft


def test_administrators_are_served_without_a_claim_while_it_is_made_again_and_never_by_one_that_is_fenced() -> None:
    assert [each for each in State if writes_without_claim(each, image(KRAFT))] == [State.RESUMING]


@pytest.mark.parametrize(
    ("state", "needed"),
    [
        (MigrationState.NONE, True),
        (MigrationState.PRE_MIGRATION, True),
        (MigrationState.MIGRATION, False),
        (MigrationState.POST_MIGRATION, False),
    ],
)
def test_zookeeper_has_to_be_there_at_the_start_before_the_takeover(state: MigrationState, *, needed: bool) -> None:
    assert zookeeper_needed(image(KRAFT, state)) is needed


def test_far_behind_an_absent_zookeeper_administrators_are_refused_only_beside_zookeeper_mode_brokers() -> None:
    log = Log()
    node = Node(log)
    node.watch.written(9)
    node.watch.committed(12)
    node.passes(10_000)
    node.watch.brokers_are(log.newest)
    assert node.watch.refusal() is not None
    log.newest.brokers = {each.id: each for each in KRAFT}
    node.watch.brokers_are(log.newest)
    assert node.watch.refusal() is None
    assert node.watch.finding is not None, "the alarm stays"
    assert node.watch.finding.code == "Z2K-2041"
    log.newest.brokers = {each.id: each for each in HYBRID}
    node.watch.brokers_are(log.newest)
    assert node.watch.refusal() is not None


# --- who is stock ------------------------------------------------------------------------------------------


def registered(node: int, incarnation: bytes) -> Controller:
    return Controller(node, incarnation, zk_migration_ready=True)


def test_a_registration_tells_our_software_from_kafkas_also_after_a_stock_snapshot() -> None:
    ours, stock = our_incarnation(b"\xff" * 8), an_id("a random id")
    assert is_ours(ours)
    assert not is_ours(stock)
    assert len(ours) == 16
    known = {3000: registered(3000, ours), 3001: registered(3001, stock)}
    assert registered_by_others(known, (3000, 3001, 3002)) == [3001]


def test_a_new_leader_knows_who_is_stock_and_a_fetch_says_who_runs_now() -> None:
    observed = VoterObservations()
    voter = SimpleNamespace(node_id=3000, voters=(3000, 3001, 3002))
    raft = SimpleNamespace(voter=voter, now_ms=lambda: 0)
    known = {each: registered(each, an_id(f"run-{each}")) for each in (3001, 3002)}
    view = QuorumView(raft, observed, controllers=lambda: known)  # type: ignore[arg-type]
    assert view.stock_voters() == [3001, 3002]
    observed.fetched(3001, "zk2kraft", 0)
    assert view.stock_voters() == [3002]
    observed.fetched(3001, "apache-kafka-java", 0)
    known[3002] = replace(known[3002], incarnation=our_incarnation(bytes(8)))
    assert view.stock_voters() == [3001]
