"""Who leads: compared with Kafka's own rules, written down a second time and as plainly as they can be."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migrator.controller.partitions.elections import (
    LEVEL_ISR_SHRINK_NEEDS_NO_BUMP,
    Election,
    change,
    elect,
    preferred_leaders,
    unclean_enabled,
    unclean_leaders,
)
from migrator.model.values import NO_LEADER, Partition, Recovery
from migrator.wire.messages.metadata import NO_LEADER_CHANGE, NO_RECOVERY_CHANGE, PartitionChangeRecord
from tests.support.arbitrary_images import BROKERS
from tests.support.builders import a_broker, a_partition, a_topic, an_id, an_image
from tests.support.situations import CONTROLLER, a_situation, replayed

TOPIC = an_id("orders")


# --- the rules, once more ---------------------------------------------------------------------------------


def leader_plainly(partition: Partition, isr: list[int], able: set[int], election: Election) -> tuple[int, bool]:
    """In replica order; the leader stays where it can; PREFERRED tries the first replica before; then, if allowed,
    whoever is able although out of sync.
    """
    order = [partition.leader, *partition.replicas]
    if election is Election.PREFERRED:
        order = [partition.replicas[0], *order]
    clean = [each for each in order if each in isr and each in able]
    if clean:
        return clean[0], False
    able_replicas = [each for each in partition.replicas if each in able]
    if election is Election.UNCLEAN and able_replicas:
        return able_replicas[0], True
    return NO_LEADER, False


def change_plainly(
    partition: Partition, isr: list[int], able: set[int], election: Election, recovery: int, *, bumps: bool
) -> PartitionChangeRecord | None:
    """Kafka's `PartitionChangeBuilder`: election, in-sync set, bump on a shrink, recovery."""
    leader, unclean = leader_plainly(partition, isr, able, election)
    fields: dict[str, Any] = {}
    if leader != partition.leader:
        fields["leader"] = leader
        if unclean:
            fields["isr"] = (leader,)
            if partition.recovery != Recovery.RECOVERING:
                fields["leader_recovery_state"] = Recovery.RECOVERING
    if "isr" not in fields and isr and tuple(isr) != partition.isr:
        fields["isr"] = tuple(isr)
    if bumps and "leader" not in fields and set(partition.isr) - set(fields.get("isr", partition.isr)):
        fields["leader"] = partition.leader
    if recovery != partition.recovery:
        fields["leader_recovery_state"] = recovery
    return PartitionChangeRecord(partition_id=partition.id, topic_id=TOPIC, **fields) if fields else None


@st.composite
def any_partition(draw: st.DrawFn) -> Partition:
    """Also those that only a damaged tree could hold: a leader out of sync."""
    replicas = tuple(draw(st.permutations(BROKERS))[: draw(st.integers(1, 4))])
    isr = tuple(draw(st.permutations(replicas))[: draw(st.integers(1, len(replicas)))])
    leader = draw(st.sampled_from([*replicas, NO_LEADER]))
    recovery = draw(st.sampled_from([Recovery.RECOVERED, Recovery.RECOVERING]))
    return Partition(0, replicas, isr, leader, 5, 9, recovery=recovery)


@settings(max_examples=500, deadline=None)
@given(
    partition=any_partition(),
    able=st.sets(st.sampled_from(BROKERS)),
    data=st.data(),
    election=st.sampled_from(Election),
    level=st.sampled_from([7, LEVEL_ISR_SHRINK_NEEDS_NO_BUMP - 1, LEVEL_ISR_SHRINK_NEEDS_NO_BUMP, 17, 21]),
    migration=st.booleans(),
)
def test_every_decision_is_the_one_of_stock(
    partition: Partition, able: set[int], data: st.DataObject, election: Election, level: int, migration: bool
) -> None:
    isr = data.draw(st.lists(st.sampled_from(partition.replicas), unique=True), "wanted in-sync set")
    recovery = data.draw(st.sampled_from([Recovery.RECOVERED, Recovery.RECOVERING]), "wanted recovery")
    found = change(
        TOPIC,
        partition,
        may_lead=able.__contains__,
        level=level,
        migration_enabled=migration,
        isr=isr,
        election=election,
        recovery=recovery,
    )
    bumps = migration or level < LEVEL_ISR_SHRINK_NEEDS_NO_BUMP
    expected = change_plainly(partition, isr, able, election, recovery, bumps=bumps)
    assert (None if found is None else found[0]) == expected
    if found is not None:
        assert found[1] == (1 if level >= 17 else 0)


# --- named cases ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("election", "isr", "able", "leader", "expected"),
    [
        (Election.ONLINE, (1, 2, 3), {1, 2, 3}, 2, (2, False)),  # a leader that can stay stays
        (Election.PREFERRED, (1, 2, 3), {1, 2, 3}, 2, (1, False)),
        (Election.PREFERRED, (2, 3), {1, 2, 3}, 2, (2, False)),  # the first replica is not in sync
        (Election.ONLINE, (3, 2), {2, 3}, 1, (2, False)),  # the order of the replicas decides, not that of the ISR
        (Election.ONLINE, (1,), {2, 3}, 1, (NO_LEADER, False)),
        (Election.UNCLEAN, (1,), {2, 3}, 1, (2, True)),
        (Election.UNCLEAN, (3,), {2, 3}, 1, (3, False)),  # a clean leader goes before an unclean one
        (Election.UNCLEAN, (1,), set(), 1, (NO_LEADER, False)),
    ],
)
def test_the_leader_is_found_by_the_rules(
    election: Election, isr: tuple[int, ...], able: set[int], leader: int, expected: tuple[int, bool]
) -> None:
    partition = Partition(0, (1, 2, 3), isr, leader)
    assert elect(partition, isr, able.__contains__, election) == expected


def test_the_last_member_of_an_in_sync_set_never_leaves_it() -> None:
    """Who has the records is not forgotten: the set stays, the leader goes."""
    partition = a_partition(0, replicas=(1, 2), isr=(1,))
    found = change(TOPIC, partition, may_lead={2}.__contains__, level=21, migration_enabled=True, isr=[])
    assert found is not None
    assert found[0] == PartitionChangeRecord(partition_id=0, topic_id=TOPIC, leader=NO_LEADER)


def test_during_the_migration_a_shrinking_in_sync_set_raises_the_leader_epoch() -> None:
    """ZooKeeper-mode brokers rely on it (R-866-15); a growing set raises nothing."""

    def decide(isr: list[int], *, migration: bool) -> PartitionChangeRecord:
        partition = a_partition(0, isr=(1, 2))
        found = change(
            TOPIC, partition, may_lead={1, 2, 3}.__contains__, level=21, migration_enabled=migration, isr=isr
        )
        assert found is not None
        assert isinstance(found[0], PartitionChangeRecord)
        return found[0]

    assert decide([1], migration=True).leader == 1
    assert decide([1], migration=False).leader == NO_LEADER_CHANGE
    assert decide([1, 2, 3], migration=True).leader == NO_LEADER_CHANGE
    assert decide([1, 2, 3], migration=True).leader_recovery_state == NO_RECOVERY_CHANGE


@pytest.mark.parametrize(
    ("topic", "node", "brokers", "file", "expected"),
    [
        ("true", "false", "false", False, True),
        ("false", "true", "true", True, False),
        (None, "true", "false", False, True),
        (None, "false", "true", True, False),
        (None, None, "true", False, True),
        (None, None, "false", True, False),
        (None, None, None, True, True),
        (None, None, None, False, False),
        (" TRUE ", None, None, False, True),
    ],
)
def test_whether_an_unclean_leader_is_allowed_is_said_by_the_topic_first(
    topic: str | None, node: str | None, brokers: str | None, file: bool, expected: bool
) -> None:
    """node: what was set for the controller that decides, by its id."""
    key = "unclean.leader.election.enable"
    set_for = {str(CONTROLLER): node, "": brokers}
    image = an_image(
        a_topic("orders"),
        topic_configs={} if topic is None else {"orders": {key: topic}},
        broker_configs={name: {key: value} for name, value in set_for.items() if value is not None},
    )
    assert unclean_enabled(a_situation(image, unclean_leader_election=file), "orders") is expected


def test_a_partition_without_a_leader_gets_an_unclean_one_where_its_topic_allows_it() -> None:
    """The sweep: the topic began to allow it, or the replica came back, after the last replica in sync had gone."""
    allows = {"unclean.leader.election.enable": "true"}
    alone: dict[str, Any] = {"isr": (3,), "leader": -1}
    able, unable = (
        a_topic("able", [a_partition(n, **alone) for n in range(3)]),
        a_topic("unable", [a_partition(**alone)]),
    )
    nowhere = a_topic("nowhere", [a_partition(replicas=(3,), leader=-1)])
    led = a_topic("led", [a_partition(isr=(2,))])
    image = an_image(
        able,
        unable,
        nowhere,
        led,
        brokers=(1, 2, a_broker(3, fenced=True)),
        topic_configs={
            "able": allows,
            "nowhere": allows,
            "led": allows,
        },
    )
    situation = a_situation(image)
    records = unclean_leaders(situation, 10)
    after = replayed(image, records).after
    assert [(each.leader, each.isr, each.recovery) for each in after.topics[able.id].partitions] == [
        (1, (1,), Recovery.RECOVERING)
    ] * 3
    assert len(records) == 3
    assert len(unclean_leaders(situation, 2)) == 2
    everywhere = a_situation(image, unclean_leader_election=True)
    assert len(unclean_leaders(everywhere, 10)) == 4


def test_an_unclean_leader_is_a_clean_one_where_a_replica_in_sync_is_back() -> None:
    orders = a_topic("orders", [a_partition(isr=(2,), leader=-1)])
    image = an_image(orders, topic_configs={"orders": {"unclean.leader.election.enable": "true"}})
    (partition,) = replayed(image, unclean_leaders(a_situation(image), 10)).after.topics[orders.id].partitions
    assert (partition.leader, partition.isr, partition.recovery) == (2, (2,), Recovery.RECOVERED)


def test_leadership_comes_home_to_first_replicas_that_can_lead_and_no_more_than_asked() -> None:
    partitions = [
        a_partition(0, leader=1),  # at home already
        a_partition(1, leader=2),
        a_partition(2, leader=2, isr=(2, 3)),  # its first replica is not in sync
        a_partition(3, replicas=(4, 2), leader=2),  # its first replica is fenced
        a_partition(4, leader=3),
    ]
    image = an_image(a_topic("orders", partitions), brokers=(1, 2, 3, a_broker(4, fenced=True)))
    found = [record for record, _ in preferred_leaders(a_situation(image), 10)]
    assert found == [PartitionChangeRecord(partition_id=each, topic_id=TOPIC, leader=1) for each in (1, 4)]
    assert len(preferred_leaders(a_situation(image), 1)) == 1
