"""Nodes that would end the migration as leader, or cannot go back: named before that, and never named as successors."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

import pytest
from msgspec import structs

from migrator.controller.features import activation_refusal
from migrator.controller.incarnations import our_incarnation
from migrator.controller.unfit_nodes import unfit_nodes, unfit_voters
from migrator.model.image import EMPTY, METADATA_VERSION, Image
from migrator.model.later_kafka import is_release_without_zookeeper, registered_later
from migrator.model.values import Broker, Controller, FeatureRange, MigrationState
from migrator.node.leader.unfit_watch import UnfitWatch
from migrator.node.leader.voter_observations import HEARD_MS, VoterObservations
from migrator.raft.types import VotersUnfit
from tests.support.builders import a_broker, an_id, an_image

VOTERS: Final = frozenset({3000, 3001, 3002})
OF_3_9: Final = (1, 21)
OF_4_0: Final = (7, 25)


def a_controller(
    node: int, levels: tuple[int, int] = OF_3_9, *, ready: bool | None = None, ours: bool = False
) -> Controller:
    """As it registers: without ZooKeeper it is never ready for the migration."""
    incarnation = our_incarnation(bytes([node % 100] * 8)) if ours else an_id(f"run-{node}")
    is_ready = levels == OF_3_9 if ready is None else ready
    return Controller(node, incarnation, is_ready, features=(FeatureRange(METADATA_VERSION, *levels),))


def a_quorum(
    *changed: Controller, migration: MigrationState = MigrationState.MIGRATION, brokers: tuple[Broker | int, ...] = (1,)
) -> Image:
    image = an_image(migration=migration, brokers=brokers)
    for each in (*(a_controller(node, ours=True) for node in sorted(VOTERS)), *changed):
        image = structs.replace(image, controllers=image.controllers.set(each.id, each))
    return image


def kraft_broker(broker: int, levels: tuple[int, int]) -> Broker:
    return a_broker(broker, migrating=False, features=(FeatureRange(METADATA_VERSION, *levels),))


def texts(image: Image, releases: dict[int, str] | None = None, leader: int = 3000) -> list[str]:
    return [each.text for each in unfit_nodes(image, releases or {}, leader=leader, node=3000)]


def test_a_quorum_of_ours_has_no_unfit_node() -> None:
    assert texts(a_quorum()) == []
    assert unfit_voters(a_quorum(), {}, VOTERS) == frozenset()


def test_a_controller_without_zookeeper_is_named_by_its_registration_before_it_leads() -> None:
    image = a_quorum(a_controller(3001, OF_4_0))
    (found,) = unfit_nodes(image, {}, leader=3000, node=3000)
    assert found.code == "Z2K-2024"
    assert found.text.startswith("Controller 3001 does not fit")
    assert "metadata.version 7 to 25" in found.text
    assert "as leader it would end dual-write" in found.text
    assert unfit_voters(image, {}, VOTERS - {3000}) == {3001}


def test_once_it_leads_its_followers_say_that_nothing_goes_to_zookeeper_any_more() -> None:
    (said,) = texts(a_quorum(a_controller(3001, OF_4_0)), leader=3001)
    assert "it leads: nothing goes to ZooKeeper any more" in said


def test_a_fetch_names_it_where_no_controller_can_register() -> None:
    """Below metadata.version 3.7-IV0."""
    image = a_quorum()
    assert unfit_voters(image, {3001: "4.0.0"}, VOTERS) == {3001}
    (said,) = texts(image, {3001: "4.0.0"})
    assert "its Kafka is 4.0.0" in said


def test_a_fetch_of_3_9_counts_more_than_the_registration_of_the_process_before() -> None:
    image = a_quorum(a_controller(3001, OF_4_0))
    assert unfit_voters(image, {3001: "3.9.2"}, VOTERS) == frozenset()
    assert unfit_voters(image, {3001: "1"}, VOTERS) == frozenset(), "ours is back in its place"
    assert texts(image, {3001: "3.9.2"}) == []


def test_a_stock_voter_without_the_flag_is_no_successor_either() -> None:
    """F-48: it would finalize the migration."""
    image = a_quorum(a_controller(3002, ready=False))
    assert unfit_voters(image, {}, VOTERS) == {3002}
    (said,) = texts(image)
    assert "zookeeper.metadata.migration.enable" in said


def test_ours_that_a_leader_without_zookeeper_registered_stays_fit() -> None:
    """Seen with 4.0.0: it registers every controller as not ready for the migration."""
    assert unfit_voters(a_quorum(a_controller(3002, ready=False, ours=True)), {}, VOTERS) == frozenset()


def test_a_broker_in_kraft_mode_without_zookeeper_is_named_and_one_in_zookeeper_mode_is_not() -> None:
    """A broker in ZooKeeper mode registers its inter.broker.protocol.version as its whole range."""
    image = a_quorum(brokers=(kraft_broker(1, OF_4_0), kraft_broker(2, OF_3_9), a_broker(3)))
    assert [(each.name, each.lowest) for each in registered_later(image)] == [("broker 1", 7)]
    (said,) = texts(image)
    assert said.startswith("Broker 1 does not fit")
    assert "cannot go back" in said


@pytest.mark.parametrize("migration", list(MigrationState))
def test_a_later_kafka_is_unfit_until_the_migration_is_over(migration: MigrationState) -> None:
    image = a_quorum(a_controller(3001, OF_4_0), migration=migration, brokers=(kraft_broker(1, OF_4_0),))
    over = migration is MigrationState.POST_MIGRATION
    assert bool(texts(image)) is not over
    assert bool(unfit_voters(image, {3001: "4.0.0"}, VOTERS)) is not over


def test_a_controller_whose_own_log_forgot_the_migration_says_so_before_it_is_elected() -> None:
    (said,) = texts(a_quorum(migration=MigrationState.NONE))
    assert said.startswith("Controller 3000 does not fit")
    assert "does not have the migration" in said
    assert unfit_nodes(EMPTY, {}, leader=-1, node=3000) == (), "nothing is read yet"


@pytest.mark.parametrize(
    ("release", "without"),
    [
        ("3.9.2", False),
        ("4.0.0", True),
        ("4.4.0-SNAPSHOT", True),
        ("10.0.0", True),
        ("unknown", False),
        ("1", False),
        ("", False),
    ],
)
def test_a_release_is_known_by_its_first_number(release: str, without: bool) -> None:
    assert is_release_without_zookeeper(release) is without


# --- what this controller does with it --------------------------------------------------------------------


def a_watch(image: Image, now_ms: int = 0) -> tuple[UnfitWatch, VoterObservations, list[Any]]:
    got: list[Any] = []
    voter = SimpleNamespace(node_id=3000, others=(3001, 3002), leader=3000, unfit=frozenset())
    raft: Any = SimpleNamespace(voter=voter, now_ms=lambda: now_ms)

    def receive(event: VotersUnfit) -> None:
        got.append(event)
        voter.unfit = event.voters

    raft.receive = receive
    observed = VoterObservations()
    controller: Any = SimpleNamespace(image=image)
    return UnfitWatch(raft, controller, observed), observed, got


def test_the_consensus_core_hears_of_an_unfit_voter_once_and_the_finding_stands() -> None:
    watch, _, got = a_watch(a_quorum(a_controller(3001, OF_4_0)))
    watch.look()
    watch.look()
    assert got == [VotersUnfit(frozenset({3001}))]
    assert [each.code for each in watch.findings] == ["Z2K-2024"]


def test_it_is_fit_again_as_soon_as_3_9_fetches_in_its_place() -> None:
    watch, observed, got = a_watch(a_quorum(a_controller(3001, OF_4_0)), now_ms=10_000)
    observed.fetched(3001, "apache-kafka-java", 10_000 - HEARD_MS - 1, "3.9.2")
    watch.look()
    observed.fetched(3001, "apache-kafka-java", 10_000, "3.9.2")
    watch.look()
    assert got == [VotersUnfit(frozenset({3001})), VotersUnfit(frozenset())]
    assert watch.findings == ()


def test_a_release_without_a_number_does_not_speak_against_the_registration() -> None:
    watch, observed, got = a_watch(a_quorum(a_controller(3001, OF_4_0)))
    observed.fetched(3001, "apache-kafka-java", 0, "unknown")
    watch.look()
    assert got == [VotersUnfit(frozenset({3001}))]


# --- a log that forgot it ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("image", "says"),
    [
        (a_quorum(a_controller(3001, OF_4_0), migration=MigrationState.NONE), "led the log, and its snapshot"),
        (a_quorum(migration=MigrationState.NONE, brokers=(a_broker(1),)), "brokers [1] are registered for one"),
        (
            a_quorum(migration=MigrationState.NONE, brokers=(kraft_broker(1, OF_3_9),)),
            "and can never be migrated to, or a Kafka without ZooKeeper",
        ),
    ],
    ids=["registered", "put-back-in-dual-write", "put-back-in-soak"],
)
def test_a_log_that_forgot_the_migration_is_refused_with_what_happened(image: Image, says: str) -> None:
    found = activation_refusal(image, log_is_empty=False, migration_enabled=True, bootstrap_level=21)
    assert found is not None
    assert found.code == "Z2K-3004"
    assert says in found.text
