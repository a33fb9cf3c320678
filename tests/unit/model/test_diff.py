"""The difference of two images names exactly what differs, no key more."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migrator.model.diff import MIRRORED_CONFIGS, diff, same_partition
from migrator.model.draft import Contradiction, Delta, Draft
from migrator.model.image import EMPTY, Image, Position
from migrator.model.values import Acl, AclEntry, AclResource, ConfigKey, ConfigType, Partition, Recovery
from tests.support.arbitrary_images import acls, images, partitions, quotas, scram_credentials, scram_keys, tokens
from tests.support.builders import a_broker, a_partition, a_topic, an_id, an_image

CONFIG_KEYS = [
    ConfigKey(ConfigType.TOPIC, "a"),
    ConfigKey(ConfigType.BROKER, ""),
    ConfigKey(ConfigType.BROKER, "1"),
    ConfigKey(ConfigType.CLIENT_METRICS, "m"),
]


@st.composite
def random_changes(draw: st.DrawFn, image: Image) -> Delta:
    """Up to eight changes of any kind on top of an image, some of which take each other back."""
    draft = Draft(image)
    topics = dict(image.topic_ids)
    next_producer_id = image.next_producer_id
    for _ in range(draw(st.integers(0, 8))):
        match draw(st.sampled_from(["create", "remove", "partition", "config", "broker", "ids", "users", "acls"])):
            case "create":
                name = draw(st.sampled_from("abcdef"))
                if name not in topics:
                    topics[name] = an_id(name + draw(st.sampled_from(["", "'"])))
                    draft.put_topic(a_topic(name, draw(st.integers(1, 2)), topics[name]))
            case "remove" if topics:
                draft.remove_topic(topics.pop(draw(st.sampled_from(sorted(topics)))))
            case "partition" if topics:
                topic_id = topics[draw(st.sampled_from(sorted(topics)))]
                draft.put_partition(topic_id, draw(partitions(draw(st.integers(0, 2)))))
            case "config":
                key, value = draw(st.sampled_from(CONFIG_KEYS)), draw(st.sampled_from(["1", "2", None]))
                draft.set_config(key, draw(st.sampled_from(["x", "y"])), value)
            case "ids":
                next_producer_id += draw(st.integers(1, 3))
                draft.set_next_producer_id(next_producer_id)
            case "users":
                entity, limits = draw(quotas())
                draft.set_quota(entity, next(iter(limits)), draw(st.sampled_from([1.0, None])))
                draft.put_scram(draw(scram_keys), draw(scram_credentials))
                draft.remove_scram(draw(scram_keys))
                draft.put_token(draw(tokens))
                draft.remove_token(draw(tokens).id)
            case "acls":
                acl = draw(acls)
                with suppress(Contradiction):
                    draft.put_acl(an_id(repr(acl) + draw(st.sampled_from(["", "'"]))), acl)
                with suppress(Contradiction):
                    draft.remove_acl(an_id(repr(draw(acls))))
            case _:
                draft.put_broker(a_broker(draw(st.integers(1, 9))))
    return draft.finish(Position(9, 9))


def plainly(image: Image) -> dict[bytes, Any]:
    """Topics as what ZooKeeper can say of them: the slow, obvious twin of what `diff` compares."""
    return {
        topic_id: (topic.name, [msgspec.structs.replace(each, directories=()) for each in topic.partitions])
        for topic_id, topic in image.topics.items()
    }


def differing(left: dict[Any, Any], right: dict[Any, Any]) -> set[Any]:
    return {key for key in left.keys() | right.keys() if left.get(key) != right.get(key)}


@settings(max_examples=200, deadline=None)
@given(data=st.data(), before=images())
def test_any_changes_at_all_are_named_exactly(data: st.DataObject, before: Image) -> None:
    applied = data.draw(random_changes(before))
    found = diff(before, applied.after)
    assert found.topics == differing(plainly(before), plainly(applied.after))
    assert found.topics <= applied.topics
    mirrored = [
        {key: dict(config) for key, config in image.configs.items() if key.type in MIRRORED_CONFIGS}
        for image in (before, applied.after)
    ]
    assert found.configs == differing(*mirrored)
    assert found.configs <= applied.configs
    assert found.producer_ids == (before.next_producer_id != applied.after.next_producer_id)
    for family in ("quotas", "scram", "tokens"):
        sides = [dict(getattr(image, family)) for image in (before, applied.after)]
        assert getattr(found, family) == differing(*sides)
        assert getattr(found, family) <= getattr(applied, family)
    assert found.acls == differing(*map(entries_by_resource, (before, applied.after)))
    assert found.acls <= applied.acls
    assert (found.before, found.after) == (before, applied.after)


def entries_by_resource(image: Image) -> dict[AclResource, set[AclEntry]]:
    """The slow twin of the image's own index."""
    found: dict[AclResource, set[AclEntry]] = {}
    for acl in image.acls.values():
        found.setdefault(acl.resource, set()).add(acl.entry)
    assert found == {resource: set(image.acl_entries(resource)) for resource in image.acl_ids}
    return found


@settings(max_examples=50, deadline=None)
@given(left=images(), right=images())
def test_a_difference_is_the_same_from_both_sides(left: Image, right: Image) -> None:
    there, back = diff(left, right), diff(right, left)
    assert msgspec.structs.replace(there, before=right, after=left) == back
    assert diff(left, left).is_empty


@pytest.mark.parametrize(
    "change",
    [
        {"leader": 2},
        {"leader_epoch": 1},
        {"partition_epoch": 1},
        {"isr": (1, 2)},
        {"isr": (2, 1, 3)},
        {"replicas": (1, 2, 3, 4)},
        {"removing": (3,)},
        {"adding": (3,)},
        {"recovery": Recovery.RECOVERING},
    ],
    ids=str,
)
def test_every_field_that_zookeeper_knows_counts(change: dict[str, Any]) -> None:
    before = a_partition(0)
    after: Partition = msgspec.structs.replace(before, **change)
    assert not same_partition(before, after)
    found = diff(an_image(a_topic("orders", [before])), an_image(a_topic("orders", [after])))
    assert found.topics == {an_id("orders")}


def test_what_zookeeper_has_no_form_of_is_no_difference() -> None:
    """Directories, brokers, features and client metrics are in the log only."""
    before = an_image(a_topic("orders", [a_partition(0)]), brokers=(1, 2))
    with_directories = a_partition(0, directories=(an_id("dir"),) * 3)
    after = an_image(a_topic("orders", [with_directories]), brokers=(1, 2, 3))
    draft = Draft(after)
    draft.set_config(ConfigKey(ConfigType.CLIENT_METRICS, "m"), "interval.ms", "1")
    draft.set_feature("kraft.version", 1)
    assert diff(before, draft.finish(after.position).after).is_empty


def test_acls_with_other_ids_that_say_the_same_are_no_difference() -> None:
    """ZooKeeper knows no ids: a copy gives them, and an ACL that was removed and made again has a new one."""
    acl = Acl(AclResource(2, 3, "orders"), AclEntry("User:alice", "*", 3, 3))
    sides = []
    for name in ("one", "other"):
        draft = Draft(EMPTY)
        draft.put_acl(an_id(name), acl)
        sides.append(draft.finish(Position(1, 1)).after)
    assert sides[0] != sides[1]
    assert diff(*sides).is_empty


def test_the_difference_to_nothing_is_everything() -> None:
    image = an_image(a_topic("orders"), topic_configs={"orders": {"a": "b"}}, next_producer_id=1000)
    found = diff(EMPTY, image)
    assert found.topics == {an_id("orders")}
    assert found.configs == {ConfigKey(ConfigType.TOPIC, "orders")}
    assert found.producer_ids
