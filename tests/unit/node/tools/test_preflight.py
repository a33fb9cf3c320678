"""`zk2kraft check` without a quorum: the tree, and the files of the controllers to be."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from migrator.controller.authorizer import STANDARD_AUTHORIZER
from migrator.driver.checks.restarts import Applied, LogBegins
from migrator.findings.catalogue import CATALOGUE
from migrator.findings.finding import Occurrence
from migrator.model.values import Broker
from migrator.node.log.storage import MetaProperties, write_meta_properties
from migrator.node.tools.preflight import check, exit_code, not_looked_at
from migrator.node.transport.client_security import PLAINTEXT, ClientSecurity
from migrator.node.zookeeper.request_limits import ServerLimit
from migrator.zk import paths
from migrator.zk.pipeline import UNLIMITED
from migrator.zk.znodes import MigrationZnode, controller_data, migration_data
from tests.support.fake_zookeeper import FakeEnsemble, FakeSession
from tests.support.passwords import KEY, SECRET, encoded
from tests.support.seeded_tree import SeededTree, acls_json, config_json, state_json, token_json, topic_json

CLUSTER = "AAAAAAAAQAqAAAAAAAAAAA"


def a_cluster() -> FakeEnsemble:
    ensemble = FakeEnsemble()
    SeededTree(topics=2, partitions=2).plant(ensemble)
    return ensemble


def checked(ensemble: FakeEnsemble, *controllers: Path) -> list[Occurrence]:
    before = ensemble.tree()
    _, found = check(ensemble.session(), controllers, UNLIMITED)
    assert ensemble.tree() == before
    return found


def codes(found: list[Occurrence]) -> list[str]:
    return [each.code for each in found]


def a_file(directory: Path, node: int = 3000, **changes: str) -> Path:
    """A controller's file that fits; its directory is not formatted."""
    keys = {
        "process.roles": "controller",
        "node.id": str(node),
        "controller.quorum.voters": "3000@a:9093,3001@b:9093,3002@c:9093",
        "listeners": "CONTROLLER://:9093",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(directory / f"metadata-{node}"),
        "zookeeper.metadata.migration.enable": "true",
        "zookeeper.connect": "zk:2181",
        **{key.replace("__", "."): value for key, value in changes.items()},
    }
    file = directory / f"controller-{node}.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    return file


def test_passwords_are_looked_at_with_the_controllers_secret_which_is_one(tmp_path: Path) -> None:
    ensemble = a_cluster()
    ensemble.create("/config/brokers/1", config_json({KEY: encoded()}))
    secret: dict[str, Any] = {"password__encoder__secret": SECRET}
    assert codes(checked(ensemble)) == ["Z2K-1010"]
    assert codes(checked(ensemble, a_file(tmp_path))) == ["Z2K-1010"]
    first = a_file(tmp_path, **secret)
    assert checked(ensemble, first) == []
    found = checked(ensemble, first, a_file(tmp_path, 3001, password__encoder__secret="another"))
    assert codes(found) == ["Z2K-1014"]
    assert "password.encoder.* differs from" in found[0].text
    assert "another" not in found[0].text


def test_the_files_waivers_count_as_before_a_takeover_and_are_one(tmp_path: Path) -> None:
    ensemble = a_cluster()
    for partition in (0, 1):
        ensemble.create(paths.state("t000000", partition), state_json((1, 2)))
    assert codes(checked(ensemble)) == ["Z2K-1008", "Z2K-1008"]
    assert codes(checked(ensemble, a_file(tmp_path))) == ["Z2K-1008", "Z2K-1008"]
    waived = checked(ensemble, a_file(tmp_path, zk2kraft__waive="t000000-*:100%"))
    assert (codes(waived), exit_code(waived)) == (["Z2K-1120"], 1)
    too_few = checked(ensemble, a_file(tmp_path, zk2kraft__waive="t000000-*:50%"))
    assert (codes(too_few), exit_code(too_few)) == (["Z2K-1008", "Z2K-1008", "Z2K-1121"], 2)
    first = a_file(tmp_path, zk2kraft__waive="t000000-*")
    assert codes(checked(ensemble, first, a_file(tmp_path, 3001))) == ["Z2K-1014", "Z2K-1120"]
    assert codes(checked(ensemble, a_file(tmp_path, zk2kraft__waive="t000000-*:2"))) == [*["Z2K-1008"] * 2, "Z2K-3010"]


def test_a_clean_cluster_with_files_that_fit_may_go(tmp_path: Path) -> None:
    files = [a_file(tmp_path, node) for node in (3000, 3001, 3002)]
    found = checked(a_cluster(), *files)
    assert (found, exit_code(found)) == ([], 0)


def test_a_zookeeper_server_that_takes_less_than_the_controllers_may_send_is_named(tmp_path: Path) -> None:
    asked: list[tuple[str, int]] = []

    def answer(connect: str, wanted: int) -> list[ServerLimit]:
        asked.append((connect, wanted))
        return [ServerLimit("zk", 300_000), ServerLimit("zk2", 0, "refused")]

    session = a_cluster().session()
    _, found = check(session, (), UNLIMITED, ask=answer)
    assert (codes(found), exit_code(found)) == (["Z2K-1115", "Z2K-1116"], 2)
    files = [a_file(tmp_path, zk2kraft__zookeeper__jute__maxbuffer="300000"), a_file(tmp_path, 3001)]
    assert codes(check(session, files[:1], UNLIMITED, ask=answer)[1]) == ["Z2K-1116"]
    assert "Z2K-1115" in codes(check(session, files, UNLIMITED, ask=answer)[1])
    assert asked == [("zk:2181", 1_048_575), ("zk:2181", 300_000), ("zk:2181", 1_048_575)]


def test_a_warning_alone_is_said_and_does_not_block() -> None:
    ensemble = a_cluster()
    ensemble.create(paths.topic_config("gone"), config_json({"a": "b"}))
    found = checked(ensemble)
    assert (codes(found), exit_code(found)) == (["Z2K-1011"], 1)


@pytest.mark.parametrize("data", [b"", migration_data(MigrationZnode(3000, 4)), b"no json"])
def test_any_migration_znode_is_foreign_before_there_is_a_quorum(data: bytes) -> None:
    """F-05, F-42."""
    ensemble = a_cluster()
    ensemble.create(paths.MIGRATION, data)
    found = checked(ensemble)
    assert "Z2K-2006" in codes(found)
    assert exit_code(found) == 2


def test_a_chroot_without_a_cluster_is_not_a_cluster_that_may_go() -> None:
    found = checked(FakeEnsemble())
    assert (codes(found), exit_code(found)) == (["Z2K-1001"], 2)
    assert "/cluster/id" in found[0].text
    ensemble = a_cluster()
    ensemble.create(paths.CLUSTER_ID, b"{}")
    assert codes(checked(ensemble)) == ["Z2K-1001"]  # named once


def test_a_broker_whose_name_is_no_id_is_named() -> None:
    ensemble = a_cluster()
    ensemble.create("/brokers/ids/one", b'{"version":5}')
    (found,) = checked(ensemble)
    assert (found.code, found.values["path"]) == ("Z2K-1001", "/brokers/ids/one")


@pytest.mark.parametrize(
    ("changes", "code", "says"),
    [
        ({"controller__quorum__voters": "3000@a:9093,2@b:9093"}, "Z2K-1014", "node ids [2] are brokers' ids"),  # F-14
        ({"zookeeper__metadata__migration__enable": "false"}, "Z2K-1014", "is not true"),  # F-03
        (
            {
                "inter__broker__listener__name": "INSIDE",
                "listener__security__protocol__map": "CONTROLLER:PLAINTEXT,INSIDE:PLAINTEXT",
            },
            "Z2K-1014",
            "has no listener INSIDE (it has ['PLAINTEXT'])",
        ),  # F-16
        (
            {"zookeeper__connect": "zk:2181/kafka"},
            "Z2K-1014",
            "zookeeper.connect is zk:2181/kafka, the cluster that is checked is in /",
        ),  # F-50
        (
            {"listeners": "CONTROLLER://:9094"},
            "Z2K-1014",
            "controller.quorum.voters has port 9093 for node 3000, which listens on [9094]",
        ),
        ({"process__roles": "broker,controller"}, "Z2K-3010", "combined mode"),
        ({"node__id": "x"}, "Z2K-3010", "node.id=x"),
    ],
)
def test_a_controller_file_that_does_not_fit_blocks(
    tmp_path: Path, changes: dict[str, Any], code: str, says: str
) -> None:
    found = checked(a_cluster(), a_file(tmp_path, **changes))
    assert set(codes(found)) == {code}
    assert any(says in each.text for each in found)
    assert exit_code(found) == 2


def test_the_id_of_a_broker_that_is_down_is_taken_too(tmp_path: Path) -> None:
    """F-14: it is in assignments, and comes back."""
    ensemble = a_cluster()
    del ensemble.nodes["/brokers/ids/3"]
    found = checked(ensemble, a_file(tmp_path, controller__quorum__voters="3000@a:9093,3@b:9093"))
    assert [(each.code, each.text) for each in found if each.code == "Z2K-1014"] == [
        ("Z2K-1014", f"{tmp_path / 'controller-3000.properties'}: node ids [3] are brokers' ids.")
    ]


def test_the_chroot_of_the_files_is_that_of_the_cluster(tmp_path: Path) -> None:
    """F-50: servers may be named otherwise, the chroot may not."""
    session = FakeSession(a_cluster(), 1, connect="zk1:2181,zk2:2181/kafka")
    fits = a_file(tmp_path, 3000, zookeeper__connect="zk3:2181/kafka/")
    _, found = check(session, [fits], UNLIMITED)
    assert found == []
    _, found = check(session, [a_file(tmp_path, 3000)], UNLIMITED)
    assert codes(found) == ["Z2K-1014"]


@pytest.mark.parametrize("place", ["/kafka", "/clusters/blue"])
def test_a_cluster_below_the_chroot_is_told_as_a_hint(place: str) -> None:
    """F-50."""
    ensemble = FakeEnsemble()
    ensemble.create(place + paths.CLUSTER_ID, b"{}")
    (found,) = checked(ensemble)
    assert found.code == "Z2K-1001"
    assert f"There is a cluster in {place}." in found.text


@pytest.mark.parametrize(
    ("znodes", "expected"),
    [
        ({paths.CONTROLLER: controller_data(1, -1, 1)}, []),
        ({paths.CONTROLLER: controller_data(4000, 7, 1)}, ["Z2K-1037"]),
        (
            {paths.CONTROLLER: controller_data(4000, 7, 1), paths.MIGRATION: migration_data(MigrationZnode(4000, 7))},
            ["Z2K-2006", "Z2K-1037"],
        ),
    ],
)
def test_a_kraft_controller_that_rules_already_is_named(znodes: dict[str, bytes], expected: list[str]) -> None:
    """F-43, F-49."""
    ensemble = a_cluster()
    for path, data in znodes.items():
        ensemble.create(path, data)
    assert codes(checked(ensemble)) == expected


AUTHORIZED = {"authorizer__class__name": STANDARD_AUTHORIZER, "super__users": "User:ANONYMOUS"}


@pytest.mark.parametrize(
    ("znodes", "changes", "expected"),
    [
        ({"/kafka-acl/Topic/orders": acls_json("Read")}, {}, ["Z2K-1020"]),
        ({"/kafka-acl/Topic/orders": acls_json("Read")}, AUTHORIZED, []),
        ({"/kafka-acl/Topic": b""}, {}, ["Z2K-1043"]),
        ({"/kafka-acl/Topic": b""}, AUTHORIZED, []),
        ({"/delegation_token/tokens/abc": token_json("abc")}, {}, ["Z2K-1044"]),
        ({"/delegation_token/tokens/abc": token_json("abc")}, {"delegation__token__secret__key": "k"}, []),
    ],
)
def test_what_controllers_could_not_take_care_of_is_said_once(
    tmp_path: Path, znodes: dict[str, bytes], changes: dict[str, str], expected: list[str]
) -> None:
    """F-37, F-38, F-09."""
    ensemble = a_cluster()
    for path, data in znodes.items():
        ensemble.create(path, data)
    files = [a_file(tmp_path, node, **changes) for node in (3000, 3001, 3002)]
    assert codes(checked(ensemble, *files)) == expected


def test_controller_files_have_to_name_the_same_quorum(tmp_path: Path) -> None:
    first = a_file(tmp_path, 3000)
    voters = "3000@a:9093,3001@b:9094,3002@c:9093"
    second = a_file(tmp_path, 3001, controller__quorum__voters=voters, listeners="CONTROLLER://:9094")
    (found,) = checked(a_cluster(), first, second)
    assert (found.code, found.values["file"]) == ("Z2K-1014", str(second))
    assert str(first) in found.text


def test_a_controller_formatted_for_another_cluster_blocks(tmp_path: Path) -> None:
    """F-15."""
    file = a_file(tmp_path)
    directory = tmp_path / "metadata-3000"
    directory.mkdir()
    write_meta_properties(directory, MetaProperties(CLUSTER, 3000))
    assert checked(a_cluster(), file) == []
    write_meta_properties(directory, MetaProperties("another", 3000))
    assert codes(checked(a_cluster(), file)) == ["Z2K-1013"]


@pytest.mark.parametrize("directory", ["", "/tmp/kraft-controller-logs", "/tmp/kafka-logs/"])
def test_a_metadata_log_in_a_directory_of_kafkas_examples_is_warned_of_with_the_file(
    tmp_path: Path, directory: str
) -> None:
    """F-59: a restart of the host may empty /tmp. Without the key it is Kafka's default."""
    file = a_file(tmp_path, log__dirs=directory) if directory else a_file(tmp_path)
    if not directory:
        lines = file.read_text().splitlines()
        file.write_text("\n".join(line for line in lines if not line.startswith("log.dirs")))
    found = checked(a_cluster(), file)
    assert (codes(found), exit_code(found)) == (["Z2K-1052"], 1)
    assert found[0].values["file"] == str(file)
    assert checked(a_cluster(), a_file(tmp_path, metadata__log__dir=str(tmp_path / "metadata"))) == []


def test_what_was_not_looked_at_is_said(tmp_path: Path) -> None:
    """One of three files, and a directory that is not formatted: no finding, but nobody should think it was checked."""
    unknown = not_looked_at([a_file(tmp_path)], clients=False)
    assert "the files of voters [3001, 3002], which controller.quorum.voters names" in unknown
    assert f"{tmp_path / 'metadata-3000'}: not formatted, or on another machine" in unknown
    assert any("--clients" in each for each in unknown)
    assert not_looked_at([], clients=True)[0] == "the controllers' files (--controllers FILE)"


def test_a_file_that_is_not_there_is_named_and_the_others_are_checked(tmp_path: Path) -> None:
    bad = a_file(tmp_path, 3001, zookeeper__metadata__migration__enable="false")
    found = checked(a_cluster(), tmp_path / "absent.properties", bad)
    assert codes(found) == ["Z2K-3017", "Z2K-1014"]


def test_what_blocks_comes_before_what_warns() -> None:
    ensemble = a_cluster()
    ensemble.create(paths.topic_config("gone"), config_json({"a": "b"}))
    ensemble.create(paths.MIGRATION, b"")
    assert codes(checked(ensemble)) == ["Z2K-2006", "Z2K-1011"]


def test_every_blocking_finding_gives_exit_code_2_and_every_warning_1() -> None:
    for finding in CATALOGUE.values():
        assert exit_code([Occurrence(finding)]) == (2 if finding.severity == "blocks" else 1)
    assert exit_code([]) == 0


def test_a_cluster_whose_full_request_needs_more_than_kafkas_default_is_warned_with_the_limit_it_needs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """How the brokers are set only the gate asks; a limit that was raised must not make `check` say no."""
    assert checked(a_cluster()) == []
    monkeypatch.setattr("migrator.node.tools.preflight.REQUEST_MAX_BYTES", 100)
    (found,) = checked(a_cluster())
    assert (found.code, exit_code([found])) == ("Z2K-2042", 1)
    assert found.values["needed"] > found.values["bytes"] > 100


# --- what restarts take away -------------------------------------------------------------------------------


def test_what_restarts_take_away_is_warned_of_with_the_words_of_the_gate() -> None:
    ensemble = a_cluster()
    name = SeededTree(topics=2, partitions=2).name
    ensemble.create(paths.topic_config(name(0)), config_json({"min.insync.replicas": "3"}))
    ensemble.create(paths.topic("lonely"), topic_json("lonely", [0], (2,)))
    ensemble.create(paths.state("lonely", 0), state_json((2,), 2))
    single, needs_all = (each for each in checked(ensemble) if each.code in ("Z2K-1061", "Z2K-4242"))
    assert (single.code, exit_code([single])) == ("Z2K-1061", 1)
    assert single.text == "1 partitions have one replica, such as lonely-0; by broker: 2 has 1."
    assert (needs_all.code, needs_all.values["count"]) == ("Z2K-4242", 2)
    assert "1 has 2, 2 has 2, 3 has 2" in needs_all.text
    assert "the files of brokers" in needs_all.text


@pytest.mark.parametrize(("minimum", "found"), [("3", ["Z2K-4242"]), ("2", [])])
def test_the_minimum_of_topics_that_set_none_is_that_of_the_brokers_files(minimum: str, found: list[str]) -> None:
    files = [(str(broker), {"min.insync.replicas": minimum} if broker == 2 else {}) for broker in (1, 2, 3)]
    said = [each for each in check(a_cluster().session(), (), UNLIMITED, files)[1] if each.code == "Z2K-4242"]
    assert codes(said) == found
    assert all("the largest counts: 1 on brokers [1, 3]; 3 on brokers [2]" in each.text for each in said)


# --- the export before a takeover -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "paths_of_others", [("/other/tokens/keys",), ("/hbase", "/solr/live"), ("/kafka-2/brokers/ids",)], ids=len
)
def test_what_others_protect_beside_kafka_is_named_once_and_blocks_nothing(paths_of_others: tuple[str, ...]) -> None:
    ensemble = a_cluster()
    for path in paths_of_others:
        ensemble.create(path)
    ensemble.refused |= {path for path in ensemble.nodes if any(each.startswith(path) for each in paths_of_others)}
    ensemble.refused.discard("/")
    found = checked(ensemble)
    assert (codes(found), exit_code(found)) == (["Z2K-1056"], 1)
    first = "/" + min(paths_of_others).split("/")[1]
    assert found[0].values == {"count": len(paths_of_others), "chroot": "/", "first": first}


@pytest.mark.parametrize(
    "path",
    [
        "/consumers/old-group/offsets/t/0",
        "/isr_change_notification/isr_change_0000000007",
        "/admin/somebody",
        "/cluster/note",
        "/brokers/seqid",
    ],
)
def test_a_znode_of_kafkas_that_only_the_export_needs_is_said_before_a_restart(path: str) -> None:
    ensemble = a_cluster()
    ensemble.create(path)
    ensemble.refused.add(path)
    found = checked(ensemble)
    assert ([each.values["path"] for each in found if each.code == "Z2K-1057"], exit_code(found)) == ([path], 2)


def test_a_wrong_chroot_is_found_although_others_protect_their_znodes() -> None:
    ensemble = FakeEnsemble()
    ensemble.create("/a/secret")
    ensemble.create("/kafka/cluster/id", b"1")
    ensemble.refused |= {"/a", "/a/secret"}
    (found,) = checked(ensemble)
    assert "There is a cluster in /kafka." in found.text


# --- brokers' files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("authorizer.class.name", "com.example.Ranger"),
        ("create.topic.policy.class.name", "com.example.Policy"),
        ("alter.config.policy.class.name", "com.example.Policy"),
        ("listener.name.internal.principal.builder.class", "com.example.Principals"),
        ("zookeeper.connect", "zk:2181/another"),
    ],
)
def test_a_brokers_file_is_judged_as_the_gate_would_judge_the_broker(key: str, value: str, tmp_path: Path) -> None:
    for files in ((), (a_file(tmp_path),)):
        _, found = check(a_cluster().session(), files, UNLIMITED, [("1", {key: value})])
        assert [(each.code, each.values["broker"], each.values["key"]) for each in found] == [("Z2K-1050", "1", key)]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("authorizer.class.name", "com.example.Ranger"),
        ("create.topic.policy.class.name", "com.example.Policy"),
        ("listener.name.internal.principal.builder.class", "com.example.Principals"),
    ],
)
def test_what_can_never_be_migrated_is_said_before_what_can_be_mended(key: str, value: str, tmp_path: Path) -> None:
    """Nobody repairs a cluster for a migration that this release has not."""
    ensemble = a_cluster()
    ensemble.create(f"{paths.DELETE_TOPICS}/half-gone")
    settings = {key: value, "zookeeper.connect": "zk:2181/another"}
    _, found = check(ensemble.session(), (a_file(tmp_path),), UNLIMITED, [("1", settings)])
    assert [(each.code, each.values.get("key")) for each in found] == [
        ("Z2K-1050", key),
        ("Z2K-1005", None),
        ("Z2K-1050", "zookeeper.connect"),
    ]


def test_what_a_controllers_file_may_make_up_for_is_judged_once_one_is_given(tmp_path: Path) -> None:
    settings = {"delegation.token.secret.key": "(hidden)", "zookeeper.set.acl": "true", "zookeeper.connect": "zk:2181"}
    assert check(a_cluster().session(), (), UNLIMITED, [("1", settings)])[1] == []
    _, found = check(a_cluster().session(), (a_file(tmp_path),), UNLIMITED, [("1", settings)])
    assert sorted(str(each.values["key"]) for each in found) == ["delegation.token.secret.key", "zookeeper.set.acl"]


def test_without_brokers_files_check_says_that_it_did_not_look_at_them(tmp_path: Path) -> None:
    assert "the brokers' files (--brokers FILE)" in not_looked_at((), clients=True)
    assert "the brokers' files (--brokers FILE)" not in not_looked_at((), clients=True, brokers=True)


# --- what a restart of the brokers would change -----------------------------------------------------------


def with_config(**values: str) -> FakeEnsemble:
    ensemble = a_cluster()
    ensemble.create("/config/topics/tiered", config_json({key.replace("_", "."): each for key, each in values.items()}))
    return ensemble


class AskedBrokers:
    """Answers for brokers, and how each was to be reached."""

    def __init__(self, answers: Mapping[int, Applied]) -> None:
        self.answers = answers
        self.asked: list[tuple[int, str, int]] = []

    def __call__(
        self,
        brokers: Iterable[Broker],
        tiered: Collection[str],
        listener: str,
        client_id: str,
        security: ClientSecurity = PLAINTEXT,
    ) -> tuple[dict[int, Applied], dict[int, str]]:
        for each in brokers:
            endpoint = each.listener(listener)
            assert endpoint is not None
            self.asked.append((each.id, endpoint.host, endpoint.port))
        return dict(self.answers), {each: "silence" for each, _, _ in self.asked if each not in self.answers}


def restarts(ensemble: FakeEnsemble, brokers: AskedBrokers, *controllers: Path) -> list[Occurrence]:
    _, found = check(ensemble.session(), controllers, UNLIMITED, ask_brokers=brokers)
    return [each for each in found if each.code in ("Z2K-1058", "Z2K-1060", "Z2K-4234")]


def test_a_switch_off_that_waits_for_a_restart_blocks_before_anything_is_restarted(tmp_path: Path) -> None:
    reads = Applied({"remote.log.storage.system.enable": "true"}, begins={"tiered": {0: LogBegins(0, 2048, 2047)}})
    brokers = AskedBrokers({1: reads, 2: Applied(), 3: Applied()})
    for controllers in ((), (a_file(tmp_path),)):
        (found,) = restarts(with_config(remote_storage_enable="false"), brokers, *controllers)
        assert (found.code, found.values["broker"]) == ("Z2K-1058", 1)
        assert exit_code([found]) == 2


def test_a_broker_that_does_not_answer_blocks_where_topics_are_tiered_and_is_not_asked_elsewhere() -> None:
    brokers = AskedBrokers({1: Applied(), 2: Applied()})
    (found,) = restarts(with_config(remote_storage_enable="true"), brokers)
    assert (found.code, found.values) == ("Z2K-1060", {"broker": 3, "reason": "silence"})
    quiet = AskedBrokers({})
    assert restarts(with_config(retention_ms="1"), quiet) == []
    assert quiet.asked == []


def test_brokers_whose_listeners_want_a_login_are_not_known_without_the_controllers_files() -> None:
    ensemble = with_config(remote_storage_enable="true")
    registration = {
        "version": 5,
        "endpoints": ["IN://h:9093"],
        "listener_security_protocol_map": {"IN": "SASL_SSL"},
    }
    ensemble.nodes["/brokers/ids/1"].data = json.dumps(registration).encode()
    (found,) = restarts(ensemble, AskedBrokers({2: Applied(), 3: Applied()}))
    assert (found.code, found.values["broker"]) == ("Z2K-1060", 1)
    assert "--controllers" in found.text


def test_controllers_without_remote_storage_block_a_cluster_with_tiered_topics(tmp_path: Path) -> None:
    """In dual-write they would refuse to create or change a tiered topic."""
    ensemble = a_cluster()
    ensemble.nodes["/config/topics/t000000"].data = config_json({"remote.storage.enable": "true"})
    brokers = AskedBrokers({1: Applied(), 2: Applied(), 3: Applied()})

    def found(file: Path) -> list[str]:
        return [each.code for each in check(ensemble.session(), [file], UNLIMITED, ask_brokers=brokers)[1]]

    assert "Z2K-1059" in found(a_file(tmp_path))
    assert "Z2K-1059" not in found(a_file(tmp_path, remote__log__storage__system__enable="true"))


def test_one_controller_of_three_without_remote_storage_is_named_though_no_topic_is_tiered_yet(tmp_path: Path) -> None:
    """R-405-05: brokers take tiered topics, and whichever controller leads in dual-write decides on them."""
    system = "remote.log.storage.system.enable"
    files = [a_file(tmp_path, node, remote__log__storage__system__enable="true") for node in (3000, 3001)]
    brokers = [("1", {system: "true"})]

    def keys(*controllers: Path) -> list[tuple[str, Any]]:
        found = check(a_cluster().session(), controllers, UNLIMITED, brokers)[1]
        return [(each.code, each.values.get("key")) for each in found if each.code == "Z2K-1050"]

    assert keys(*files) == []
    assert keys(*files, a_file(tmp_path, 3002)) == [("Z2K-1050", system)]
