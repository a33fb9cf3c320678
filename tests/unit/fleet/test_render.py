"""From a node's present file the next one; what a rule does not name stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from migrator.findings.finding import FindingError
from migrator.fleet.properties_file import Document, parse_properties
from migrator.fleet.render import FLAG, RULES, STANDARD_AUTHORIZER, Action, FileKind, Rendered, Wanted, render

BROKER: Final = b"""# broker 1 of the orders cluster
broker.id=1
listeners=PLAINTEXT://:9092
control.plane.listener.name=CP
log.dirs=/data/a,/data/b
zookeeper.connect=zk1:2181/kafka
zookeeper.ssl.client.enable=true
inter.broker.protocol.version=3.9

# who may do what
authorizer.class.name=kafka.security.authorizer.AclAuthorizer
authorizer.zookeeper.url=zk9:2181
super.users=User:admin
broker.id.generation.enable=true
password.encoder.secret=${file:/etc/kafka/secrets:encoder}
my.plugin.setting : \\
    spread over lines
"""
OURS: Final = b"""process.roles=controller
node.id=3000
controller.quorum.voters=3000@c1:9093
controller.listener.names=CONTROLLER
listeners=CONTROLLER://:9093
zookeeper.connect=zk1:2181/kafka
zookeeper.metadata.migration.enable=true
zk2kraft.gates=pause
zk2kraft.takeover.max.ms=9000
log.dirs=/var/lib/controller
"""
WANTED: Final = Wanted(
    voters="3000@c1:9093,3001@c2:9093,3002@c3:9093",
    controller_listener="CONTROLLER",
    zookeeper="zk1:2181/kafka",
    metadata_version="3.9",
    super_users=("User:controller", "User:broker"),
    node=1,
)
OF_CONTROLLER: Final = Wanted(node=3000)


def a_file(content: bytes) -> Document:
    return parse_properties(content, "server.properties")


def codes(rendered: Rendered) -> set[str]:
    return {each.code for each in rendered.findings}


def migration(content: bytes = BROKER, wanted: Wanted = WANTED) -> Rendered:
    return render("broker", a_file(content), FileKind.MIGRATION, wanted)


def kraft(content: bytes, wanted: Wanted = WANTED) -> Rendered:
    return render("broker", a_file(content), FileKind.KRAFT, wanted)


def test_the_migration_file_adds_the_quorum_and_keeps_the_rest() -> None:
    rendered = migration().require()
    values = rendered.document.values
    assert values[FLAG] == "true"
    assert values["controller.quorum.voters"] == WANTED.voters
    assert values["listener.security.protocol.map"].endswith(",CONTROLLER:PLAINTEXT")
    assert values["listener.security.protocol.map"].startswith("PLAINTEXT:PLAINTEXT,")
    assert values["super.users"] == "User:admin;User:controller;User:broker"
    assert values["control.plane.listener.name"] == "CP"
    assert rendered.content.startswith(BROKER[: BROKER.index(b"super.users")])


def test_the_kraft_file_has_no_key_of_zookeeper_and_keeps_id_comments_and_order() -> None:
    rendered = kraft(migration().content).require()
    values = rendered.document.values
    assert not any(key.startswith(("zookeeper.", "authorizer.zookeeper.")) for key in values)
    assert not {"inter.broker.protocol.version", "control.plane.listener.name", "broker.id"} & values.keys()
    assert (values["process.roles"], values["node.id"]) == ("broker", "1")
    assert values["authorizer.class.name"] == STANDARD_AUTHORIZER
    assert rendered.content.startswith(
        b"# broker 1 of the orders cluster\nnode.id=1\nlisteners=PLAINTEXT://:9092\nlog."
    )
    assert b"my.plugin.setting : \\\n    spread over lines\n" in rendered.content
    assert values["password.encoder.secret"] == "${file:/etc/kafka/secrets:encoder}"


def test_placeholders_of_config_providers_stay_as_they_are_in_every_file() -> None:
    """Secrets stay where they are: what is rendered holds their places only, also of keys that rules are about."""
    providers = (
        b"config.providers=file\nconfig.providers.file.class=org.apache.kafka.common.config.provider.FileConfigProvider\n"
        b"ssl.keystore.password=${file:/etc/kafka/secrets:ssl}\nssl.key.password : ${env:KEY}\n"
    )
    before = migration(BROKER + providers).require()
    forward = kraft(before.content).require()
    back = render("broker", forward.document, FileKind.BACK, WANTED, before.document).require()
    stock = render("controller", a_file(OURS + providers), FileKind.STOCK, OF_CONTROLLER).require()
    finalized = render("controller", stock.document, FileKind.FINALIZED, OF_CONTROLLER).require()
    for each in (before, forward, back, stock, finalized):
        assert providers in each.content


def test_a_config_provider_with_a_helper_stays_and_its_key_goes_where_all_of_our_keys_go() -> None:
    """Only a stock controller's file loses it. Brokers' files keep it as any key that no rule names."""
    provider = (
        b"config.providers=vault\nconfig.providers.vault.class=com.example.VaultConfigProvider\n"
        b"config.providers.vault.param.addr=https://vault:8200\n"
    )
    ours = b"zk2kraft.config.providers.vault.exec=/usr/local/bin/kafka-vault\nzk2kraft.gates=pause\n"
    placeholder = b"ssl.keystore.password : ${vault:secret/kafka:ssl}\n"
    extra = provider + ours + placeholder
    before = migration(BROKER + extra).require()
    forward = kraft(before.content).require()
    back = render("broker", forward.document, FileKind.BACK, WANTED, before.document).require()
    original = render("broker", before.document, FileKind.ORIGINAL, WANTED, a_file(BROKER + extra)).require()
    for each in (before, forward, back, original):
        assert extra in each.content
    controller = a_file(OURS.replace(b"zk2kraft.gates=pause\n", b"") + extra)
    stock = render("controller", controller, FileKind.STOCK, OF_CONTROLLER).require()
    finalized = render("controller", stock.document, FileKind.FINALIZED, OF_CONTROLLER).require()
    for each in (stock, finalized):
        assert provider + placeholder in each.content
        assert b"zk2kraft." not in each.content
    assert render("controller", stock.document, FileKind.BACK, OF_CONTROLLER, controller).content == controller.content


def test_the_way_back_is_the_migration_file_with_what_somebody_changed_since() -> None:
    before = migration().document
    forward = kraft(before.content)
    back = render("broker", forward.document, FileKind.BACK, WANTED, before)
    assert back.require().content == before.content
    changed = forward.document.with_values({"num.io.threads": "16"})
    back = render("broker", changed, FileKind.BACK, WANTED, before)
    assert back.document.value("num.io.threads") == "16"
    assert back.document.value(FLAG) == "true"
    assert render("broker", back.document, FileKind.BACK, WANTED, before).content == back.content


def is_key(name: str) -> Callable[[str], bool]:
    return lambda key: key == name


@pytest.mark.parametrize("in_kraft_mode", [True, False])
def test_a_key_that_is_missing_is_never_taken_for_a_wish_to_remove_it(in_kraft_mode: bool) -> None:
    """A file that was cut, or that a tool wrote for another kind of node, lacks keys that nobody wants to lose."""
    before = migration().document
    there = kraft(before.content).document if in_kraft_mode else before
    for lost in {*there.values} - {"process.roles"}:
        present = there.with_values({"num.io.threads": "16"}).without(is_key(lost))
        back = render("broker", present, FileKind.BACK, WANTED, before).document
        assert back.values == before.with_values({"num.io.threads": "16"} if lost != "num.io.threads" else {}).values
    original = migration().present
    cut = render("broker", before.without(lambda key: key == "log.dirs"), FileKind.ORIGINAL, WANTED, original).document
    assert cut.values == original.values
    controller = a_file(OURS)
    stock = render("controller", controller, FileKind.STOCK, OF_CONTROLLER).document
    for lost in stock.values:
        present = stock.without(is_key(lost))
        ours = render("controller", present, FileKind.BACK, OF_CONTROLLER, controller)
        assert ours.document.values == controller.values


def test_a_key_that_the_migration_and_somebody_else_changed_blocks_with_all_values() -> None:
    before = migration().document.with_values({"inter.broker.protocol.version": "3.9", "zookeeper.ssl.secret": "one"})
    there = kraft(before.content).document
    assert render("broker", there, FileKind.BACK, WANTED, before).require().document.values == before.values
    changed = there.with_values({"inter.broker.protocol.version": "3.8", "zookeeper.ssl.secret": "two"})
    back = render("broker", changed, FileKind.BACK, WANTED, before)
    version, secret = [each for each in back.findings if each.code == "Z2K-7045"]
    assert "was 3.9 before the migration, absent was written, and 3.8 is there now" in version.text
    assert "was (hidden) before" in secret.text
    assert "two" not in secret.text
    with pytest.raises(FindingError):
        back.require()


def test_the_way_back_without_the_predecessor_starts_in_zookeeper_mode_and_warns() -> None:
    back = render("broker", kraft(migration().content).document, FileKind.BACK, WANTED)
    assert codes(back) == {"Z2K-7033"}
    values = back.require().document.values
    assert (values["broker.id"], values["zookeeper.connect"], values[FLAG]) == ("1", "zk1:2181/kafka", "true")
    assert "process.roles" not in values
    assert values["authorizer.class.name"].endswith("AclAuthorizer")


def test_a_stock_controller_keeps_the_flag_until_the_end_and_has_none_of_our_keys() -> None:
    stock = render("controller", a_file(OURS), FileKind.STOCK, OF_CONTROLLER).require()
    assert stock.document.value(FLAG) == "true"
    assert not any(key.startswith("zk2kraft.") for key in stock.document.values)
    spoiled = a_file(OURS.replace(b"enable=true", b"enable=false"))
    assert render("controller", spoiled, FileKind.STOCK, OF_CONTROLLER).document.value(FLAG) == "true"
    finalized = render("controller", stock.document, FileKind.FINALIZED, OF_CONTROLLER).require()
    assert not any(key.startswith("zookeeper.") for key in finalized.document.values)
    back = render("controller", stock.document, FileKind.BACK, OF_CONTROLLER, a_file(OURS)).require()
    assert back.content == OURS


def test_stock_needs_the_secret_of_the_encoded_passwords() -> None:
    wanted = Wanted(node=3000, passwords_encoded=True)
    assert codes(render("controller", a_file(OURS), FileKind.STOCK, wanted)) == {"Z2K-7032"}
    with_secret = a_file(OURS + b"password.encoder.secret=s3cret\n")
    assert not render("controller", with_secret, FileKind.STOCK, wanted).findings


@pytest.mark.parametrize(
    ("present", "expected"),
    [
        (b"internal:PLAINTEXT,controller:SASL_SSL", "internal:PLAINTEXT,controller:SASL_SSL"),
        (b"INTERNAL:PLAINTEXT, Controller : SASL_SSL,", "INTERNAL:PLAINTEXT, Controller : SASL_SSL,"),
        (b"internal:PLAINTEXT,CONTROLER:SASL_SSL", "internal:PLAINTEXT,CONTROLER:SASL_SSL,CONTROLLER:PLAINTEXT"),
        (b"internal:${file:/etc/kafka:p}", "internal:${file:/etc/kafka:p},CONTROLLER:PLAINTEXT"),
    ],
)
@pytest.mark.parametrize("listener", ["CONTROLLER", "controller"])
def test_a_map_that_has_the_controllers_in_another_case_gets_no_second_entry(
    present: bytes, expected: str, listener: str
) -> None:
    """A second one with another protocol would be one of two by chance."""
    content = BROKER + b"listener.security.protocol.map=" + present + b"\n"
    values = migration(content, replace(WANTED, controller_listener=listener)).document.values
    assert values["listener.security.protocol.map"] == expected
    assert values["controller.listener.names"] == "CONTROLLER"


def test_a_kraft_broker_that_listens_as_controllers_do_is_refused_in_any_case() -> None:
    content = BROKER.replace(b"PLAINTEXT://:9092", b"controller://:1,P://:2")
    assert "Z2K-7032" in codes(kraft(content))


@pytest.mark.parametrize("kind", [FileKind.STOCK, FileKind.FINALIZED])
@pytest.mark.parametrize(
    ("more", "blocked"),
    [
        (b"sasl.enabled.mechanisms=PLAIN\n", True),
        (b"sasl.enabled.mechanisms=PLAIN, SCRAM-SHA-512\n", False),
        (b"sasl.enabled.mechanisms=PLAIN\nlistener.name.inside.sasl.enabled.mechanisms=SCRAM-SHA-512\n", False),
        (b"sasl.enabled.mechanisms=${file:/etc/kafka/values:enabled}\n", False),
    ],
)
def test_stock_needs_the_mechanism_between_brokers_among_the_enabled_ones(
    kind: FileKind, more: bytes, blocked: bool
) -> None:
    """A controller of ours takes it without; stock ends at its start, when ours is stopped already."""
    login = b"inter.broker.listener.name=Inside\nlistener.security.protocol.map=CONTROLLER:SASL_SSL,inside : sasl_ssl\n"
    login += b"sasl.mechanism.inter.broker.protocol=SCRAM-SHA-512\n"
    rendered = render("controller", a_file(OURS + login + more), kind, OF_CONTROLLER)
    assert rendered.blocked == blocked
    assert codes(rendered) == ({"Z2K-7032"} if blocked else set())


@pytest.mark.parametrize(
    ("content", "kind", "wanted", "key"),
    [
        (BROKER.replace(b"broker.id=1\n", b""), FileKind.MIGRATION, WANTED, "broker.id"),
        (BROKER.replace(b"broker.id=1\n", b"broker.id=-1\n"), FileKind.MIGRATION, Wanted(voters="1@a:1"), "broker.id"),
        (BROKER.replace(b"broker.id=1\n", b"broker.id=2\n"), FileKind.MIGRATION, WANTED, "broker.id"),
        (BROKER + b"node.id=7\n", FileKind.KRAFT, WANTED, "node.id"),
        (BROKER, FileKind.MIGRATION, Wanted(metadata_version="3.9"), "controller.quorum.voters"),
        (
            BROKER.replace(b"version=3.9", b"version=3.7-IV2"),
            FileKind.MIGRATION,
            WANTED,
            "inter.broker.protocol.version",
        ),
        (BROKER.replace(b"inter.broker.protocol.version=3.9", b""), FileKind.MIGRATION, Wanted(), "inter.broker"),
        (BROKER + b"process.roles=broker\n", FileKind.MIGRATION, WANTED, "process.roles"),
        (BROKER + b"process.roles=broker,controller\n", FileKind.KRAFT, WANTED, "process.roles"),
        (BROKER.replace(b"PLAINTEXT://:9092", b"CONTROLLER://:1,P://:2"), FileKind.KRAFT, WANTED, "listeners"),
        (BROKER, FileKind.KRAFT, Wanted(voters="1@c1:9093", controller_listener="C"), "controller.quorum.voters"),
    ],
)
def test_a_file_that_would_not_start_as_wanted_is_refused_by_its_key(
    content: bytes, kind: FileKind, wanted: Wanted, key: str
) -> None:
    rendered = render("broker", a_file(content), kind, wanted)
    refused = [each for each in rendered.findings if each.code == "Z2K-7032"]
    assert any(each.values["key"].startswith(key) for each in refused)
    with pytest.raises(FindingError):
        rendered.require()


@pytest.mark.parametrize("directory", ["/data/a", "/data/a/", "/data", "/data/a/../a"])
def test_a_broker_never_shares_its_metadata_directory_with_a_controller(directory: str) -> None:
    shared = Wanted(voters="3000@c:1", controller_listener="C", controllers={3000: (directory,)})
    assert "Z2K-7034" in codes(kraft(BROKER, shared))
    apart = Wanted(voters="3000@c:1", controller_listener="C", controllers={3000: ("/data/ab", "/var/lib/c")})
    assert "Z2K-7034" not in codes(kraft(BROKER, apart))


def test_an_authorizer_of_somebody_else_is_kept_and_named() -> None:
    other = BROKER.replace(b"kafka.security.authorizer.AclAuthorizer", b"com.example.Ranger")
    rendered = kraft(other)
    assert rendered.document.value("authorizer.class.name") == "com.example.Ranger"
    assert codes(rendered) == {"Z2K-7033"}
    assert not rendered.blocked


def test_a_key_that_occurs_twice_is_named_and_the_last_one_counts() -> None:
    assert codes(migration(BROKER + b"num.io.threads=1\nnum.io.threads=2\n")) == {"Z2K-7031"}


def test_the_difference_shows_keys_and_no_secret() -> None:
    secret = BROKER + b"ssl.keystore.password=hunter2\nzookeeper.ssl.keystore.password=hunter2\n"
    text = "\n".join(kraft(secret).diff())
    assert "hunter2" not in text
    assert "-zookeeper.connect=zk1:2181/kafka" in text
    assert "+process.roles=broker" in text
    assert "hunter2" not in repr(kraft(secret))


def test_every_rule_has_its_reason_and_version() -> None:
    for rules in RULES.values():
        for rule in rules:
            assert rule.reason
            assert rule.since.startswith("3.")
            assert rule.value or rule.action in (Action.REMOVE, Action.KEEP, Action.NEED)


LINES: Final = st.lists(
    st.sampled_from(
        [
            "# a comment\n", "\n", "my.key=1\n", "other : a\\\n   b\n", "zookeeper.connect=zk:2181\n", "broker.id=1\n",
            "num.io.threads 8\n", "super.users=User:a\n", f"authorizer.class.name={STANDARD_AUTHORIZER}\n",
            "authorizer.class.name=kafka.security.authorizer.AclAuthorizer\n", "process.roles=broker\n", "node.id=1\n",
            "inter.broker.protocol.version=3.9\n", "zookeeper.set.acl=true\r\n", "zk2kraft.gates=pause\n",
            "controller.listener.names=CONTROLLER\n", "listener.security.protocol.map=A:SSL\n", "my.key=2\n",
            "password.encoder.secret=x\n", "control.plane.listener.name=CP\n", "! odd\n", "last=1",
        ]
    ),
    max_size=14,
)  # fmt: skip


@pytest.mark.parametrize(("role", "kind"), RULES)
@given(lines=LINES)
def test_rendering_twice_is_rendering_once_and_what_no_rule_names_stays_in_order(
    role: str, kind: FileKind, lines: list[str]
) -> None:
    present = a_file("".join(lines).encode())
    once = render(role, present, kind, WANTED)
    assert render(role, once.document, kind, WANTED).content == once.content

    def unnamed(document: Document) -> list[str]:
        new = {rule.value for rule in RULES[role, kind] if rule.action is Action.RENAME}
        return [
            line.source.rstrip("\r\n")
            for line in document.lines
            if line.key is None or not (line.key in new or any(rule.is_about(line.key) for rule in RULES[role, kind]))
        ]

    assert unnamed(once.document) == unnamed(present)


@given(lines=LINES, later=st.dictionaries(st.sampled_from(["my.key", "num.io.threads", "new.key"]), st.just("9")))
def test_there_and_back_is_the_file_as_it_was_with_later_changes(lines: list[str], later: dict[str, str]) -> None:
    own = [line for line in lines if not line.startswith(("process.roles", "node.id"))]
    text = "zookeeper.connect=zk:2181\n" + "".join(own)
    before = render("broker", a_file(text.encode()), FileKind.MIGRATION, WANTED).document
    there = render("broker", before, FileKind.KRAFT, WANTED).document.with_values(later)
    back = render("broker", there, FileKind.BACK, WANTED, before).document
    assert back.values == before.with_values(later).values
    if not later:
        assert back.content == before.content


def test_the_original_file_is_what_the_migration_file_was_made_of_with_later_changes() -> None:
    before = migration().present
    there = migration().document
    assert render("broker", there, FileKind.ORIGINAL, WANTED, before).require().content == before.content
    changed = there.with_values({"num.io.threads": "9", FLAG: "false"})
    again = render("broker", changed, FileKind.ORIGINAL, WANTED, before).require().document
    assert again.value("num.io.threads") == "9"
    assert again.value(FLAG) == before.value(FLAG)
    assert again.value("controller.quorum.voters") == before.value("controller.quorum.voters")
    assert render("broker", before, FileKind.ORIGINAL, WANTED, before).require().content == before.content
    with pytest.raises(FindingError):
        render("broker", there, FileKind.ORIGINAL, WANTED).require()


# --- what the takeover gate would refuse ------------------------------------------------------------------

FORBIDDEN: Final = {
    "authorizer.class.name=org.apache.ranger.authorization.kafka.authorizer.RangerKafkaAuthorizer": "keeps its ACLs",
    "authorizer.class.name=org.openpolicyagent.kafka.OpaAuthorizer": "keeps its ACLs",
    "authorizer.class.name : com.example.Own": "keeps its ACLs",
    "create.topic.policy.class.name=com.example.Policy": "no policy class",
    "alter.config.policy.class.name=com.example.Policy": "no policy class",
    "principal.builder.class=com.example.Principals": "Kafka's own builder",
    "listener.name.internal.principal.builder.class=com.example.Principals": "Kafka's own builder",
    "zookeeper.connect=zk1:2181/another": "the chroot /kafka",
}


@pytest.mark.parametrize("line", FORBIDDEN)
def test_a_migration_file_is_refused_for_what_the_takeover_gate_would_refuse(line: str) -> None:
    rendered = render("broker", a_file(BROKER + line.encode() + b"\n"), FileKind.MIGRATION, WANTED)
    (found,) = (each for each in rendered.findings if each.code == "Z2K-1050")
    assert rendered.blocked
    assert FORBIDDEN[line] in found.text
    assert (found.values["broker"], found.values["key"]) == (1, line.replace(":", "=").partition("=")[0].strip())


@pytest.mark.parametrize(
    "line",
    [
        "authorizer.class.name=",
        "principal.builder.class=org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        "#create.topic.policy.class.name=com.example.Policy",
        "zookeeper.connect=zk2:2181/kafka/",
        "delegation.token.secret.key=hunter2",
    ],
)
def test_what_the_gate_does_not_refuse_for_itself_alone_is_rendered(line: str) -> None:
    rendered = render("broker", a_file(BROKER + line.encode() + b"\n"), FileKind.MIGRATION, WANTED)
    assert "Z2K-1050" not in codes(rendered)


def test_at_a_level_without_directories_or_tokens_a_migration_file_is_refused_for_them() -> None:
    older = BROKER.replace(b"protocol.version=3.9", b"protocol.version=3.5")
    file = a_file(older + b"delegation.token.secret.key=hunter2\n")
    rendered = render("broker", file, FileKind.MIGRATION, replace(WANTED, metadata_version="3.5"))
    found = [each for each in rendered.findings if each.code == "Z2K-1050"]
    assert [each.values["key"] for each in found] == ["delegation.token.secret.key", "log.dirs"]
    assert "hunter2" not in " ".join(each.text for each in found)


def test_a_class_that_a_config_provider_names_is_left_to_the_gate_and_said() -> None:
    file = a_file(BROKER + b"create.topic.policy.class.name=${file:/etc/kafka/policy:class}\n")
    rendered = render("broker", file, FileKind.MIGRATION, WANTED)
    assert not rendered.blocked
    (said,) = (each for each in rendered.findings if each.values.get("key") == "create.topic.policy.class.name")
    assert (said.code, "config provider" in said.text) == ("Z2K-7033", True)


def test_the_file_of_a_broker_that_goes_back_is_not_judged_again() -> None:
    """It has been through the takeover, and the way back stays open."""
    kraft = b"process.roles=broker\nnode.id=1\nprincipal.builder.class=com.example.Principals\n"
    rendered = render("broker", a_file(kraft), FileKind.BACK, WANTED, a_file(BROKER))
    assert "Z2K-1050" not in codes(rendered)


def test_addresses_of_dynamic_voters_do_not_stand_in_for_the_voters_line() -> None:
    """kraft.version is 0: a broker of 3.9, 4.0 and 4.4 with that key alone followed, and never registered."""
    servers = b"controller.quorum.bootstrap.servers=c1:9093\n"
    without = Wanted(controller_listener="CONTROLLER", metadata_version="3.9")
    (refused,) = [each for each in migration(BROKER + servers, without).findings if each.code == "Z2K-7032"]
    assert refused.values["key"] == "controller.quorum.voters"
    assert migration(BROKER + servers).require().document.value("controller.quorum.voters") == WANTED.voters


def test_the_key_of_tokens_gets_the_name_that_later_releases_know_and_keeps_it_on_the_way_back() -> None:
    """Kafka 3.9 takes both, and the new one first; 4.0 knows nothing of the old one, and tokens would be off."""
    before = migration(BROKER + b"delegation.token.master.key=${file:/etc/kafka/secrets:token}\n").require()
    forward = kraft(before.content).require()
    assert b"delegation.token.secret.key=${file:/etc/kafka/secrets:token}\n" in forward.content
    assert b"master.key" not in forward.content
    both = kraft(before.content + b"delegation.token.secret.key=new\n").require()
    assert both.document.value("delegation.token.secret.key") == "new"
    assert b"master.key" not in both.content
    back = render("broker", forward.document, FileKind.BACK, WANTED, before.document).require()
    assert (
        "delegation.token.secret.key" in back.document.values or "delegation.token.master.key" in back.document.values
    )
