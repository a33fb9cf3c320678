"""A value is shown when its key is known to be harmless, and never because of how the key begins."""

from __future__ import annotations

import pytest

from migrator.fleet.properties_file import parse_properties
from migrator.fleet.render import FileKind, Wanted, render
from migrator.model.hidden_keys import SECRET_WORDS, SHOWN, is_hidden, is_hidden_comment

SECRET = "hunter2"


@pytest.mark.parametrize(
    "key",
    [
        "authorizer.ldap.bind.pwd",
        "authorizer.ranger.token",
        "listener.name.client.ssl.key.passphrase",
        "listener.name.client.scram-sha-512.sasl.jaas.config",
        "listener.name.my.plugin.auth",
        "ssl.keystore.key",
        "ssl.key.password",
        "sasl.oauthbearer.token.endpoint.url",
        "log.shipper.api.key",
        "zookeeper.digest.auth",
        "zk2kraft.control.remote.token",
        "broker.license",
        "",
    ],
)
def test_a_key_that_nobody_knows_is_hidden(key: str) -> None:
    assert is_hidden(key)


@pytest.mark.parametrize(
    "key",
    [
        "broker.id",
        "log.dirs",
        "log.retention.hours",
        "listeners",
        "min.insync.replicas",
        "listener.name.client.sasl.enabled.mechanisms",
        "ssl.keystore.location",
        "zookeeper.connect",
        "zookeeper.metadata.migration.enable",
        "zk2kraft.gates",
        "transaction.state.log.replication.factor",
    ],
)
def test_a_key_that_is_known_to_be_harmless_is_shown(key: str) -> None:
    assert not is_hidden(key)


def test_no_name_of_the_list_names_a_secret() -> None:
    kept = {
        "password.encoder." + end for end in ("cipher.algorithm", "iterations", "key.length", "keyfactory.algorithm")
    }
    assert [each for each in SHOWN - kept if any(word in each for word in (*SECRET_WORDS, "passphrase"))] == []
    assert [each for each in SHOWN if each.endswith((".", "*", "url"))] == []


@pytest.mark.parametrize(
    ("text", "hidden"),
    [
        ("# kept by hand", False),
        ("#log.retention.hours=24", False),
        ("#authorizer.ldap.bind.pwd=x", True),
        ("! authorizer.ranger.token : x", True),
        ("# the old pwd was x", True),
        ("# see the vault for the passphrase", True),
    ],
)
def test_a_comment_may_be_a_setting_of_before(text: str, hidden: bool) -> None:
    assert is_hidden_comment(text) is hidden


def test_the_difference_of_two_files_shows_no_line_around_it_that_may_be_a_secret() -> None:
    """New keys are added at the end, so the last lines of a file are around them in each difference."""
    file = (
        "node.id=3000\nprocess.roles=controller\ncontroller.quorum.voters=3000@h:1\nzookeeper.connect=zk/kafka\n"
        f"authorizer.ldap.bind.pwd={SECRET}\nlistener.name.client.ssl.key.passphrase={SECRET}\n"
        f"# authorizer.ranger.token={SECRET}\n"
    )
    rendered = render("controller", parse_properties(file.encode(), "c.properties"), FileKind.STOCK, Wanted())
    shown = "\n".join(rendered.diff())
    assert "+zookeeper.metadata.migration.enable=true" in shown
    assert "authorizer.ldap.bind.pwd=(hidden)" in shown
    assert SECRET not in shown
