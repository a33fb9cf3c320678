"""A migration file is one with which the broker starts and finds the controllers; otherwise it is refused by its key.

Contents of the field cases no-login-for-controllers, map-other-protocol, id-above-1000, and their like.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import pytest

from migrator.fleet.properties_file import parse_properties
from migrator.fleet.render import FileKind, Rendered, Wanted, render

VOTERS: Final = "3000@c1:9093,3001@c2:9093,3002@c3:9093"
NO_LOGIN: Final = """broker.id=1
listeners=SASL_PLAINTEXT://127.0.0.1:31101
security.inter.broker.protocol=SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
sasl.mechanism.inter.broker.protocol=PLAIN
listener.name.sasl_plaintext.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule \
required username="b" password="p" user_b="p";
inter.broker.protocol.version=3.9
zookeeper.connect=127.0.0.1:31001/kafka
log.dirs=/srv/k
"""
OTHER_PROTOCOL: Final = """broker.id=1
listeners=PLAINTEXT://k1.example.com:9092
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SSL
inter.broker.protocol.version=3.9
zookeeper.connect=zk1:2181/kafka
log.dirs=/srv/k
"""
ID_ABOVE: Final = """broker.id=1001
listeners=PLAINTEXT://k1.example.com:9092
inter.broker.protocol.version=3.9
zookeeper.connect=zk1:2181,zk2:2181/kafka
log.dirs=/srv/k
"""
CONTROL_PLANE: Final = """broker.id=1
listeners=INTERNAL://:9092,CONTROLLER://:29093
advertised.listeners=INTERNAL://k1.example.com:9092,CONTROLLER://k1.example.com:29093
listener.security.protocol.map=INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=INTERNAL
control.plane.listener.name=CONTROLLER
inter.broker.protocol.version=3.9
zookeeper.connect=zk1:2181/kafka
log.dirs=/srv/k
"""
PLAIN: Final = OTHER_PROTOCOL.replace(",CONTROLLER:SSL", "")
LOGIN: Final = "listener.name.controller.plain.sasl.jaas.config=a.Module required;\n"


def wanted(
    protocol: str = "PLAINTEXT", mechanism: str = "", level: str = "3.9", listener: str = "CONTROLLER"
) -> Wanted:
    return Wanted(
        voters=VOTERS,
        controller_listener=listener,
        controller_protocol=protocol,
        sasl_mechanism=mechanism,
        zookeeper="zk1:2181/kafka",
        metadata_version=level,
    )


def migration(content: str, of: Wanted) -> Rendered:
    return render("broker", parse_properties(content.encode(), "server.properties"), FileKind.MIGRATION, of)


def kraft(content: str, of: Wanted) -> Rendered:
    return render("broker", parse_properties(content.encode(), "server.properties"), FileKind.KRAFT, of)


def refused(rendered: Rendered) -> list[tuple[str, str]]:
    """Code and key."""
    return [
        (each.code, str(each.values.get("key")))
        for each in rendered.findings
        if each.finding.severity.value == "blocks"
    ]


def warned(rendered: Rendered) -> list[tuple[str, str]]:
    return [
        (each.code, str(each.values.get("key"))) for each in rendered.findings if each.finding.severity.value == "warns"
    ]


@pytest.mark.parametrize(
    ("content", "of", "key"),
    [
        (OTHER_PROTOCOL, wanted(), "listener.security.protocol.map"),
        (OTHER_PROTOCOL.replace("CONTROLLER:SSL", "controller : ssl"), wanted(), "listener.security.protocol.map"),
        (
            PLAIN.replace("PLAINTEXT:PLAINTEXT", "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT"),
            wanted("SSL"),
            "listener.sec",
        ),
        (OTHER_PROTOCOL.replace("CONTROLLER:SSL", "CONTROLLER:TLS"), wanted(), "listener.security.protocol.map"),
        (
            OTHER_PROTOCOL.replace("CONTROLLER", "SSL"),
            wanted("PLAINTEXT", listener="SSL"),
            "listener.security.protocol",
        ),
        (PLAIN.replace("listener.security", "#"), wanted("PLAINTEXT", listener="SSL"), "listener.security.protocol"),
        (
            PLAIN + "sasl.mechanism.controller.protocol=GSSAPI\n",
            wanted("SASL_SSL", "PLAIN"),
            "sasl.mechanism.controller",
        ),
        (
            PLAIN + "sasl.mechanism.controller.protocol=plain\n",
            wanted("SASL_SSL", "PLAIN"),
            "sasl.mechanism.controller",
        ),
        (ID_ABOVE, wanted(), "reserved.broker.max.id"),
        (ID_ABOVE + "broker.id.generation.enable=TRUE\n", wanted(), "reserved.broker.max.id"),
        (
            PLAIN.replace("broker.id=1", "broker.id=11") + "reserved.broker.max.id=10\n",
            wanted(),
            "reserved.broker.max.id",
        ),
        (
            PLAIN.replace("broker.id=1", "node.id=1001"),
            wanted(),
            "reserved.broker.max.id",
        ),
    ],
)
def test_a_broker_that_would_not_start_or_not_find_the_controllers_gets_no_migration_file(
    content: str, of: Wanted, key: str
) -> None:
    found = refused(migration(content, of))
    assert any(code == "Z2K-7032" and named.startswith(key) for code, named in found), found


@pytest.mark.parametrize(
    ("content", "of"),
    [
        (PLAIN, wanted()),
        (OTHER_PROTOCOL, wanted("SSL")),
        (OTHER_PROTOCOL.replace("CONTROLLER:SSL", "controller:Ssl"), wanted("SSL")),
        (PLAIN + "sasl.mechanism.controller.protocol=GSSAPI\n", wanted("SSL", "PLAIN")),
        (PLAIN + LOGIN + "sasl.mechanism.controller.protocol=PLAIN\n", wanted("SASL_SSL", "PLAIN")),
        (PLAIN + LOGIN, wanted("SASL_SSL", "PLAIN")),
        (ID_ABOVE + "broker.id.generation.enable=false\n", wanted()),
        (ID_ABOVE + "broker.id.generation.enable = False \n", wanted()),
        (ID_ABOVE + "reserved.broker.max.id=1001\n", wanted()),
        (PLAIN.replace("broker.id=1", "broker.id=1000"), wanted()),
        (PLAIN.replace("/srv/k", "/srv/a,/srv/b"), wanted()),
    ],
)
def test_a_broker_that_starts_and_finds_the_controllers_gets_its_file_without_a_word(content: str, of: Wanted) -> None:
    rendered = migration(content, of)
    assert (refused(rendered), warned(rendered)) == ([], [])


def test_several_directories_below_their_level_are_refused_before_the_first_broker_is_restarted() -> None:
    content = PLAIN.replace("/srv/k", "/srv/a,/srv/b").replace("version=3.9", "version=3.6")
    assert ("Z2K-1050", "log.dirs") in refused(migration(content, wanted(level="3.6")))
    assert ("Z2K-7032", "inter.broker.protocol.version") in refused(migration(content, wanted()))


def test_without_the_value_of_a_config_provider_nobody_says_that_it_fits() -> None:
    for line, of in (
        ("listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:${file:/etc/kafka/v:p}\n", wanted()),
        ("listener.security.protocol.map=${file:/etc/kafka/v:map}\n", wanted()),
        ("sasl.mechanism.controller.protocol=${file:/etc/kafka/v:m}\n" + LOGIN, wanted("SASL_SSL", "PLAIN")),
    ):
        rendered = migration(PLAIN + line, of)
        assert refused(rendered) == []
        assert ("Z2K-7033", line.partition("=")[0]) in warned(rendered)


@pytest.mark.parametrize(
    ("content", "of", "missing"),
    [
        (NO_LOGIN, wanted("SASL_PLAINTEXT", "PLAIN"), "listener.name.controller.plain.sasl.jaas.config"),
        (NO_LOGIN, wanted("SASL_SSL", "SCRAM-SHA-512", listener="Quorum"), "listener.name.quorum.scram-sha-512.sasl"),
        (NO_LOGIN + LOGIN, wanted("SASL_SSL", "SCRAM-SHA-256"), "listener.name.controller.scram-sha-256.sasl.jaas"),
        (NO_LOGIN + LOGIN.replace("controller", "CONTROLLER"), wanted("SASL_SSL", "PLAIN"), "listener.name.controller"),
        (
            NO_LOGIN + "plain.sasl.jaas.config=x;\nsasl.jaas.config=x;\n",
            wanted("SASL_SSL", "PLAIN"),
            "listener.name.con",
        ),
        (NO_LOGIN + LOGIN.partition("=")[0] + "=\n", wanted("SASL_SSL", "PLAIN"), "listener.name.controller.plain"),
    ],
)
def test_a_broker_that_keeps_its_logins_in_its_file_needs_one_for_the_controllers(
    content: str, of: Wanted, missing: str
) -> None:
    """Seen on 3.9.2: the broker ends at its start; Kafka's parser accepts the file."""
    ((code, key),) = refused(
        migration(content.replace("zookeeper.connect=127.0.0.1:31001", "zookeeper.connect=z:1"), of)
    )
    assert code == "Z2K-7051"
    assert key.startswith(missing)


def test_where_no_login_is_in_the_file_the_java_process_has_to_have_one_and_it_is_said() -> None:
    own = "".join(line + "\n" for line in NO_LOGIN.splitlines() if "jaas" not in line)
    rendered = migration(own, wanted("SASL_PLAINTEXT", "PLAIN"))
    assert not rendered.blocked
    assert ("Z2K-7033", "listener.name.controller.plain.sasl.jaas.config") in warned(rendered)
    assert not warned(migration(NO_LOGIN + LOGIN, wanted("SASL_PLAINTEXT", "PLAIN")))


@pytest.mark.parametrize(
    ("content", "listener"),
    [
        (CONTROL_PLANE, "CONTROLLER"),
        (CONTROL_PLANE.replace("CONTROLLER://", "controller://"), "CONTROLLER"),
        (CONTROL_PLANE.replace("CONTROLLER:PLAINTEXT", "CONTROLLER:SSL"), "CONTROLLER"),
        (CONTROL_PLANE.replace("CONTROLLER", "PLANE"), "Plane"),
        (CONTROL_PLANE.replace("control.plane.listener.name=CONTROLLER\n", ""), "CONTROLLER"),
        (PLAIN, "PLAINTEXT"),
        ("".join(f"{line}\n" for line in PLAIN.splitlines() if not line.startswith("listeners")), "PLAINTEXT"),
    ],
)
def test_a_broker_that_listens_under_the_quorums_name_is_refused_before_its_migration_file(
    content: str, listener: str
) -> None:
    """With the migration file it would work; its KRaft file is refused, when a rename costs a restart of every node."""
    for rendered in (migration(content, wanted(listener=listener)), kraft(content, wanted(listener=listener))):
        assert ("Z2K-7032", "listeners") in refused(rendered)
        assert "quorum.listener" in "".join(each.text for each in rendered.findings)


def test_with_another_name_for_the_quorum_a_control_plane_listener_of_any_name_goes_all_the_way() -> None:
    for name in ("CONTROLLER", "CP", "Replication"):
        of = wanted(listener="QUORUM")
        before = migration(CONTROL_PLANE.replace("CONTROLLER", name), of).require().document
        assert before.value("control.plane.listener.name") == name
        after = render("broker", before, FileKind.KRAFT, of).require().document
        assert after.value("control.plane.listener.name") is None
        assert after.value("controller.listener.names") == "QUORUM"
        assert f"{name}://:29093" in (after.value("listeners") or "")


@pytest.mark.parametrize("line", ["node.id=1", "node.id = 1", "node.id=1\nbroker.id=1"])
def test_a_file_with_node_id_alone_goes_into_kraft_mode_and_comes_back_as_it_was(line: str) -> None:
    """Case node-id-only: to Kafka both keys are the id."""
    of = replace(wanted(), node=1)
    original = parse_properties(PLAIN.replace("broker.id=1", line).encode(), "server.properties")
    forward = render("broker", original, FileKind.MIGRATION, of)
    joined = forward.document
    into = render("broker", joined, FileKind.KRAFT, of)
    back = render("broker", into.document, FileKind.BACK, of, joined)
    last = render("broker", back.document, FileKind.ORIGINAL, of, original)
    assert [refused(each) for each in (forward, into, back, last)] == [[], [], [], []]
    assert into.document.value("node.id") == "1"
    assert (back.content, last.content) == (joined.content, original.content)


def test_a_file_without_an_id_is_told_to_say_the_one_of_the_inventory() -> None:
    """As of a broker whose id comes by `--override`; nothing is generated there."""
    nameless = PLAIN.replace("broker.id=1\n", "")
    (found,) = (each for each in migration(nameless, replace(wanted(), node=1)).findings if each.code == "Z2K-7032")
    assert "the inventory says 1: write broker.id=1" in found.text
    (found,) = (each for each in migration(nameless, wanted()).findings if each.code == "Z2K-7032")
    assert "the inventory does not say it" in found.text
