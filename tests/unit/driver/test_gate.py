"""The takeover gate: each blocking condition alone closes it, and says what was seen."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from migrator.driver.checks.settings import REQUEST_MAX_BYTES, ControllerFileSettings
from migrator.driver.checks.waivers import parse_waiver
from migrator.driver.claim import ClaimObservation
from migrator.driver.gate import (
    TakeoverEvidence,
    content_findings,
    full_request_bytes,
    ibp_differs,
    takeover_verdict,
    voters_enabled,
)
from migrator.driver.tree import as_image
from migrator.driver.update_requests import full_updates
from migrator.findings.driver import FULL_SEND_INCOMPLETE
from migrator.findings.finding import Severity
from migrator.model.draft import Draft
from migrator.model.image import METADATA_VERSION, Image, Position
from migrator.model.values import (
    AclEntry,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    AclResourceType,
    Broker,
    Controller,
    FeatureRange,
    Listener,
    MigrationState,
)
from migrator.node.zookeeper.claims import read_claim
from migrator.node.zookeeper.tree_reader import read_tree
from migrator.zk import paths
from migrator.zk.multi import JUTE_MAXBUFFER
from migrator.zk.passwords import PasswordEncoder
from migrator.zk.znodes import MigrationZnode, controller_data, migration_data
from tests.support.builders import a_broker, a_claim, an_id, an_image
from tests.support.fake_zookeeper import FakeEnsemble
from tests.support.passwords import CLEAR, KEY, an_encoder, encoded
from tests.support.seeded_tree import SeededTree, config_json, state_json, topic_json

VOTERS = (3000, 3001, 3002)
CLUSTER_ID = "AAAAAAAAQAqAAAAAAAAAAA"
TREE = SeededTree(topics=2, partitions=2)


def a_quorum(*, brokers: tuple[Broker, ...] = (), ready: bool = True, voters: tuple[int, ...] = VOTERS) -> Image:
    base = an_image(brokers=brokers or (1, 2, 3), migration=MigrationState.PRE_MIGRATION)
    draft = Draft(base)
    for voter in voters:
        draft.put_controller(Controller(voter, an_id(f"run-{voter}"), ready))
    return draft.finish(Position(1, 1001)).after


def a_zookeeper() -> FakeEnsemble:
    ensemble = FakeEnsemble()
    TREE.plant(ensemble)
    ensemble.create(paths.CONTROLLER, controller_data(1, -1, 1))
    return ensemble


def the_evidence(ensemble: FakeEnsemble | None = None, **changes: Any) -> TakeoverEvidence:
    """Everything holds, but for the changes."""
    session = (ensemble or a_zookeeper()).session()
    fields: dict[str, Any] = {
        "tree": read_tree(session),
        "observed": read_claim(session),
        "image": a_quorum(),
        "voters": VOTERS,
        "foreign_voters": (),
        "kraft_epoch": 5,
        "heartbeat_age_ms": {1: 0, 2: 2_999, 3: 500},
        "reading": (1, 2, 3, 4),
        "estimated_ms": 7_500,
        "takeover_max_ms": 15_000,
        "laboratory": False,
        "exported": "/var/backups/zk-1.gz",
        "inter_broker_listener": "PLAINTEXT",
        "cluster_id": CLUSTER_ID,
    }
    given = {**fields, **changes}
    return TakeoverEvidence(**{"voters_enabled": voters_enabled(given["image"], {}), **given})


def test_a_healthy_cluster_passes_and_every_check_says_what_it_saw() -> None:
    verdict = takeover_verdict(the_evidence())
    assert verdict.holds, verdict.reason()
    assert verdict.reason() == "every condition is True"
    assert all(check.message for check in verdict.conditions)
    assert len({check.name for check in verdict.conditions}) == len(verdict.conditions) == 24


def test_acls_that_nobody_would_heed_close_the_gate() -> None:
    """Brokers pass requests on before they look at permissions."""
    evidence = the_evidence()
    resource = AclResource(AclResourceType.TOPIC, AclPattern.LITERAL, "orders")
    entry = AclEntry("User:alice", "*", AclOperation.READ, AclPermission.ALLOW)
    evidence.tree.families.acls[resource] = frozenset({entry})
    verdict = takeover_verdict(evidence)
    (failed,) = verdict.failed
    assert failed.codes == ("Z2K-1020",)
    assert "ACLs of 1 resources, the first of orders" in failed.message
    assert takeover_verdict(replace(evidence, ours=ControllerFileSettings(authorizer=True))).holds


def test_what_brokers_deny_closes_the_gate_and_is_named() -> None:
    (failed,) = takeover_verdict(the_evidence(denied={1: ("Describe", "ClusterAction"), 2: ("ClusterAction",)})).failed
    assert failed.codes == ("Z2K-1113",)
    assert failed.message.startswith("2 found: Broker 1 denies this controller's principal Describe, ClusterAction on")


def test_a_zookeeper_server_that_takes_less_than_we_send_closes_the_gate_and_is_named() -> None:
    (failed,) = takeover_verdict(the_evidence(limits={"zk1:2181": JUTE_MAXBUFFER, "zk2:2181": 200_000})).failed
    assert failed.codes == ("Z2K-1115",)
    assert failed.message == (
        "1 found: ZooKeeper server zk2:2181 accepts requests of up to 200000 bytes, "
        "and the controllers may send 1048575."
    )
    configured = the_evidence(limits={"zk1:2181": 200_000, "zk2:2181": 200_000}, jute_maxbuffer=200_000)
    assert takeover_verdict(configured).holds


def test_a_zookeeper_server_that_could_not_be_asked_is_named_and_bars_nothing() -> None:
    verdict = takeover_verdict(the_evidence(limits={"zk1:2181": JUTE_MAXBUFFER}, limits_unknown={"zk2:2181": "down"}))
    assert verdict.holds
    (observed,) = [each.message for each in verdict.conditions if each.name.startswith("every ZooKeeper server takes")]
    assert observed == (
        "1048575 bytes passed at 1 servers. "
        "The largest request that ZooKeeper server zk2:2181 accepts is unknown: down."
    )


# --- the quorum and the brokers ---------------------------------------------------------------------------


def with_broker_2(**changes: Any) -> Image:
    return a_quorum(brokers=(a_broker(1), a_broker(2, **changes), a_broker(3)))


@pytest.mark.parametrize(
    ("changes", "check", "message"),
    [
        ({"voters": (3000,), "image": a_quorum(voters=(3000,))}, "at least 3 voters", "1 voters"),
        (
            {"foreign_voters": ("3001 (silent)",)},
            "every voter runs zk2kraft",
            "not known to run zk2kraft: 3001 (silent)",
        ),
        ({"image": a_quorum(voters=(3000, 3002))}, "voter is known", "not known: [3001]"),  # F-03
        ({"image": a_quorum(ready=False)}, "voter is known", "not enabled: [3000, 3001, 3002]"),
        (
            {"image": a_quorum(brokers=(a_broker(1), a_broker(3)))},
            "in migration mode",
            "2 of 3 brokers are registered, missing [2]",
        ),  # F-02
        ({"image": with_broker_2(fenced=True)}, "no broker is fenced", "fenced: brokers [2]"),
        ({"heartbeat_age_ms": {1: 0, 2: 0, 3: 3_000}}, "heartbeat", "older: brokers [3]"),
        ({"heartbeat_age_ms": {1: 0, 2: 0}}, "heartbeat", "older: brokers [3]"),
        ({"reading": (1, 3)}, "reads this log", "brokers [2] do not"),
        (
            {"image": with_broker_2(features=(FeatureRange(METADATA_VERSION, 20, 20),))},
            "every broker's IBP",
            "differing: {2: (20, 20)}",
        ),  # F-12
        ({"image": with_broker_2(features=())}, "every broker's IBP", "differing: {2: (1, 1)}"),
        (
            {"image": with_broker_2(listeners=(Listener("EXTERNAL", "h", 1),))},
            "listens on PLAINTEXT",
            "brokers [2] do not",
        ),
        ({"unasked": {2: "no answer"}}, "reported its logs", "broker 2: no answer"),
        (
            {"denied": {2: ("ClusterAction",)}},
            "grants this controller",
            "1 found: Broker 2 denies this controller's principal ClusterAction on the cluster.",
        ),
        ({"denials_unknown": {2: "no answer"}}, "grants this controller", "broker 2: no answer"),
        (
            {"unexplained": [FULL_SEND_INCOMPLETE.found(broker=2, what="the logs of orders", reason="no id")]},
            "agree with ZooKeeper",
            "1 found: The full send to broker 2 would drop the logs of orders: no id.",
        ),
        (
            {"image": a_quorum(brokers=(*map(a_broker, (1, 2, 3)), a_broker(4, migrating=False)))},
            "KRaft mode",
            "in KRaft mode: brokers [4]",
        ),
        ({"cluster_id": "another"}, "of one cluster", "controllers: another"),  # F-15
        ({"exported": None}, "export is taken", "no export is taken yet"),
        ({"estimated_ms": 7_501}, "half of its limit", "about 7501 ms of 7500 ms"),
        ({"observed": ClaimObservation()}, "may be claimed", "does not exist"),
    ],
)
def test_one_condition_alone_closes_the_gate(changes: dict[str, Any], check: str, message: str) -> None:
    verdict = takeover_verdict(the_evidence(**changes))
    assert not verdict.holds
    assert [check in each.name for each in verdict.failed] == [True], verdict.failed
    assert message in verdict.failed[0].message
    assert message in verdict.reason()


@pytest.mark.parametrize(
    ("estimated_ms", "limit_ms", "code", "words"),
    [
        (7_500, 15_000, None, "about 7500 ms of 7500 ms"),
        (7_501, 15_000, "Z2K-2078", "raise the limit to 16000."),
        (29_501, 15_000, "Z2K-2078", "raise the limit to 60000."),
        (30_000, 60_000, None, "about 30000 ms of 30000 ms"),
        (30_001, 15_000, "Z2K-2079", "more than half of the largest zk2kraft.takeover.max.ms, which is 60000"),
        (30_001, 60_000, "Z2K-2079", " partitions and 3 brokers: more than half"),
    ],
)
def test_a_time_without_controller_that_is_too_long_is_said_before_the_takeover_with_the_limit_that_would_do(
    estimated_ms: int, limit_ms: int, code: str | None, words: str
) -> None:
    verdict = takeover_verdict(the_evidence(estimated_ms=estimated_ms, takeover_max_ms=limit_ms))
    (check,) = [each for each in verdict.conditions if "half of its limit" in each.name]
    assert (check.codes, check.holds) == (() if code is None else (code,), code is None)
    assert words in check.message


def at_level(level: int, *, voters: tuple[int, ...] = VOTERS) -> Image:
    """A quorum at another metadata.version, with brokers of the same."""
    brokers = tuple(a_broker(each, features=(FeatureRange(METADATA_VERSION, level, level),)) for each in (1, 2, 3))
    draft = Draft(a_quorum(brokers=brokers, voters=voters))
    draft.set_feature(METADATA_VERSION, level)
    return draft.finish(Position(1, 1002)).after


@pytest.mark.parametrize(("level", "name"), [(12, "3.6-IV0 (12)"), (22, "4.0-IV0 (22)"), (99, "99")])
def test_a_metadata_version_that_this_release_does_not_migrate_closes_the_gate(level: int, name: str) -> None:
    """R-866-10: nothing below or above is tried."""
    enabled = dict.fromkeys(VOTERS, True)
    verdict = takeover_verdict(the_evidence(image=at_level(level), voters_enabled=enabled))
    assert [each.message for each in verdict.failed] == [name]


def test_several_log_directories_are_no_obstacle() -> None:
    assert takeover_verdict(the_evidence(image=with_broker_2(log_dirs=(an_id("a"), an_id("b"))))).holds


@pytest.mark.parametrize("level", range(13, 22))
def test_every_level_with_metadata_transactions_is_migrated(level: int) -> None:
    assert takeover_verdict(the_evidence(image=at_level(level), voters_enabled=dict.fromkeys(VOTERS, True))).holds


def test_below_3_7_no_controller_registers_and_each_is_asked_whether_the_migration_is_enabled() -> None:
    """F-03: stock asks nobody there, and copies beside a controller that would finalize."""
    image, asked = at_level(14, voters=()), {3000: True, 3001: False}
    assert voters_enabled(image, asked) == asked
    verdict = takeover_verdict(the_evidence(image=image, voters_enabled=asked))
    assert [each.message for each in verdict.failed] == ["not known: [3002], not enabled: [3001]"]
    assert voters_enabled(at_level(15), asked) == dict.fromkeys(VOTERS, True)


def test_a_broker_that_was_refused_for_its_ibp_is_named_with_both_levels() -> None:
    found = ibp_differs({2: (20, 20), 1: (1, 21)}, a_quorum())
    assert found is not None
    assert found.text == (
        "Broker 2 runs at inter.broker.protocol.version 3.8-IV0 (20); this quorum was formatted with metadata.version "
        "3.9-IV0 (21)."
    )
    assert ibp_differs({1: (1, 21)}, a_quorum()) is None


def test_a_cluster_without_brokers_is_not_taken_over() -> None:
    ensemble = FakeEnsemble()
    SeededTree(topics=0, brokers=(), broker_configs={}).plant(ensemble)
    verdict = takeover_verdict(the_evidence(ensemble))
    assert [(each.name, each.message) for each in verdict.failed] == [
        ("there is at least one broker", "0 in /brokers/ids")
    ]


def test_a_broker_registered_in_kraft_mode_is_not_a_broker_in_migration_mode() -> None:
    verdict = takeover_verdict(the_evidence(image=with_broker_2(migrating=False)))
    assert [each.message for each in verdict.failed] == [
        "2 of 3 brokers are registered, missing [2]",
        "in KRaft mode: brokers [2]",
    ]


def test_the_laboratory_lifts_the_rule_of_three_voters_and_nothing_else() -> None:
    """F-59."""
    one: dict[str, Any] = {"voters": (3000,), "image": a_quorum(voters=(3000,))}
    assert takeover_verdict(the_evidence(laboratory=True, **one)).holds
    bad: dict[str, Any] = {"exported": None, "foreign_voters": ("3001 (silent)",), "image": with_broker_2(fenced=True)}
    strict = takeover_verdict(the_evidence(**bad))
    loose = takeover_verdict(the_evidence(laboratory=True, **bad))
    assert loose == strict
    assert len(loose.failed) == 3


# --- the content ------------------------------------------------------------------------------------------

Plant = Callable[[FakeEnsemble], None]


def put(path: str, data: bytes = b"") -> Plant:
    return lambda ensemble: ensemble.create(path, data)


def drop(path: str) -> Plant:
    def dropped(ensemble: FakeEnsemble) -> None:
        del ensemble.nodes[path]

    return dropped


def assigned(**changes: Any) -> bytes:
    """The first topic's znode with something else in it."""
    return json.dumps({**json.loads(topic_json("t000000", range(2))), **changes}).encode()


SCRAM = "salt=eA==,stored_key=eA==,server_key=eA==,iterations=4096"
BLOCKING: list[tuple[Plant, str, str]] = [
    (put(paths.state("t000001", 1), b"{"), "Z2K-1001", "/brokers/topics/t000001/partitions/1/state"),
    (put(paths.topic("t000000"), b'{"partitions":{"0":[1,2,3]},"version":1}'), "Z2K-1002", paths.topic("t000000")),
    (put(paths.topic("t000001"), topic_json("t000000", range(2))), "Z2K-1001", "is also that of t000000"),
    (drop(paths.state("t000001", 1)), "Z2K-1003", "/brokers/topics/t000001/partitions/1/state"),  # F-26
    (put("/kafka-acl/Topic/orders", b'{"version":1,"acls":[{"principal":"User:a"}]}'), "Z2K-1001", "/Topic/orders"),
    (put("/kafka-acl/Broker/1", b'{"version":1,"acls":[]}'), "Z2K-1001", "/kafka-acl/Broker/1"),
    (put("/kafka-acl-extended/prefixed/Topic/o", b'{"version":2}'), "Z2K-1001", "/kafka-acl-extended/prefixed/Topic/o"),
    (put("/config/users/alice", config_json({"SCRAM-SHA-256": "salt=eA=="})), "Z2K-1001", "/config/users/alice"),
    (put("/config/users/<default>", config_json({"SCRAM-SHA-256": SCRAM})), "Z2K-1001", "/config/users/<default>"),
    (put("/config/users/al/clients/c+", b""), "Z2K-1001", "/config/users/al/clients/c+"),
    (put("/config/clients/c", config_json({"consumer_byte_rate": "all"})), "Z2K-1001", "/config/clients/c"),
    (put("/config/ips/10.0.0.1", config_json({"producer_byte_rate": "1"})), "Z2K-1001", "/config/ips/10.0.0.1"),
    (put("/delegation_token/tokens/abc", b"{}"), "Z2K-1001", "/delegation_token/tokens/abc"),
    (put("/feature", b'{"version":2,"status":1,"features":{"x":{"max_version_level":1}}}'), "Z2K-1004", "first at x"),
    (put(f"{paths.DELETE_TOPICS}/old"), "Z2K-1005", "the first is old"),  # F-27
    (put(paths.topic("t000000"), assigned(adding_replicas={"1": [4]})), "Z2K-1080", "t000000-1"),
    (put(paths.topic("t000000"), assigned(removing_replicas={"0": [3, 3]})), "Z2K-1080", "removed twice"),
    (put(paths.topic("t000000"), assigned(removing_replicas={"0": [3, 2, 1]})), "Z2K-1080", "every replica"),
    (put(paths.topic("t000000"), assigned(adding_replicas={"7": [1]})), "Z2K-1001", "[7] are reassigned and do not"),
    (put(paths.REASSIGN_PARTITIONS, b'{"version":1,"partitions":7}'), "Z2K-1001", paths.REASSIGN_PARTITIONS),
    (put(paths.REASSIGN_PARTITIONS, b'{"version":2,"partitions":[]}'), "Z2K-1001", paths.REASSIGN_PARTITIONS),
    (drop("/brokers/ids/3"), "Z2K-1007", "Broker 3"),  # F-01
    (put(paths.state("t000000", 0), state_json((1, 2))), "Z2K-1008", "t000000-0"),
    (put(paths.state("t000000", 0), state_json(leader=-1)), "Z2K-1008", "leader -1"),
    (put(paths.state("t000000", 0), state_json((1, 2, 3, 9))), "Z2K-1081", "[9] are in sync [1, 2, 3, 9]"),
    (
        put(paths.state("t000000", 0), state_json()[:-1] + b',"leader_recovery_state":2}'),
        "Z2K-1001",
        paths.state("t000000", 0),
    ),
    (
        put("/config/brokers/1", config_json({"listener.name.external.ssl.key.password": "x"})),
        "Z2K-1010",
        "listener.name.external.ssl.key.password",
    ),  # F-25
]


@pytest.mark.parametrize(("plant", "code", "says"), BLOCKING, ids=[f"{code} {says}" for _, code, says in BLOCKING])
def test_one_finding_in_the_content_closes_the_gate(plant: Plant, code: str, says: str) -> None:
    ensemble = a_zookeeper()
    plant(ensemble)
    evidence = the_evidence(ensemble, image=a_quorum())
    failed = {check.name: check for check in takeover_verdict(evidence).failed}
    check = failed.pop("no finding in ZooKeeper's content blocks")
    assert set(check.codes) == {code}
    assert says in check.message
    # An absent broker is missing among the registered ones as well.
    assert [each.message for each in failed.values()] == (
        ["2 of 3 brokers are registered, missing [3]"] if code == "Z2K-1007" else []
    )


PASSWORDS: list[tuple[str, PasswordEncoder, set[str]]] = [
    (encoded(), an_encoder(), set()),
    (encoded(), an_encoder("another"), {"Z2K-1070"}),
    (encoded().replace("AES/CBC", "Twofish/CBC"), an_encoder(), {"Z2K-1071"}),
    (encoded(secret="old"), an_encoder(old_secret="old"), {"Z2K-1072"}),
    (encoded(cipher="AES/GCM/NoPadding"), an_encoder(), {"Z2K-1073"}),
    (encoded(cipher="AES/CTR/NoPadding"), an_encoder(), {"Z2K-1074"}),
]


@pytest.mark.parametrize(("text", "encoder", "codes"), PASSWORDS)
def test_a_password_opens_the_gate_only_when_brokers_will_read_it_from_both_sides(
    text: str, encoder: PasswordEncoder, codes: set[str]
) -> None:
    """F-25: before the claim, with znode and key, without the value."""
    ensemble = a_zookeeper()
    ensemble.create("/config/brokers/1", config_json({KEY: text}))
    verdict = takeover_verdict(the_evidence(ensemble, passwords=encoder))
    assert {code for check in verdict.failed for code in check.codes} == codes
    for check in verdict.failed:
        assert "/config/brokers/1" in check.message
        assert KEY in check.message
        assert CLEAR not in check.message


def test_an_old_secret_that_is_left_is_a_warning_where_a_broker_has_a_password() -> None:
    """Kafka lets no broker write its passwords again while a KRaft controller rules: it would not start."""
    ensemble = a_zookeeper()
    assert content_findings(read_tree(ensemble.session()), passwords=an_encoder(old_secret="old")) == []
    ensemble.create("/config/brokers/1", config_json({KEY: encoded()}))
    (found,) = content_findings(read_tree(ensemble.session()), passwords=an_encoder(old_secret="old"))
    assert (found.code, found.values["path"]) == ("Z2K-1075", "/config/brokers/1")
    assert takeover_verdict(the_evidence(ensemble, passwords=an_encoder(old_secret="old"))).holds


@pytest.mark.parametrize(
    ("path", "data"),
    [
        (paths.MIGRATION, b""),  # F-05
        (paths.MIGRATION, migration_data(MigrationZnode(3000, 4, 1200, 4))),  # F-42
        (paths.MIGRATION, migration_data(MigrationZnode(4000, 4))),
    ],
)
def test_a_migration_znode_that_is_not_from_this_log_closes_the_gate(path: str, data: bytes) -> None:
    ensemble = a_zookeeper()
    ensemble.create(path, data)
    failed = takeover_verdict(the_evidence(ensemble)).failed
    assert [check.codes for check in failed] == [("Z2K-2006",)]


@pytest.mark.parametrize(
    ("path", "data"),
    [
        (paths.topic_config("gone"), config_json({"a": "b"})),
        ("/config/users/alice", config_json({})),
        ("/kafka-acl/Topic/orders", b'{"version":1,"acls":[]}'),
        ("/kafka-acl/Topic/orders", b""),
        ("/feature", b'{"version":2,"status":1,"features":{}}'),
        ("/feature", b'{"version":2,"status":0,"features":{"x":{"max_version_level":1}}}'),  # counts for no broker
        (paths.REASSIGN_PARTITIONS, b""),
        (paths.state("t000000", 0), state_json((3, 1, 2))),  # all in sync, in another order
        ("/consumers/group/offsets/t000000/0", b"7"),
    ],
)
def test_a_warning_or_an_empty_leftover_does_not_close_the_gate(path: str, data: bytes) -> None:
    ensemble = a_zookeeper()
    ensemble.create(path, data)
    assert takeover_verdict(the_evidence(ensemble)).holds


MOVING = {"partitions": {"0": [4, 2, 1, 3], "1": [1, 2, 3]}, "adding_replicas": {"0": [4]}}
MOVING_AWAY = {**MOVING, "removing_replicas": {"0": [1, 3]}}


@pytest.mark.parametrize(
    ("path", "data", "code", "says"),
    [
        (
            paths.topic("t000000"),
            assigned(**MOVING),
            "Z2K-1006",
            "1 partitions are being reassigned, the first is t000",
        ),
        (paths.topic("t000000"), assigned(**MOVING_AWAY), "Z2K-1006", "t000000-0"),  # F-47
        (
            paths.REASSIGN_PARTITIONS,
            b'{"version":1,"partitions":[{"topic":"t000001","partition":1,"replicas":[3,2]}]}',
            "Z2K-1006",
            "t000001-1",
        ),
        (
            paths.state("t000000", 0),
            state_json()[:-1] + b',"leader_recovery_state":1}',
            "Z2K-1009",
            paths.state("t000000", 0),
        ),
    ],
)
def test_what_is_copied_as_it_is_and_deserves_a_word(path: str, data: bytes, code: str, says: str) -> None:
    ensemble = with_broker_4()
    ensemble.create(path, data)
    evidence = the_evidence(
        ensemble, image=a_quorum(brokers=tuple(map(a_broker, (1, 2, 3, 4)))), heartbeat_age_ms=FRESH
    )
    assert takeover_verdict(evidence).holds
    (found,) = content_findings(evidence.tree)
    assert (found.code, found.finding.severity) == (code, Severity.WARNS)
    assert says in found.text


FRESH = dict.fromkeys((1, 2, 3, 4), 0)


def with_broker_4() -> FakeEnsemble:
    ensemble = FakeEnsemble()
    replace(TREE, brokers=(1, 2, 3, 4)).plant(ensemble)
    for topic in ("t000000", "t000001"):
        ensemble.create(paths.topic(topic), topic_json(topic, range(2)))
        for partition in range(2):
            ensemble.create(paths.state(topic, partition), state_json())
    ensemble.create(paths.CONTROLLER, controller_data(1, -1, 1))
    return ensemble


@pytest.mark.parametrize(
    ("isr", "healthy"),
    [
        ((1, 2, 3), True),  # nobody has come yet
        ((1, 2, 3, 4), True),
        ((2, 4), True),  # those who leave are out of it already; the leader is one of those who stay
        ((1, 2), False),  # neither all that were there nor all that shall stay
    ],
)
def test_a_partition_that_moves_is_healthy_when_all_before_or_all_after_are_in_sync(
    isr: tuple[int, ...], *, healthy: bool
) -> None:
    ensemble = with_broker_4()
    ensemble.create(paths.topic("t000000"), assigned(**MOVING_AWAY))
    ensemble.create(paths.state("t000000", 0), state_json(isr, leader=isr[0]))
    codes = [each.code for each in content_findings(read_tree(ensemble.session()))]
    assert codes == (["Z2K-1006"] if healthy else ["Z2K-1008", "Z2K-1006"])


def test_configuration_of_a_topic_that_does_not_exist_is_said_and_does_not_block() -> None:
    ensemble = a_zookeeper()
    ensemble.create(paths.topic_config("gone"), config_json({"a": "b"}))
    ensemble.create(f"{paths.DELETE_TOPICS}/old")
    found = content_findings(read_tree(ensemble.session()))
    assert [each.code for each in found] == ["Z2K-1005", "Z2K-1011"]  # what blocks comes first


def test_warnings_are_counted_where_nothing_blocks() -> None:
    ensemble = a_zookeeper()
    ensemble.create(paths.topic_config("gone"), config_json({"a": "b"}))
    ensemble.create("/consumers/old-app")
    (check,) = (each for each in takeover_verdict(the_evidence(ensemble)).conditions if "content blocks" in each.name)
    assert (check.holds, check.codes) == (True, ())
    assert check.message == "nothing blocks; `zk2kraft check` shows 2 warnings"


def test_a_waiver_lifts_the_named_partition_and_no_other() -> None:
    ensemble = a_zookeeper()
    for partition in (0, 1):
        ensemble.create(paths.state("t000000", partition), state_json((1, 2)))
    waived = takeover_verdict(the_evidence(ensemble, waived=[parse_waiver("t000000-0")]))
    assert not waived.holds
    assert "t000000-1" in waived.reason()
    assert "t000000-0" not in waived.reason()
    assert takeover_verdict(the_evidence(ensemble, waived=[parse_waiver("t000000-*")])).holds


def test_two_findings_are_told_whole() -> None:
    ensemble = a_zookeeper()
    ensemble.create(f"{paths.DELETE_TOPICS}/old")
    ensemble.create("/delegation_token/tokens/abc", b"{}")
    (check,) = takeover_verdict(the_evidence(ensemble)).failed
    assert check.message == (
        "2 found: /delegation_token/tokens/abc cannot be read: Object missing required field `version`. "
        "1 topics wait for deletion, the first is old."
    )


def test_many_findings_are_counted_and_each_code_is_named() -> None:
    ensemble = a_zookeeper()
    for path in ("/kafka-acl/Topic/orders", "/kafka-acl/Group/g", "/delegation_token/tokens/abc"):
        ensemble.create(path, b'{"version":1,"acls":[{}]}')
    ensemble.create(f"{paths.DELETE_TOPICS}/old")
    (check,) = takeover_verdict(the_evidence(ensemble)).failed
    assert check.codes == ("Z2K-1001", "Z2K-1005")
    assert check.message.startswith("4 found: /kafka-acl/Group/g ")
    assert check.message.endswith("(and 2 more)")


def test_whole_families_are_no_obstacle() -> None:
    ensemble = a_zookeeper()
    for path, data in {
        "/kafka-acl/Topic/orders": b'{"version":1,"acls":[]}',
        "/config/users/alice": config_json({"SCRAM-SHA-256": SCRAM, "producer_byte_rate": "1"}),
        "/config/users/alice/clients/<default>": config_json({"request_percentage": "12.5"}),
        "/config/ips/%3A%3A1": config_json({"connection_creation_rate": "1"}),
        "/feature": b'{"version":2,"status":1,"features":{}}',
    }.items():
        ensemble.create(path, data)
    assert takeover_verdict(the_evidence(ensemble)).holds


# --- the size of the full send ----------------------------------------------------------------------------


def test_a_full_send_above_four_fifths_of_the_brokers_limit_closes_the_gate() -> None:
    tree = read_tree(a_zookeeper().session())
    reading = tree.topics["t000000"]
    partition = reading.topic.partitions[0]
    wide = msgspec.structs.replace(reading.topic, partitions=(partition,) * 1_700_000)
    tree.topics["t000000"] = msgspec.structs.replace(reading, topic=wide)
    settings: dict[int, dict[str, str]] = {1: {"socket.request.max.bytes": "200000000"}, 2: {}}
    (check,) = takeover_verdict(replace(the_evidence(), tree=tree, broker_settings=settings)).failed
    assert check.codes == ("Z2K-1012",)
    assert check.message.startswith("1 found: ")
    assert f"broker 2 accepts {REQUEST_MAX_BYTES}" in check.message
    settings[2] = settings[1]
    assert takeover_verdict(replace(the_evidence(), tree=tree, broker_settings=settings)).holds


@pytest.mark.parametrize(("topics", "partitions"), [(1, 1), (40, 1), (3, 60)])
def test_the_predicted_size_of_the_full_send_is_near_the_real_one(topics: int, partitions: int) -> None:
    ensemble = FakeEnsemble()
    SeededTree(topics=topics, partitions=partitions).plant(ensemble)
    tree = read_tree(ensemble.session())
    image = as_image(tree, an_image())
    largest = max(len(order.body) for order in full_updates(image, a_claim(), {1}, "PLAINTEXT"))
    assert largest - 200 <= full_request_bytes(tree) * 1.05
    assert full_request_bytes(tree) <= largest * 1.25


def test_every_condition_of_the_gate_has_a_row_that_says_what_tells_it_before_the_first_restart() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/to-dual-write.md").read_text()
    table = page.partition("| condition of the takeover gate |")[2].partition("\n\n")[0].splitlines()[2:]
    rows = {row.split("|")[1].strip(): row.split("|")[2].strip() for row in table}
    names = [check.name for check in takeover_verdict(the_evidence()).conditions]
    assert list(rows) == [
        name.replace("listens on PLAINTEXT", "listens on the inter-broker listener") for name in names
    ]
    assert all(rows.values())
