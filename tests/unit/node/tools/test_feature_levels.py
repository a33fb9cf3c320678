"""Feature levels read from a log directory, from ZooKeeper and from controllers (R-778-01, -03, -04, -05)."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from api import cli
from migrator.driver.tree import Tree
from migrator.findings.finding import FindingError
from migrator.model.features.cases import Case
from migrator.model.features.changes import FeatureReport
from migrator.model.features.matrix import FeatureMatrix, NodeFeatures, NodeMode
from migrator.model.image import EMPTY, METADATA_VERSION
from migrator.model.levels import LATEST
from migrator.model.values import FeatureRange
from migrator.node.config.properties import VoterAddress
from migrator.node.tools.feature_levels import (
    ask_controllers,
    before_a_quorum,
    feature_report,
    level_named,
    read_log,
)
from migrator.wire.batch import build_batch, build_control_batch
from migrator.wire.messages.control_records import LeaderChangeMessage, LeaderChangeVoter
from migrator.wire.messages.metadata import (
    BrokerFeature,
    ControllerFeature,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    TopicRecord,
    UserScramCredentialRecord,
)
from migrator.wire.records import encode_record
from migrator.wire.schema import Message
from migrator.zk import paths
from migrator.zk.znodes import BrokerZnode
from tests.support.builders import an_id
from tests.support.fake_zookeeper import FakeEnsemble

BROKER = b'{"version":%d,"endpoints":["PLAINTEXT://h:9092"],"host":"h","port":9092,"features":{}}'


def a_registered_broker(number: int, lowest: int, highest: int, *, fenced: bool = False) -> RegisterBrokerRecord:
    features = (BrokerFeature(METADATA_VERSION, lowest, highest),)
    return RegisterBrokerRecord(
        broker_id=number, incarnation_id=an_id(f"run-{number}"), broker_epoch=number, features=features, fenced=fenced
    )


def a_registered_controller(number: int) -> RegisterControllerRecord:
    features = (ControllerFeature(METADATA_VERSION, 1, 21), ControllerFeature("kraft.version", 0, 1))
    return RegisterControllerRecord(
        controller_id=number, incarnation_id=an_id(f"run-{number}"), zk_migration_ready=True, features=features
    )


def the_level(level: int) -> FeatureLevelRecord:
    return FeatureLevelRecord(name=METADATA_VERSION, feature_level=level)


def written(directory: Path, *records: Message, voters: tuple[int, ...] = (3000,)) -> Path:
    """A directory of one batch, behind the record in which its leader names the voters."""
    directory.mkdir()
    message = LeaderChangeMessage(leader_id=3000, voters=tuple(map(LeaderChangeVoter, voters)))
    where = {"leader_epoch": 1, "timestamp_ms": 0}
    data = build_control_batch(base_offset=0, records=[message], **where)
    versions = {RegisterBrokerRecord: 1, PartitionRecord: 2, PartitionChangeRecord: 2}
    values = [encode_record(each, versions.get(type(each), 0)) for each in records]
    (directory / f"{0:020d}.log").write_bytes(data + build_batch(base_offset=1, values=values, **where))
    return directory


def reported(directory: Path, **options: Any) -> FeatureReport:
    return feature_report(read_log(directory), **options)


def test_a_directory_says_who_supports_what_and_which_voter_is_not_registered(tmp_path: Path) -> None:
    """R-778-01, R-778-05."""
    log = written(
        tmp_path / "log",
        *(the_level(20), a_registered_controller(3000), a_registered_broker(1, 1, 21), a_registered_broker(2, 1, 19)),
        voters=(3000, 3001),
    )
    matrix = reported(log).matrix
    assert {each.name: each.case for each in matrix.nodes} == {
        "controller 3000": Case.F,
        "controller 3001": Case.G,
        "broker 1": Case.F,
        "broker 2": Case.E,
    }
    assert (matrix.case, matrix.effective, matrix.in_zookeeper) == (Case.E, 20, None)


def test_a_named_level_is_judged_alone_and_what_it_would_lose_is_named_by_key(tmp_path: Path) -> None:
    """R-778-04: eligible leader replicas are no part of an image, and are counted from the records."""
    topic = an_id("orders")
    place: dict[str, Any] = {"topic_id": topic, "replicas": (1, 2), "isr": (1,), "leader": 1}
    log = written(
        tmp_path / "log",
        *(the_level(21), a_registered_controller(3000), a_registered_broker(1, 1, 21)),
        TopicRecord(name="orders", topic_id=topic),
        PartitionRecord(partition_id=0, **place, eligible_leader_replicas=(2,)),
        PartitionRecord(partition_id=1, **place, eligible_leader_replicas=(2,)),
        PartitionRecord(partition_id=2, **place),
        PartitionChangeRecord(topic_id=topic, partition_id=1, eligible_leader_replicas=()),
        PartitionChangeRecord(topic_id=topic, partition_id=0, isr=(1, 2)),
        UserScramCredentialRecord(
            name="alice", mechanism=1, salt=b"s", stored_key=b"k", server_key=b"k", iterations=4096
        ),
    )
    (change,) = reported(log, to=10).changes
    assert [(each.record, each.field, each.keys) for each in change.losses] == [
        ("PartitionRecord", "EligibleLeaderReplicas", ("orders-0",)),
        ("RegisterControllerRecord", "", ("controller 3000",)),
        ("UserScramCredentialRecord", "", ("alice SCRAM-SHA-256",)),
    ]
    assert reported(log, to=21).changes == ()


def test_brokers_that_only_zookeeper_has_are_in_the_matrix(tmp_path: Path) -> None:
    """R-778-01: below inter.broker.protocol.version 2.7 their znode has another version; `/feature` is shown."""
    ensemble = FakeEnsemble()
    for number, version in ((1, 5), (2, 4)):
        ensemble.create(paths.broker_id(number), BROKER % version)
    ensemble.create(paths.FEATURE, b'{"version":2,"status":1,"features":{"x":{"max_version_level":3}}}')
    log = written(tmp_path / "log", the_level(21), a_registered_broker(3, 1, 21), voters=())
    matrix = reported(log, session=ensemble.session()).matrix
    assert [(each.name, each.mode, each.ibp, each.case) for each in matrix.nodes] == [
        ("broker 3", NodeMode.KRAFT, None, Case.D),
        ("broker 1", NodeMode.ZOOKEEPER, None, Case.G),
        ("broker 2", NodeMode.ZOOKEEPER, 0, Case.B),
    ]
    assert matrix.in_zookeeper == {"x": 3}


def test_an_answer_of_a_controller_counts_more_than_its_registration(tmp_path: Path) -> None:
    """R-778-03: the process may be another one by now. ApiVersions leaves out a range that begins at 0."""
    log = written(tmp_path / "log", the_level(20), a_registered_controller(3000))
    answer = NodeFeatures("controller 3000", ranges=(FeatureRange(METADATA_VERSION, 1, 20),), is_alive=True)
    other = NodeFeatures("controller at c:9093", ranges=(FeatureRange(METADATA_VERSION, 1, 20),), is_alive=True)
    matrix = reported(log, answers=(answer, other)).matrix
    assert [(each.name, each.case) for each in matrix.nodes] == [
        ("controller 3000", Case.D),
        ("controller at c:9093", Case.D),
    ]
    assert matrix.nodes[0].range_of("kraft.version") == FeatureRange("kraft.version", 0, 1)


def test_a_controller_that_does_not_answer_is_named_with_the_reason() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    nodes, silent = ask_controllers([VoterAddress(-1, "127.0.0.1", port)], EMPTY)
    assert nodes == ()
    assert list(silent) == [f"127.0.0.1:{port}"]


@pytest.mark.parametrize(
    ("text", "level"), [("20", 20), ("25", 25), ("3.8", 20), ("3.7.2", 19), ("3.5-IV2", 11), ("3.3-IV0", 4)]
)
def test_a_level_is_named_by_number_name_or_release(text: str, level: int) -> None:
    assert level_named(text) == level


@pytest.mark.parametrize("text", ["", "3", "0", "-1", "3.2", "4.0", "3.9-IV7", "latest", "9" * 9])
def test_what_is_no_level_that_a_log_can_have_is_refused(text: str) -> None:
    with pytest.raises(FindingError) as refused:
        level_named(text)
    assert refused.value.code == "Z2K-4222"


# --- check ------------------------------------------------------------------------------------------------


def judged(files: Mapping[str, Mapping[str, str]], *, version: int = 5) -> FeatureMatrix:
    tree = Tree(brokers={1: BrokerZnode(version), 2: BrokerZnode(version)})
    found = before_a_quorum(tree, list(files.items()))
    assert found is not None
    return found


def test_check_judges_brokers_by_their_files_where_it_has_them() -> None:
    """R-778-01: the cases before a takeover."""
    ibp = "inter.broker.protocol.version"
    assert [each.case for each in judged({"1": {ibp: "3.5"}, "2": {ibp: "3.9"}, "x": {}}).nodes] == [Case.B, Case.C]
    assert judged({"1": {ibp: "3.9"}}).nodes[0].ibp == LATEST
    assert judged({}).case is Case.C
    assert judged({}, version=4).case is Case.B


def test_check_says_nothing_of_levels_once_a_migration_was_begun() -> None:
    assert before_a_quorum(Tree(migration_present=True), ()) is None


# --- the command ------------------------------------------------------------------------------------------


def run(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli.app, ["features", *words])
    return result.exit_code, result.output


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return written(tmp_path / "log", the_level(20), a_registered_controller(3000), a_registered_broker(1, 1, 21))


def test_the_command_prints_the_case_the_matrix_and_every_other_level(log: Path) -> None:
    """R-778-08: a raise is offered, and nothing is done."""
    code, text = run("--kraft", str(log))
    assert code == 0
    assert "effective metadata.version: 3.8-IV0 (20); migration: NONE" in text
    assert "case F: " in text
    assert "controller 3000  KRaft  not known  -    1-21              0-1            F" in text
    assert "  3.9-IV0 (21): raise is possible; it loses nothing" in text
    assert "  3.7-IV2 (17) to 3.7-IV4 (19): downgrade is possible; it loses nothing" in text
    assert "    would lose registrations of controllers, 1 (RegisterControllerRecord" in text


@pytest.mark.parametrize(
    ("level", "code", "said"),
    [
        ("3.9", 0, "3.9-IV0 (21): raise is possible"),
        ("3.8", 0, "metadata.version is 3.8-IV0 (20) already"),
        ("3.7-IV1", 1, "3.7-IV1 (16): downgrade is refused: records changed in between"),
        ("22", 1, "  broker 1 supports 1 to 21"),
        ("4.0", 2, ""),
    ],
)
def test_the_exit_code_is_that_of_the_named_level(log: Path, level: str, code: int, said: str) -> None:
    """R-778-03, R-778-04."""
    found, text = run("--kraft", str(log), "--to", level)
    assert found == code
    assert said in text


def test_a_broker_that_is_not_alive_is_named_with_what_to_do(tmp_path: Path) -> None:
    """R-778-05."""
    fenced = a_registered_broker(2, 1, 21, fenced=True)
    code, text = run("--kraft", str(written(tmp_path / "log", the_level(21), a_registered_controller(3000), fenced)))
    assert code == 1
    assert "case G (broker 2): " in text
    assert "kafka-cluster.sh unregister" in text


def test_a_log_without_a_level_has_nothing_to_raise(tmp_path: Path) -> None:
    """R-778-01: supported and not initialised; there is no effective version."""
    code, text = run("--kraft", str(written(tmp_path / "log", a_registered_broker(1, 1, 21), voters=())))
    assert code == 0
    assert "effective metadata.version: none" in text
    assert "no level is finalized" in text


def test_json_is_the_report_and_trouble_is_a_finding(log: Path, tmp_path: Path) -> None:
    code, text = run("--kraft", str(log), "--json")
    document = json.loads(text)
    assert code == 0
    assert document["matrix"]["case"] == "F"
    assert [each["level"] for each in document["changes"]] == [each for each in range(4, 22) if each != 20]
    code, text = run("--kraft", f"{tmp_path}/nowhere", "--json")
    assert code == 2
    assert json.loads(text)["findings"][0]["code"] == "Z2K-5001"


def test_with_zookeeper_the_command_reads_both(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of another cluster it reads nothing."""
    ensemble = FakeEnsemble()
    ensemble.create(paths.TOPICS)
    ensemble.create(paths.broker_id(1), BROKER % 5)

    @contextmanager
    def connected(_: str) -> Iterator[Any]:
        yield ensemble.session()

    monkeypatch.setattr("migrator.zk.session.ZkSession", connected)
    code, text = run("--kraft", str(log), "-z", "zk:2181")
    assert code == 0
    assert "case F" in text
    ensemble.create(paths.CLUSTER_ID, b'{"version":"1","id":"this-one"}')
    (log / "meta.properties").write_text("cluster.id=another\n")
    code, text = run("--kraft", str(log), "-z", "zk:2181", "--json")
    assert code == 2
    assert "belongs to cluster another" in json.loads(text)["findings"][0]["says"]
