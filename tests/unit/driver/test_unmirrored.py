"""One thing that cannot be written to ZooKeeper is named, and keeps no other change from it."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kazoo.client import KazooClient

from migrator.driver import mirror as planning
from migrator.driver.mirror import Shape, plan, still_unmirrored
from migrator.model.diff import diff
from migrator.model.draft import Draft
from migrator.model.image import EMPTY, Image, Position
from migrator.model.values import (
    Acl,
    AclEntry,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    AclResourceType,
    ConfigKey,
    ConfigType,
    QuotaEntity,
    ScramCredential,
    ScramKey,
    ScramMechanism,
)
from migrator.zk import paths
from migrator.zk.multi import Check, Create, Delete, Multi, SetData
from migrator.zk.znodes import topic_data
from tests.support.builders import a_claim, a_partition, a_topic, an_id, an_image
from tests.unit.driver.test_mirror import AT, a_cluster, assert_mirrored, mirror

CREDENTIAL = ScramCredential(b"salt", b"stored", b"server", 4096)
DOT, ALICE = QuotaEntity((("user", "."),)), QuotaEntity((("user", "alice"),))


@pytest.mark.parametrize(
    ("hostile", "family"),
    [
        ({"quotas": {DOT: {"request_percentage": 1.0}}}, "entity"),
        ({"quotas": {ALICE: {"request_percentage": math.inf}}}, "entity"),
        ({"quotas": {QuotaEntity((("client-id", ".."),)): {"producer_byte_rate": 1.0}}}, "entity"),
        ({"scram": {ScramKey("..", ScramMechanism.SHA_256): CREDENTIAL}}, "entity"),
    ],
)
def test_the_rest_of_a_commit_is_written(hostile: dict[str, object], family: str) -> None:
    ensemble, session, claim = a_cluster()
    image = an_image(a_topic("orders"), topic_configs={"orders": {"retention.ms": "1"}}, **hostile)  # type: ignore[arg-type]
    planned = plan(diff(EMPTY, image), claim, AT, Shape())
    assert [each.family for each in planned.unmirrored] == [family]
    assert all(session.apply(multi).applied for multi in planned.multis)
    assert paths.topic("orders") in ensemble.nodes
    assert {path for path in planned.configs if path not in ensemble.nodes} == set()


def test_whatever_the_planner_does_not_know_is_one_item(monkeypatch: pytest.MonkeyPatch) -> None:
    ensemble, session, claim = a_cluster()
    image = an_image(a_topic("orders"), a_topic("payments"), next_producer_id=2_000)
    monkeypatch.setattr(planning, "topic_data", lambda topic: topic_data(topic) if topic.name == "orders" else 1 / 0)
    planned = plan(diff(EMPTY, image), claim, AT, Shape())
    (item,) = planned.unmirrored
    assert (item.family, item.key, item.subject) == ("topic", "payments", an_id("payments"))
    assert "ZeroDivisionError" in item.reason
    for multi in planned.multis:
        assert session.apply(multi).applied
    monkeypatch.undo()
    assert paths.topic("payments") not in ensemble.nodes
    assert paths.topic_config("payments") not in planned.configs, "its configuration was planned, and then was not"
    mirror(session, planned.claim, diff(an_image(a_topic("orders"), next_producer_id=2_000), image), Shape())
    assert_mirrored(session, image)


def test_an_item_is_named_until_its_subject_changes() -> None:
    _, _, claim = a_cluster()
    before = an_image(a_topic("orders"), quotas={DOT: {"request_percentage": 1.0}})
    planned = plan(diff(EMPTY, before), claim, AT, Shape())
    other = diff(before, an_image(a_topic("orders", 2), quotas={DOT: {"request_percentage": 1.0}}))
    planned_other = plan(other, claim, AT, Shape())
    assert still_unmirrored(planned.unmirrored, other, planned_other) == planned.unmirrored
    gone = diff(before, an_image(a_topic("orders")))
    assert still_unmirrored(planned.unmirrored, gone, plan(gone, claim, AT, Shape())) == ()


# --- whatever stands in the log ---------------------------------------------------------------------------

hostile = st.one_of(
    st.sampled_from([".", "..", "", "/", "a/b", "a/../b", "\0", "\x7f", "\ufffd", "\ud800", "\U0001f600", "<default>"]),
    st.text(max_size=8),
)
numbers = st.one_of(st.sampled_from([math.inf, -math.inf, math.nan, 2.0**63, -1.0, 5e-324]), st.floats())
entities = st.lists(
    st.tuples(st.sampled_from(["user", "client-id", "ip"]), st.none() | hostile),
    min_size=1,
    max_size=2,
    unique_by=lambda each: each[0],
).map(lambda parts: QuotaEntity(tuple(parts)))


@st.composite
def hostile_images(draw: st.DrawFn) -> Image:
    draft = Draft(an_image(a_topic("orders")))
    for entity in draw(st.lists(entities, max_size=3)):
        key = draw(st.sampled_from(["request_percentage", "producer_byte_rate", "connection_creation_rate", "odd"]))
        draft.set_quota(entity, key, draw(numbers))
    for user in draw(st.lists(hostile, max_size=2)):
        draft.put_scram(ScramKey(user, draw(st.sampled_from(ScramMechanism))), CREDENTIAL)
    for name in draw(st.lists(hostile, max_size=2, unique=True)):
        resource = AclResource(draw(st.sampled_from(AclResourceType)), draw(st.sampled_from(AclPattern)), name)
        draft.put_acl(
            an_id(repr(resource)), Acl(resource, AclEntry("User:a", "*", AclOperation.READ, AclPermission.ALLOW))
        )
    for kind in (ConfigType.TOPIC, ConfigType.BROKER):
        draft.put_config(ConfigKey(kind, draw(hostile)), [(draw(hostile), draw(hostile))])
    return draft.finish(Position(1, 1001)).after


def as_kazoo_builds_it(multi: Multi) -> None:
    """Raises what the client library raises, which looks at paths and bytes before anything is sent."""
    transaction = KazooClient("127.0.0.1:1/chroot").transaction()
    for each in multi.operations:
        match each:
            case Check(path, version):
                transaction.check(path, version)
            case Create(path, data, ephemeral, sequence):
                transaction.create(path, data, ephemeral=ephemeral, sequence=sequence)
            case SetData(path, data, version):
                transaction.set_data(path, data, version)
            case Delete(path, version):
                transaction.delete(path, version)
    assert len(transaction.operations) == len(multi)


@settings(max_examples=300, deadline=None)
@given(before=hostile_images(), after=hostile_images())
def test_no_image_stops_the_planner_and_all_that_it_plans_can_be_sent(before: Image, after: Image) -> None:
    for left, right in ((EMPTY, before), (before, after), (after, before)):
        planned = plan(diff(left, right), a_claim(), AT, Shape())
        for multi in planned.multis:
            as_kazoo_builds_it(multi)
        assert all(each.reason for each in planned.unmirrored)


def acls(count: int) -> tuple[Acl, ...]:
    resource = AclResource(AclResourceType.TOPIC, AclPattern.LITERAL, "orders")
    entries = (AclEntry(f"User:{n:0200}", "*", AclOperation.READ, AclPermission.ALLOW) for n in range(count))
    return tuple(Acl(resource, entry) for entry in entries)


def test_acls_that_fill_more_than_a_znode_are_named_and_written_once_they_fit() -> None:
    """One request past jute.maxbuffer breaks the connection, and each repetition would break it again."""
    ensemble, session, claim = a_cluster()
    large = an_image(a_topic("orders"), acls=acls(5_000))
    planned = plan(diff(EMPTY, large), claim, AT, Shape())
    ((family, reason),) = [(each.family, each.reason) for each in planned.unmirrored]
    assert family == "ACLs"
    assert reason.startswith("Z2K-2124 /kafka-acl/Topic/orders would have")
    assert all(session.apply(multi).applied for multi in planned.multis)
    assert paths.topic("orders") in ensemble.nodes
    small = an_image(a_topic("orders"), acls=acls(3))
    delta = diff(large, small)
    held = frozenset(each.subject for each in planned.unmirrored)
    again = plan(delta, planned.claim, AT, Shape(planned.configs, unmirrored=held))
    assert still_unmirrored(planned.unmirrored, delta, again) == ()
    assert all(session.apply(multi).applied for multi in again.multis)
    assert_mirrored(session, small)


def test_what_changes_in_a_topic_that_is_not_whole_in_zookeeper_breaks_no_multi() -> None:
    """Its state znodes are not there; a write to one would be refused, and stop dual-write, at each change."""
    _, _, claim = a_cluster()
    before = an_image(a_topic("huge", [a_partition(n, range(40)) for n in range(10_000)]))
    planned = plan(diff(EMPTY, before), claim, AT, Shape())
    assert planned.multis == ()
    (item,) = planned.unmirrored
    assert item.reason.startswith("Z2K-2124 /brokers/topics/huge would have")
    (topic,) = before.topics.values()
    first = a_partition(0, range(40), isr=(0,), partition_epoch=1)
    after = an_image(a_topic("huge", [first, *topic.partitions[1:]]))
    again = plan(diff(before, after), claim, AT, Shape(unmirrored=frozenset({item.subject})))
    assert again.multis == ()
    assert [each.reason for each in again.unmirrored] == [
        "Z2K-2125 Topic huge is incomplete in ZooKeeper, so its later changes are not written there one by one."
    ]
