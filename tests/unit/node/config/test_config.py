"""The properties file of a stock controller: taken as it is, or refused by the name of the key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from migrator.controller.authorizer import STANDARD_AUTHORIZER, AuthorizerRules, TokenRules
from migrator.driver.checks.waivers import PartitionWaiver
from migrator.findings.finding import FindingError
from migrator.model.values import Listener, SecurityProtocol
from migrator.node.config.properties import NodeConfig, VoterAddress, is_known, parse_config, read_config
from migrator.zk.passwords import EncoderSettings

STOCK = """\
# Licensed to the Apache Software Foundation (ASF) under one or more
# contributor license agreements.
process.roles=controller
node.id=3000
controller.quorum.voters=3000@localhost:9093,3001@k2:9093, 3002@[::1]:9094
listeners=CONTROLLER://:9093
controller.listener.names=CONTROLLER
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL
num.network.threads=3
num.io.threads=8
socket.send.buffer.bytes=102400
log.dirs=/var/lib/kafka/metadata
num.partitions=1
num.recovery.threads.per.data.dir=1
offsets.topic.replication.factor=1
transaction.state.log.min.isr=1
log.retention.hours=168
log.segment.bytes=1073741824
zookeeper.metadata.migration.enable=true
zookeeper.connect = zk1:2181,zk2:2181/kafka
inter.broker.protocol.version : 3.9
super.users=User:broker;User:admin
"""
"""As Kafka ships `config/kraft/controller.properties`, with the keys of a migration."""


def with_keys(text: str = STOCK, **changes: str | None) -> str:
    """The file with keys changed (dots written as `__`), or taken out (None)."""
    for name, value in changes.items():
        key = name.replace("__", ".")
        lines = [line for line in text.splitlines() if not line.startswith((key + "=", key + " "))]
        text = "\n".join([*lines, *([] if value is None else [f"{key}={value}"])]) + "\n"
    return text


def refusal(text: str) -> FindingError:
    with pytest.raises(FindingError) as raised:
        parse_config(text, "c.properties")
    assert raised.value.occurrence.values["file"] == "c.properties"
    return raised.value


def test_a_stock_file_is_taken_as_it_is() -> None:
    config = parse_config(STOCK, "c.properties")
    assert config == NodeConfig(
        file="c.properties",
        node_id=3000,
        voters=(VoterAddress(3000, "localhost", 9093), VoterAddress(3001, "k2", 9093), VoterAddress(3002, "::1", 9094)),
        listeners=(Listener("CONTROLLER", "", 9093, SecurityProtocol.PLAINTEXT),),
        advertised=(Listener("CONTROLLER", "", 9093, SecurityProtocol.PLAINTEXT),),
        metadata_log_dir=Path("/var/lib/kafka/metadata"),
        log_dirs=(Path("/var/lib/kafka/metadata"),),
        zookeeper_connect="zk1:2181,zk2:2181/kafka",
        migration_enabled=True,
        inter_broker_listener="PLAINTEXT",
        inter_broker_protocol=SecurityProtocol.PLAINTEXT,
        given=config.given,
    )
    assert config.voter_ids == (3000, 3001, 3002)
    assert config.unknown == ()


def test_the_file_is_read_as_java_reads_it(tmp_path: Path) -> None:
    """Latin-1, continued lines, escapes: a comment in any encoding is no reason not to start."""
    file = tmp_path / "controller.properties"
    more = b"# caf\xe9, \xff\xfe\nmetadata.log.\\\n    dir=/var/\\u006cog/m\\:d\n!another comment\nnum.partitions:7\r\n"
    file.write_bytes(STOCK.encode() + more)
    config = read_config(file)
    assert config.metadata_log_dir == Path("/var/log/m:d")
    assert config.num_partitions == 7
    assert config.file == str(file)


@pytest.mark.parametrize("content", [None, b"node.id=\\u12\n"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "controller.properties"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(FindingError, match=r"Z2K-3017 .*controller.properties cannot be read"):
        read_config(file)


@pytest.mark.parametrize(
    ("keys", "field", "value"),
    [
        ({"metadata__log__dir": "/m", "log__dirs": "/a, /b"}, "metadata_log_dir", Path("/m")),
        ({"log__dirs": "/a, /b,"}, "log_dirs", (Path("/a"), Path("/b"))),
        ({"log__dirs": "/a, /b,"}, "metadata_log_dir", Path("/a")),
        ({"log__dirs": None, "log__dir": "/c"}, "log_dirs", (Path("/c"),)),
        ({"log__dirs": None}, "log_dirs", (Path("/tmp/kafka-logs"),)),
        ({"zookeeper__session__timeout__ms": "6000"}, "zookeeper_connection_timeout_ms", 6_000),
        ({"zookeeper__metadata__migration__enable": "TRUE"}, "migration_enabled", True),
        ({"zookeeper__metadata__migration__enable": None}, "migration_enabled", False),
        ({"metadata__log__segment__bytes": "1048576"}, "segment_bytes", 1 << 20),
        ({"metadata__log__segment__ms": None}, "segment_ms", 604_800_000),
        ({"metadata__log__segment__ms": "60000"}, "segment_ms", 60_000),
        ({"advertised__listeners": "CONTROLLER://k1:19093"}, "advertised", (Listener("CONTROLLER", "k1", 19093),)),
        ({"advertised__listeners": ""}, "advertised", (Listener("CONTROLLER", "", 9093),)),
        ({"inter__broker__listener__name": "PLAINTEXT"}, "inter_broker_listener", "PLAINTEXT"),
        ({"security__inter__broker__protocol": "PLAINTEXT"}, "inter_broker_listener", "PLAINTEXT"),
        ({"super__users": "User:admin"}, "authorizer", None),  # nobody asks without an authorizer
        (
            {"authorizer__class__name": STANDARD_AUTHORIZER, "super__users": " User:ANONYMOUS ; User:a,b;"},
            "authorizer",
            AuthorizerRules(frozenset({"User:ANONYMOUS", "User:a,b"})),
        ),
        ({"delegation__token__master__key": "k"}, "tokens", TokenRules("k", 604_800_000, 86_400_000)),
        (
            {
                "delegation__token__master__key": "old",
                "delegation__token__secret__key": "new",
                "delegation__token__max__lifetime__ms": "9",
                "delegation__token__expiry__time__ms": "5",
            },
            "tokens",
            TokenRules("new", 9, 5),
        ),
        ({"password__encoder__iterations": "2048"}, "passwords", None),
        ({"password__encoder__secret": "s"}, "passwords", EncoderSettings("s")),
        (
            {
                "password__encoder__secret": "s",
                "password__encoder__old__secret": "o",
                "password__encoder__keyfactory__algorithm": "PBKDF2WithHmacSHA1",
                "password__encoder__cipher__algorithm": "AES/GCM/NoPadding",
                "password__encoder__key__length": "256",
                "password__encoder__iterations": "2048",
            },
            "passwords",
            EncoderSettings("s", "o", "PBKDF2WithHmacSHA1", "AES/GCM/NoPadding", 256, 2048),
        ),
        ({"zk2kraft__gates": "pause"}, "gates", "pause"),
        ({"zk2kraft__takeover__max__ms": "60000"}, "takeover_max_ms", 60_000),
        (
            {"zk2kraft__waive": "orders-7, o-*:1.5%"},
            "waived",
            (PartitionWaiver("orders-7", "orders-7"), PartitionWaiver("o-*:1.5%", "o-*", 1.5)),
        ),
        ({"zk2kraft__export__dir": "/exports"}, "export_dir", Path("/exports")),
        ({"zk2kraft__export__dir": None}, "export_dir", None),
        ({"zk2kraft__control__address": "localhost:9999"}, "control_address", "localhost:9999"),
        ({"zk2kraft__control__address": "[::1]:0"}, "control_address", "[::1]:0"),
    ],
)
def test_a_key_is_honoured(keys: dict[str, Any], field: str, value: object) -> None:
    assert getattr(parse_config(with_keys(**keys)), field) == value


BEYOND = ("0.0.0.0:9999", "10.0.0.5:9999", "[::]:9999", "controller-1:9999")
NO_ADDRESSES = ("", "9999", ":9999", "localhost", "localhost:", "localhost:65536", "::1:9999", "[]:1", "h:-1", "=h:1")


@pytest.mark.parametrize(
    ("keys", "key", "reason"),
    [
        ({"process__roles": "broker,controller"}, "process.roles", "combined mode"),  # R-866-13
        ({"process__roles": None}, "process.roles", "own node"),
        ({"controller__quorum__bootstrap__servers": "a:1"}, "controller.quorum.bootstrap.servers", "dynamic voters"),
        ({"authorizer__class__name": "kafka.X"}, "authorizer.class.name", "only org.apache.kafka.metadata"),
        (
            {"authorizer__class__name": STANDARD_AUTHORIZER, "super__users": "User:a"},
            "super.users",
            "User:ANONYMOUS",
        ),
        ({"authorizer__class__name": STANDARD_AUTHORIZER, "super__users": "alice"}, "super.users", "Type:name"),
        ({"zk2kraft__waive": "orders-7,orders-*:10"}, "zk2kraft.waive", "orders-*:10 is not PARTITION or PATTERN"),
        ({"zk2kraft__waive": "orders-*:0%"}, "zk2kraft.waive", "above 0 and at most 100"),
        ({"zk2kraft__waive": "*:50%"}, "zk2kraft.waive", "would waive every partition"),
        ({"control__plane__listener__name": "X"}, "control.plane.listener.name", "none"),  # F-53
        ({"listeners": "CONTROLLER://:9093,PLAINTEXT://:9092"}, "listeners", "PLAINTEXT is not in controller"),
        (
            {"listeners": "OTHER://:9093", "listener__security__protocol__map": "CONTROLLER:PLAINTEXT"},
            "listener.security.protocol.map",
            "no protocol for OTHER, which is in listeners",
        ),
        ({"listeners": "CONTROLLER://:99999"}, "listeners", "host:port"),
        ({"listeners": "CONTROLLER:9093"}, "listeners", "host:port"),
        ({"listener__security__protocol__map": "CONTROLLER:TLS"}, "listener.security.protocol.map", "'TLS'"),
        ({"alter__config__policy__class__name": "a.Policy"}, "alter.config.policy.class.name", "policy classes"),
        ({"create__topic__policy__class__name": "a.Policy"}, "create.topic.policy.class.name", "policy classes"),
        ({"config__providers": "file"}, "config.providers", "config.providers.file.class is missing"),
        ({"config__providers": "v", "config__providers__v__class": "x.Vault"}, "config.providers.v.class", "Java"),
        ({"inter__broker__listener__name": "INSIDE"}, "inter.broker.listener.name", "not in listener.security"),  # F-16
        ({"controller__quorum__voters": "3001@h:1"}, "controller.quorum.voters", "this node (3000)"),  # F-14
        ({"controller__quorum__voters": "3000@h:1,3000@i:1"}, "controller.quorum.voters", "twice"),
        ({"controller__quorum__voters": "3000@0.0.0.0:1"}, "controller.quorum.voters", "id@host:port"),
        ({"controller__quorum__voters": "3000@h"}, "controller.quorum.voters", "id@host:port"),
        ({"controller__quorum__voters": "3000@h:0"}, "controller.quorum.voters", "id@host:port"),
        ({"controller__quorum__voters": "-1@h:1"}, "controller.quorum.voters", "id@host:port"),
        ({"node__id": "-1"}, "node.id", "from 0"),
        ({"node__id": "2147483648"}, "node.id", "to 2147483647"),
        ({"node__id": "three"}, "node.id", "not a number"),
        ({"num__partitions": "\\u0663"}, "num.partitions", "not a number"),
        ({"num__partitions": "9" * 5_000}, "num.partitions", "not a number"),
        ({"num__partitions": "0"}, "num.partitions", "from 1"),
        ({"metadata__log__segment__bytes": "1023"}, "metadata.log.segment.bytes", "from 1024"),
        ({"metadata__log__segment__ms": "0"}, "metadata.log.segment.ms", "from 1"),
        ({"delete__topic__enable": "yes"}, "delete.topic.enable", "neither true nor false"),
        ({"log__dirs": ","}, "log.dirs", "no directory"),
        ({"log__dirs": ""}, "log.dirs", "no directory"),
        ({"log__dirs": None, "log__dir": ","}, "log.dir", "no directory"),
        ({"listeners": "CONTROLLER://:9093,CONTROLLER://:9093"}, "listeners", "twice"),
        ({"advertised__listeners": "CONTROLLER://k1:1,CONTROLLER://k2:1"}, "advertised.listeners", "twice"),
        (
            {"connection__failed__authentication__delay__ms": "1s"},
            "connection.failed.authentication.delay.ms",
            "not a number",
        ),
        ({"zk2kraft__export__dir": ""}, "zk2kraft.export.dir", "no directory"),
        *(({"zk2kraft__control__address": each}, "zk2kraft.control.address", "host:port") for each in NO_ADDRESSES),
        *(({"zk2kraft__control__address": each}, "zk2kraft.control.address", "loopback") for each in BEYOND),
        ({"zk2kraft__gates": "open"}, "zk2kraft.gates", "auto, pause"),
        ({"zk2kraft__takeover__max__ms": "60001"}, "zk2kraft.takeover.max.ms", "to 60000"),
        ({"zk2kraft__takeover__max__ms": "0"}, "zk2kraft.takeover.max.ms", "from 1"),
    ],
)
def test_a_key_that_cannot_be_honoured_stops_the_start_by_its_name(keys: dict[str, Any], key: str, reason: str) -> None:
    error = refusal(with_keys(**keys))
    found = error.occurrence.values
    assert (error.code, found["key"]) == ("Z2K-3010", key)
    assert reason in found["reason"]
    assert found["value"] == (keys.get(key.replace(".", "__")) or "").replace("\\u0663", "\u0663")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("password.encoder.cipher.algorithm", "AES/ECB/PKCS5Padding"),
        ("password.encoder.keyfactory.algorithm", "PBEWithMD5AndDES"),
        ("password.encoder.key.length", "100"),
        ("password.encoder.iterations", "1023"),
    ],
)
def test_an_encoder_that_could_not_write_a_password_stops_the_start(key: str, value: str) -> None:
    error = refusal(with_keys(password__encoder__secret="s3cret", **{key.replace(".", "__"): value}))
    assert (error.code, error.occurrence.values["key"]) == ("Z2K-3010", key)
    assert "s3cret" not in str(error)


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"node__id": None}, "node.id"),
        ({"listeners": None}, "listeners"),
        ({"controller__listener__names": None}, "controller.listener.names"),
        ({"controller__quorum__voters": None}, "controller.quorum.voters"),
        ({"zookeeper__connect": None}, "zookeeper.connect"),
        ({"zookeeper__connect": ""}, "zookeeper.connect"),
    ],
)
def test_a_key_that_is_needed_is_named_when_it_is_missing(keys: dict[str, Any], key: str) -> None:
    error = refusal(with_keys(**keys))
    assert (error.code, error.occurrence.values["key"]) == ("Z2K-3011", key)


def test_a_key_that_nobody_knows_is_reported_and_does_not_stop_the_start() -> None:
    text = with_keys(zk2kraft__gate="pause", confluent__license="x", log__cleaner__threads="2")
    assert parse_config(text).unknown == ("confluent.license", "zk2kraft.gate")


@pytest.mark.parametrize(
    "key", [line.partition("=")[0] for line in STOCK.splitlines() if "=" in line and line[0] != "#"]
)
def test_every_key_of_a_stock_file_is_known(key: str) -> None:
    assert is_known(key.strip())


def test_the_limits_of_connections_are_kafkas() -> None:
    config = parse_config(STOCK)
    assert (config.connections_max, config.connections_idle_ms) == (2**31 - 1, 600_000)
    config = parse_config(with_keys(max__connections="40", connections__max__idle__ms="5000"))
    assert (config.connections_max, config.connections_idle_ms) == (40, 5_000)
    assert parse_config(with_keys(connections__max__idle__ms="-1")).connections_idle_ms is None
    for bad in ({"max__connections": "0"}, {"max__connections": "x"}, {"connections__max__idle__ms": "soon"}):
        refusal(with_keys(**bad))
