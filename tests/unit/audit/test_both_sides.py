"""The normalisers of both sides against each other: whatever a cluster holds, its copy says the same.

The tree is written as Kafka writes it and copied by the copy's own code; nothing of that code is in the audit.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from migrator.audit.compare import AuditReport, Difference, ExpectedDifferences, report
from migrator.audit.passwords import PasswordReader
from migrator.audit.quick import compare_sides, facts_of_values
from migrator.audit.verified_cache import VerifiedCache
from migrator.driver.copy import make_copy, producer_id_margin
from migrator.driver.mirror import Shape, plan
from migrator.model.diff import diff
from migrator.model.image import EMPTY, Position
from migrator.node.zookeeper.tree_reader import read_tree
from migrator.zk.passwords import encoded_config
from tests.support.arbitrary_images import images
from tests.support.builders import a_claim
from tests.support.fake_zookeeper import FakeEnsemble
from tests.support.passwords import an_encoder
from tests.support.seeded_tree import ROOTS, SeededTree, an_id, id_text

NAMES = st.from_regex(r"[a-zA-Z0-9._-]{1,12}", fullmatch=True).filter(lambda name: name not in (".", ".."))
REPLICAS = st.lists(st.integers(0, 5), min_size=1, max_size=4, unique=True)
VALUES = st.dictionaries(st.sampled_from(["retention.ms", "cleanup.policy", "ssl.key.password"]), st.text(), max_size=2)


@st.composite
def states(draw: st.DrawFn, replicas: list[int]) -> dict[str, Any]:
    isr = draw(st.lists(st.sampled_from(replicas), min_size=1, unique=True))
    return {
        "controller_epoch": draw(st.integers(1, 9)),
        "leader": draw(st.sampled_from([-1, *isr])),
        "leader_epoch": draw(st.integers(0, 1_000)),
        "isr": isr,
        "version": 1,
        **draw(st.sampled_from([{}, {"leader_recovery_state": 0}, {"leader_recovery_state": 1}])),
    }


@st.composite
def topics(draw: st.DrawFn) -> dict[str, Any]:
    replicas = draw(st.lists(REPLICAS, min_size=1, max_size=4))
    moving = draw(st.sampled_from([{}, {"0": [replicas[0][0]]}]))
    return {
        "assignment": {str(number): each for number, each in enumerate(replicas)},
        "adding": moving,
        "states": [(draw(states(each)), draw(st.integers(0, 9))) for each in replicas],
        "config": draw(st.none() | VALUES),
    }


@st.composite
def security(draw: st.DrawFn) -> dict[str, bytes]:
    """Znodes of users, clients, addresses, ACLs and tokens, by path."""
    image = draw(images())
    ensemble = FakeEnsemble()
    for root in (*ROOTS, "/migration", "/controller_epoch"):
        ensemble.create(root)
    session = ensemble.session()
    shown = msgspec.structs.replace(EMPTY, quotas=image.quotas, scram=image.scram, tokens=image.tokens)
    shown = msgspec.structs.replace(shown, acls=image.acls, acl_ids=image.acl_ids)
    claim = a_claim(epoch_version=0, migration_version=0)
    for multi in plan(diff(EMPTY, shown), claim, Position(1, 1), Shape()).multis:
        assert session.apply(multi).applied
    roots = ("/config/users/", "/config/clients/", "/config/ips/", "/kafka-acl", "/delegation_token/")
    return {path: data for path, data in ensemble.tree().items() if path.startswith(roots) and "change" not in path}


WRITER, READER = an_encoder(), PasswordReader.of(an_encoder().settings)
CLUSTERS = st.fixed_dictionaries(
    {
        "topics": st.dictionaries(NAMES, topics(), max_size=4),
        "brokers": st.dictionaries(st.sampled_from(["<default>", "1", "2"]), VALUES),
        "block_end": st.none() | st.integers(999, 1 << 40),
        "security": security(),
    }
)


def written(cluster: dict[str, Any]) -> FakeEnsemble:
    ensemble = FakeEnsemble()
    for root in ROOTS:
        ensemble.create(root)
    for name, topic in cluster["topics"].items():
        head = {"version": 3, "topic_id": id_text(an_id(name)), "partitions": topic["assignment"]}
        moving = {"adding_replicas": topic["adding"], "removing_replicas": {}}
        ensemble.create(f"/brokers/topics/{name}", encoded({**head, **moving}))
        for partition, (state, version) in enumerate(topic["states"]):
            path = f"/brokers/topics/{name}/partitions/{partition}/state"
            ensemble.create(path, encoded(state))
            ensemble.nodes[path].version = version
        if topic["config"] is not None:
            ensemble.create(f"/config/topics/{name}", encoded({"version": 1, "config": topic["config"]}))
    for broker, config in cluster["brokers"].items():
        kept = encoded_config(f"/config/brokers/{broker}", config, WRITER)
        ensemble.create(f"/config/brokers/{broker}", encoded({"version": 1, "config": kept}))
    if cluster["block_end"] is not None:
        block = {
            "version": 1,
            "broker": 1,
            "block_start": str(cluster["block_end"] - 999),
            "block_end": str(cluster["block_end"]),
        }
        ensemble.create("/latest_producer_id_block", encoded(block))
    for path, data in cluster["security"].items():
        ensemble.create(path, data)
    return ensemble


def encoded(value: Any) -> bytes:
    return json.dumps(value).encode()


def audited(copy_of: FakeEnsemble, now: FakeEnsemble) -> AuditReport:
    """By an audit that looked before, by one that looks for the first time, and in one pass without a memory."""
    copy = make_copy(read_tree(copy_of.session()), passwords=WRITER)
    margin = producer_id_margin(brokers=0)
    records = copy.by_topic(), copy.rest, margin
    verified = VerifiedCache(READER)
    verified.audit(copy_of.session(), *records)
    remembering = verified.audit(now.session(), *records)
    plain = compare_sides(now.session(), facts_of_values(copy.values()), ExpectedDifferences(margin), passwords=READER)
    in_one_pass = report(plain, seconds={}, zk={}, kraft={}, engine="quick")
    for each in (remembering, VerifiedCache(READER).audit(now.session(), *records)):
        assert each.families == in_one_pass.families
        assert named(each.differences) == named(in_one_pass.differences)
        assert named(each.expected) == named(in_one_pass.expected)
    return remembering


def named(found: list[Difference]) -> list[tuple[str, ...]]:
    """Without the values, of which some are sealed with a key of each audit's own."""
    return [(each.family, each.key, each.field_, each.kind, each.rule) for each in found]


@settings(max_examples=150, deadline=None)
@given(CLUSTERS)
def test_the_copy_of_any_cluster_says_the_same_as_its_zookeeper(cluster: dict[str, Any]) -> None:
    ensemble = written(cluster)
    report = audited(ensemble, ensemble)
    assert report.same, report.differences
    partitions = sum(len(topic["assignment"]) for topic in cluster["topics"].values())
    assert [each.compared for each in report.families[:2]] == [len(cluster["topics"]), partitions]


@settings(max_examples=100, deadline=None)
@given(CLUSTERS.filter(lambda cluster: bool(cluster["topics"])), st.data())
def test_one_change_of_a_state_is_found_and_nothing_else(cluster: dict[str, Any], data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(sorted(cluster["topics"])))
    partition = data.draw(st.integers(0, len(cluster["topics"][name]["states"]) - 1))
    before, after = written(cluster), written(cluster)
    path = f"/brokers/topics/{name}/partitions/{partition}/state"
    change = data.draw(st.sampled_from(["leader_epoch", "isr", "version"]))
    node = after.nodes[path]
    state = json.loads(node.data)
    match change:
        case "leader_epoch":
            state["leader_epoch"] += 1
        case "isr":
            state["isr"] = [*state["isr"], 99]
        case _:
            node.version += 1
    node.data = encoded(state)
    report = audited(before, after)
    told = "partition_epoch" if change == "version" else change
    assert [(each.key, each.field_) for each in report.differences] == [(f"{name}-{partition}", told)]


@settings(max_examples=100, deadline=None)
@given(CLUSTERS, CLUSTERS, st.sampled_from(["topics", "brokers", "security"]))
def test_two_clusters_are_the_same_exactly_when_they_mean_the_same(
    left: dict[str, Any], other: dict[str, Any], part: str
) -> None:
    """Against the slow, obvious answer: what both trees mean, as plain dictionaries."""
    right = {**left, part: other[part]}
    assert audited(written(left), written(right)).same == (meaning(left) == meaning(right))


def meaning(cluster: dict[str, Any]) -> dict[str, Any]:
    topics = {
        name: (
            topic["assignment"],
            topic["adding"],
            [({**state, "controller_epoch": 0, "leader_recovery_state": state.get("leader_recovery_state", 0)}, version)
             for state, version in topic["states"]],
        )
        for name, topic in cluster["topics"].items()
    }  # fmt: skip
    configs = {name: topic["config"] for name, topic in cluster["topics"].items() if topic["config"]}
    brokers = {name: values for name, values in cluster["brokers"].items() if values}
    security = {path: data for path, data in cluster["security"].items() if data not in (b"", NOTHING)}
    return {"topics": topics, "configs": configs, "brokers": brokers, "security": security}


NOTHING = b'{"version":1,"config":{}}'


def test_records_that_do_not_come_apart_by_topic_are_compared_all_at_once() -> None:
    """A topic's records that speak of another family are no proof of that topic."""
    cluster = {"topics": {}, "brokers": {}, "block_end": 999, "security": {}}
    ensemble = written(cluster)
    ensemble.create(
        "/brokers/topics/t", encoded({"version": 3, "topic_id": "AAAAAAAAQAqAAAAAAAAAAA", "partitions": {}})
    )
    copy = make_copy(read_tree(ensemble.session()))
    verified = VerifiedCache()
    foreign = {"t": (*copy.by_topic()["t"], *copy.rest)}
    found = verified.audit(ensemble.session(), foreign, (), producer_id_margin(brokers=0))
    assert found.same
    again = verified.audit(ensemble.session(), copy.by_topic(), (), producer_id_margin(brokers=0))
    assert [each.family for each in again.differences] == ["producer ids"]


def test_a_proof_ends_with_the_topic_s_records() -> None:
    ensemble = FakeEnsemble()
    SeededTree(topics=3, partitions=2).plant(ensemble)
    copy = make_copy(read_tree(ensemble.session()))
    verified = VerifiedCache()
    margin = producer_id_margin(brokers=3)
    assert verified.audit(ensemble.session(), copy.by_topic(), copy.rest, margin).same
    spoiled = copy.by_topic() | {"t000001": copy.by_topic()["t000001"][:-1]}
    found = verified.audit(ensemble.session(), spoiled, copy.rest, margin)
    assert [(each.family, each.key) for each in found.differences] == [("partitions", "t000001-1")]
    without = {name: values for name, values in copy.by_topic().items() if name != "t000002"}
    found = verified.audit(ensemble.session(), without, copy.rest, margin)
    assert [(each.family, each.key, each.kind) for each in found.differences] == [
        ("topics", "t000002", "missing in log")
    ]


def test_a_topic_that_goes_while_zookeeper_is_read_is_only_in_the_log() -> None:
    ensemble = FakeEnsemble()
    SeededTree(topics=3, partitions=1).plant(ensemble)
    copy = make_copy(read_tree(ensemble.session()))
    session = ensemble.session()
    there = session.children

    def listed_and_gone(path: str, watch: Callable[[], None] | None = None) -> list[str] | None:
        names = there(path, watch)
        if path == "/brokers/topics" and "/brokers/topics/t000001" in ensemble.nodes:
            for each in sorted((node for node in ensemble.nodes if f"{node}/".startswith(f"{path}/t000001/")), key=len):
                del ensemble.nodes[each]
        return names

    session.children = listed_and_gone  # type: ignore[method-assign]
    found = VerifiedCache().audit(session, copy.by_topic(), copy.rest, producer_id_margin(brokers=3))
    assert [(each.family, each.key, each.kind) for each in found.differences] == [
        ("topics", "t000001", "missing in zookeeper")
    ]
