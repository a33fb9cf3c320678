"""Configurations are values, and the properties files show exactly what Kafka 3.9 accepts for each mode."""

from __future__ import annotations

import base64
import uuid
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrator.lab.servers import properties
from migrator.lab.servers.broker import BrokerSpec
from migrator.lab.servers.controller import ControllerSpec
from migrator.lab.servers.tools import random_cluster_id
from migrator.lab.servers.zookeeper import EnsembleMember, ZooKeeperSpec

VOTERS = "3000@127.0.0.1:19093"
QUORUM_KEYS = {"controller.quorum.voters", "controller.listener.names", "listener.security.protocol.map"}


def a_broker() -> BrokerSpec:
    connect = "127.0.0.1:2181/kafka"
    return BrokerSpec(broker_id=2, port=19092, directory=Path("/lab/broker-2"), zookeeper_connect=connect)


def a_controller() -> ControllerSpec:
    return ControllerSpec(
        node_id=3000,
        port=19093,
        directory=Path("/lab/controller-3000"),
        voters=VOTERS,
        zookeeper_connect="127.0.0.1:2181/kafka",
    )


def test_a_zookeeper_broker_names_no_controller_listener() -> None:
    written = a_broker().properties()
    assert written["broker.id"] == 2
    assert written["zookeeper.connect"] == "127.0.0.1:2181/kafka"
    assert written["inter.broker.protocol.version"] == "3.9"
    assert not QUORUM_KEYS & written.keys()
    assert "zookeeper.metadata.migration.enable" not in written


def test_a_migrating_broker_is_a_zookeeper_broker_that_knows_the_quorum() -> None:
    before, after = a_broker().properties(), a_broker().as_migrating(VOTERS).properties()
    assert {key: after[key] for key in after.keys() - before.keys()} == {
        "controller.quorum.voters": VOTERS,
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "zookeeper.metadata.migration.enable": True,
        "controller.quorum.election.timeout.ms": 600_000,
    }
    assert {key: after[key] for key in before} == before


def test_a_kraft_broker_names_no_zookeeper_and_no_protocol_version() -> None:
    written = a_broker().as_kraft(VOTERS).properties()
    assert written["process.roles"] == "broker"
    assert written["node.id"] == 2
    assert written.keys() >= QUORUM_KEYS
    assert not [key for key in written if key.startswith("zookeeper.")]
    assert not {"broker.id", "inter.broker.protocol.version"} & written.keys()


def test_a_broker_rolled_back_to_zookeeper_has_its_first_configuration_again() -> None:
    assert a_broker().as_migrating(VOTERS).as_kraft(VOTERS).as_zookeeper().properties() == a_broker().properties()


def test_a_mode_that_needs_a_quorum_is_refused_without_one() -> None:
    with pytest.raises(AssertionError, match=r"broker 2 .*voters"):
        a_broker().as_migrating("").properties()


def test_a_tapped_broker_advertises_the_tap_and_listens_elsewhere() -> None:
    written = BrokerSpec(
        broker_id=1, port=19092, advertised_port=20092, directory=Path("/lab/broker-1"), zookeeper_connect="z:2181"
    ).properties()
    assert written["listeners"] == "PLAINTEXT://127.0.0.1:19092"
    assert written["advertised.listeners"] == "PLAINTEXT://127.0.0.1:20092"


def test_extra_properties_win() -> None:
    spec = BrokerSpec(
        broker_id=1, port=19092, directory=Path("/lab/b"), zookeeper_connect="z", extra={"num.io.threads": 16}
    )
    assert spec.properties()["num.io.threads"] == 16


def test_each_log_directory_of_a_broker_is_its_own() -> None:
    spec = BrokerSpec(broker_id=1, port=1, directory=Path("/lab/b"), zookeeper_connect="z", log_directories=2)
    assert spec.properties()["log.dirs"] == "/lab/b/data-0,/lab/b/data-1"


def test_a_controller_with_the_flag_names_zookeeper_and_the_brokers_listener() -> None:
    written = a_controller().properties()
    assert written["process.roles"] == "controller"
    assert written["zookeeper.connect"] == "127.0.0.1:2181/kafka"
    assert written["zookeeper.metadata.migration.enable"] is True
    assert written["inter.broker.listener.name"] == "PLAINTEXT"


def test_a_controller_without_the_flag_names_no_zookeeper() -> None:
    spec = ControllerSpec(node_id=3000, port=1, directory=Path("/lab/c"), voters=VOTERS, migrating=False)
    assert not [key for key in spec.properties() if key.startswith("zookeeper.")]


def test_a_lone_zookeeper_names_no_peers_and_an_ensemble_names_all() -> None:
    members = tuple(EnsembleMember(number, 100 + number, 200 + number) for number in (1, 2, 3))
    lone = ZooKeeperSpec(port=2181, data_directory="/lab/zookeeper/data").properties()
    one_of_three = ZooKeeperSpec(port=2181, data_directory="/d", number=2, ensemble=members).properties()
    assert not [key for key in lone if key.startswith("server.")]
    assert [one_of_three[f"server.{number}"] for number in (1, 2, 3)] == [
        "127.0.0.1:101:201",
        "127.0.0.1:102:202",
        "127.0.0.1:103:203",
    ]


def test_properties_are_written_one_to_a_line_as_java_reads_them() -> None:
    text = properties.render({"a": True, "b": 7, "c": r"C:\kafka", "d": "two\nlines", "e": " kept"})
    assert text == "a=true\nb=7\nc=C:\\\\kafka\nd=two\\nlines\ne=\\ kept\n"


@given(
    st.dictionaries(
        st.from_regex(r"[a-z][a-z.]{0,20}", fullmatch=True),
        st.from_regex(r"[!-~]([ -~]{0,30}[!-~])?", fullmatch=True),
        max_size=5,
    )
)
def test_what_was_written_can_be_read(values: dict[str, str]) -> None:
    with TemporaryDirectory() as directory:
        file = Path(directory) / "x.properties"
        properties.write(file, values)
        assert properties.read(file) == values
        assert [entry.name for entry in Path(directory).iterdir()] == ["x.properties"]


def test_a_cluster_id_is_an_uuid_as_kafka_writes_one_and_begins_with_no_dash() -> None:
    """A dash would be an option of Kafka's tools."""
    made = {random_cluster_id() for _ in range(500)}
    assert len(made) == 500
    for each in made:
        assert len(each) == 22
        assert not each.startswith("-")
        assert uuid.UUID(bytes=base64.urlsafe_b64decode(each + "==")).version == 4
