"""Files with listeners in any case and with spaces: each listener has the protocol of its file, or nothing starts.

The same files, and hundreds of others, by Kafka's own parser: tests/e2e/test_listener_files.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.findings.finding import FindingError
from migrator.model.values import SecurityProtocol
from migrator.node.config.properties import NodeConfig, parse_config
from migrator.node.tools.preflight import check, exit_code
from migrator.zk import paths
from migrator.zk.pipeline import UNLIMITED
from tests.support.fake_zookeeper import FakeEnsemble
from tests.support.seeded_tree import SeededTree

PLAINTEXT, SASL, SSL = SecurityProtocol.PLAINTEXT, SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SSL
JAAS = (
    "listener.name.{}.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="c" password="p" user_c="p";\n'
)

MAP_LOWER_CASE = """process.roles=controller
node.id=3001
controller.quorum.voters=3001@127.0.0.1:31201
controller.listener.names=CONTROLLER
listeners=CONTROLLER://127.0.0.1:31201
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,controller:SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.controller.protocol=PLAIN
log.dirs=/tmp/z2k-case/map-lower-case
""" + JAAS.format("controller")
"""As met in the field."""

MAP = "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,controller:SASL_PLAINTEXT\n"
NAMES = "controller.listener.names=CONTROLLER\n"
LISTENERS = "listeners=CONTROLLER://127.0.0.1:31201\n"

MAP_LACKS_CONTROLLER = MAP_LOWER_CASE.replace("controller:SASL_PLAINTEXT", "CONTROLER:SASL_PLAINTEXT")
"""As met in the field: a typing error."""

LOWER_CASE_LISTENER = """process.roles=controller
node.id=3001
controller.quorum.voters=3001@127.0.0.1:31201
controller.listener.names=CONTROLLER
listeners=CONTROLLER://127.0.0.1:31201
listener.security.protocol.map=internal:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=internal
zookeeper.metadata.migration.enable=true
zookeeper.connect=zk:2181
log.dirs=/tmp/z2k-case/lower-case-listener
"""
"""As met in the field: /brokers/ids/1 says INTERNAL://...."""


def changed(text: str, *changes: tuple[str, str]) -> str:
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return text


def protocols(config: NodeConfig) -> dict[str, int]:
    return {each.name: each.protocol for each in config.listeners}


def refused_key(text: str) -> tuple[str, str]:
    with pytest.raises(FindingError) as raised:
        parse_config(text)
    assert raised.value.code == "Z2K-3010"
    return str(raised.value.occurrence.values["key"]), str(raised.value.occurrence.values["reason"])


@pytest.mark.parametrize(
    "text",
    [
        MAP_LOWER_CASE,
        changed(MAP_LOWER_CASE, ("controller:SASL_PLAINTEXT", "Controller : sasl_plaintext ")),
        changed(MAP_LOWER_CASE, (LISTENERS, "listeners=controller://127.0.0.1:31201\n")),
        changed(MAP_LOWER_CASE, (MAP, MAP.replace(",", " ,\\\n\t"))),
        changed(MAP_LOWER_CASE, ("controller:SASL_PLAINTEXT", "controller:PLAINTEXT,controller:SASL_PLAINTEXT,")),
    ],
    ids=["as met", "mixed case and spaces", "listener in lower case", "continued line", "the later entry counts"],
)
def test_a_controller_asks_for_the_login_that_its_file_wants_in_whatever_case_it_says_so(text: str) -> None:
    config = parse_config(text)
    assert protocols(config) == {"CONTROLLER": SASL}
    security = config.security["CONTROLLER"]
    assert security.protocol is SASL
    assert security.sasl is not None
    assert security.sasl.enabled == ("PLAIN",)


@pytest.mark.parametrize(
    ("text", "key", "reason"),
    [
        (MAP_LACKS_CONTROLLER, "listener.security.protocol.map", "no protocol for CONTROLLER"),
        (
            changed(MAP_LOWER_CASE, (MAP, "listener.security.protocol.map=\n")),
            "listener.security.protocol.map",
            "no protocol for CONTROLLER",
        ),
        (
            changed(MAP_LOWER_CASE, (",controller:SASL_PLAINTEXT", "")),
            "listener.security.protocol.map",
            "no protocol for CONTROLLER",
        ),
        (
            f"{MAP_LOWER_CASE}advertised.listeners=CONTROLLER://c1:31201,EXTERNAL://c1:31202\n",
            "listener.security.protocol.map",
            "no protocol for EXTERNAL",
        ),
        (
            changed(
                MAP_LOWER_CASE,
                (NAMES, "controller.listener.names=CONTROLLER,SECOND\n"),
                (LISTENERS, "listeners=CONTROLLER://127.0.0.1:31201,SECOND://127.0.0.1:31202\n"),
            ),
            "listener.security.protocol.map",
            "no protocol for SECOND",
        ),
        (
            changed(
                MAP_LOWER_CASE,
                (MAP, ""),
                (NAMES, "controller.listener.names=CONTROLLER,SASL_SSL\n"),
                (LISTENERS, "listeners=CONTROLLER://127.0.0.1:31201,SASL_SSL://127.0.0.1:31202\n"),
            ),
            "listeners",
            "CONTROLLER has no protocol",
        ),
        (
            changed(MAP_LOWER_CASE, ("controller:SASL_PLAINTEXT", "CONTROLLER:PLAINTEXT,controller:SASL_PLAINTEXT")),
            "listener.security.protocol.map",
            "CONTROLLER has two protocols",
        ),
        (
            changed(MAP_LOWER_CASE, ("controller:SASL_PLAINTEXT", "controller")),
            "listener.security.protocol.map",
            "'controller' is not NAME:PROTOCOL",
        ),
        (changed(MAP_LOWER_CASE, (MAP, MAP.replace(",", ",,"))), "listener.security.protocol.map", "''"),
        (changed(MAP_LOWER_CASE, ("controller:SASL", ":SASL")), "listener.security.protocol.map", "no name"),
        (changed(MAP_LOWER_CASE, (LISTENERS, "listeners=CONTROLLER ://127.0.0.1:31201\n")), "listeners", "CONTROLLER "),
        (
            changed(MAP_LOWER_CASE, (NAMES, "controller.listener.names=controller\n")),
            "listeners",
            "CONTROLLER is not in controller.listener.names, where 'controller' has to be in capitals",
        ),
        (
            changed(
                MAP_LOWER_CASE,
                (MAP, ""),
                (NAMES, "controller.listener.names=CONTROLLER, SECOND\n"),
                (LISTENERS, "listeners=CONTROLLER://127.0.0.1:31201,SECOND://127.0.0.1:31202\n"),
            ),
            "listeners",
            "SECOND has no protocol",
        ),
        (
            changed(
                MAP_LOWER_CASE,
                (MAP, ""),
                (NAMES, "controller.listener.names=A,B\n"),
                (LISTENERS, "listeners=A://127.0.0.1:31201,B://127.0.0.2:31201\n"),
            ),
            "listeners",
            "two listeners have port 31201",
        ),
        (f"{MAP_LOWER_CASE}advertised.listeners=CONTROLLER://0.0.0.0:1\n", "advertised.listeners", "0.0.0.0"),
        (f"{MAP_LOWER_CASE}early.start.listeners=controller\n", "early.start.listeners", "'controller'"),
        (f"{MAP_LOWER_CASE}inter.broker.listener.name=\n", "inter.broker.listener.name", "no name"),
        (
            f"{MAP_LOWER_CASE}inter.broker.listener.name=PLAINTEXT\nsecurity.inter.broker.protocol=PLAINTEXT\n",
            "inter.broker.listener.name",
            "only one of both",
        ),
        (f"{MAP_LOWER_CASE}security.inter.broker.protocol=ssl\n", "security.inter.broker.protocol", "not one of"),
        (f"{MAP_LOWER_CASE}control.plane.listener.name=\n", "control.plane.listener.name", "none"),
    ],
)
def test_a_file_with_which_stock_ends_at_its_start_ends_ours_by_the_key_to_correct(
    text: str, key: str, reason: str
) -> None:
    found = refused_key(text)
    assert found[0] == key
    assert reason in found[1]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([], {"CONTROLLER": PLAINTEXT}),
        ([(NAMES, "controller.listener.names=CONTROLLER,\n")], {"CONTROLLER": PLAINTEXT}),
        (
            [
                (NAMES, "controller.listener.names=B,A\n"),
                (LISTENERS, "listeners=a://127.0.0.1:31201,b://[::1]:31201\n"),
            ],
            {"A": PLAINTEXT, "B": PLAINTEXT},
        ),
    ],
)
def test_without_a_map_and_without_a_secure_name_controller_listeners_are_plaintext(
    changes: list[tuple[str, str]], expected: dict[str, int]
) -> None:
    assert protocols(parse_config(changed(MAP_LOWER_CASE, (MAP, ""), *changes))) == expected


def test_each_controller_listener_is_registered_once_in_the_order_of_the_names() -> None:
    """Advertised brokers' listeners are no part of it; what is not advertised is reached where it listens."""
    config = parse_config(
        changed(
            MAP_LOWER_CASE,
            (MAP, ""),
            (NAMES, "controller.listener.names=B,A\n"),
            (LISTENERS, "listeners=A://0.0.0.0:31201,B://127.0.0.1:31202\n"),
        )
        + "advertised.listeners=PLAINTEXT://k1:9092,b://k1:9093\n"
    )
    assert [(each.name, each.host, each.port) for each in config.advertised] == [("B", "k1", 9093), ("A", "", 31201)]
    assert config.controller_listener == "B"


@pytest.mark.parametrize(
    "text",
    [
        LOWER_CASE_LISTENER,
        changed(LOWER_CASE_LISTENER, ("map=internal", "map=INTERNAL")),
        changed(LOWER_CASE_LISTENER, ("map=internal:PLAINTEXT", "map=Internal : plaintext")),
        changed(LOWER_CASE_LISTENER, ("name=internal", "name=Internal")),
    ],
    ids=["as met", "map in capitals", "protocol in lower case", "name in mixed case"],
)
def test_check_takes_brokers_whose_listener_the_file_names_in_another_case(text: str, tmp_path: Path) -> None:
    ensemble = FakeEnsemble()
    SeededTree(topics=2, partitions=2).plant(ensemble)
    for broker in (1, 2, 3):
        path = paths.broker_id(broker)
        ensemble.nodes[path].data = (
            ensemble.nodes[path].data.replace(b"PLAINTEXT://", b"INTERNAL://").replace(b'"PLAINTEXT":', b'"INTERNAL":')
        )
    file = tmp_path / "controller.properties"
    file.write_text(text)
    config = parse_config(text)
    assert (config.inter_broker_listener, config.inter_broker_protocol) == ("INTERNAL", PLAINTEXT)
    assert check(ensemble.session(), [file], UNLIMITED)[1] == []


@pytest.mark.parametrize(
    "text", [MAP_LACKS_CONTROLLER, changed(MAP_LOWER_CASE, ("names=CONTROLLER", "names=Controller"))]
)
def test_check_blocks_a_file_that_says_no_protocol_for_a_controller_listener(text: str, tmp_path: Path) -> None:
    ensemble = FakeEnsemble()
    SeededTree(topics=2, partitions=2).plant(ensemble)
    file = tmp_path / "controller.properties"
    file.write_text(text)
    found = check(ensemble.session(), [file], UNLIMITED)[1]
    assert ([each.code for each in found], exit_code(found)) == (["Z2K-3010"], 2)


def test_the_listener_between_brokers_by_protocol_has_that_protocol_whatever_the_map_says_of_its_name() -> None:
    text = changed(LOWER_CASE_LISTENER, ("inter.broker.listener.name=internal\n", ""), ("internal:", "PLAINTEXT:"))
    assert parse_config(text).inter_broker_protocol is PLAINTEXT
    assert parse_config(text.replace("PLAINTEXT:PLAINTEXT", "PLAINTEXT:SSL")).inter_broker_protocol is PLAINTEXT


def test_a_listener_of_this_node_keeps_its_protocol_where_brokers_have_one_of_that_name_with_another() -> None:
    text = MAP_LOWER_CASE.replace("CONTROLLER", "PLAINTEXT").replace("PLAINTEXT:PLAINTEXT,controller", "PLAINTEXT")
    text = text.replace("name.controller", "name.plaintext")
    config = parse_config(text)
    assert (protocols(config), config.security["PLAINTEXT"].protocol) == ({"PLAINTEXT": SASL}, SASL)
    key, reason = refused_key(f"{text}zookeeper.metadata.migration.enable=true\nzookeeper.connect=zk:2181\n")
    assert key == "listener.security.protocol.map"
    assert "a listener of this node by SASL_PLAINTEXT" in reason
