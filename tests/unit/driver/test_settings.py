"""Settings of brokers and controllers that do not go together, each alone, and in the gate."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from migrator.driver.checks.settings import (
    ACL_AUTHORIZER,
    DEFAULT_PRINCIPALS,
    HIDDEN,
    REQUEST_MAX_BYTES,
    ControllerFileSettings,
    broker_findings,
    controller_findings,
    needed_limit,
    request_limit_finding,
)
from migrator.driver.gate import takeover_verdict
from migrator.model.values import DelegationToken
from tests.unit.driver.test_gate import the_evidence

OURS = ControllerFileSettings(file="c.properties", chroot="/kafka", authorizer=True, token_key=True)
FITTING = {
    "zookeeper.connect": "zk1:2181,zk2:2181/kafka",
    "zookeeper.set.acl": "false",
    "delegation.token.secret.key": HIDDEN,
    "principal.builder.class": DEFAULT_PRINCIPALS,
}


def codes(settings: dict[str, str], ours: ControllerFileSettings = OURS) -> list[tuple[str, str]]:
    found = list(broker_findings(4, {**FITTING, **settings}, ours))
    assert all(each.values["broker"] == 4 for each in found)
    return [(each.code, each.values["key"]) for each in found]


def test_a_level_without_tokens_is_said_as_the_reason() -> None:
    (found,) = broker_findings(4, FITTING, replace(OURS, level=13))
    assert found.code == "Z2K-1050"
    assert "metadata.version 3.6-IV1 (13) has no tokens" in found.text
    assert list(broker_findings(4, FITTING, replace(OURS, level=14))) == []


def test_several_log_directories_are_refused_below_the_level_that_knows_them() -> None:
    """F-20: brokers themselves do not start in migration mode then; those of later releases may."""
    settings = {**FITTING, "log.dirs": "/data/a,/data/b"}
    (found,) = broker_findings(4, settings, replace(OURS, level=16))
    assert "log.dirs=/data/a,/data/b: metadata.version 3.7-IV1 (16) knows no directories" in found.text
    assert list(broker_findings(4, settings, replace(OURS, level=17))) == []
    assert list(broker_findings(4, {**FITTING, "log.dirs": "/data/a"}, replace(OURS, level=16))) == []


def test_brokers_and_controllers_guard_what_they_make_in_zookeeper_or_both_do_not() -> None:
    """F-18: whoever goes on after a takeover or a rollback has to be able to change what the other one made."""
    guarding = replace(OURS, set_acl=True)
    unset = {key: value for key, value in FITTING.items() if key != "zookeeper.set.acl"}
    assert list(broker_findings(4, {**FITTING, "zookeeper.set.acl": "true"}, guarding)) == []
    for settings in (FITTING, unset):
        (found,) = broker_findings(4, {"zookeeper.set.acl": "false", **settings}, guarding)
        assert "this broker could not change what the controllers create" in found.text


def test_tokens_close_the_gate_of_a_level_that_has_none() -> None:
    """F-38: brokers in ZooKeeper mode have tokens from 1.1 on, KRaft from 3.6-IV2."""
    tree = the_evidence().tree
    tree.families.tokens["t1"] = DelegationToken("t1", "User:a", "User:a", (), 0, 1, 1)
    codes_at = {
        level: [each.code for each in controller_findings(tree, replace(OURS, level=level))] for level in (13, 14)
    }
    assert codes_at == {13: ["Z2K-1091"], 14: []}


def test_brokers_with_remote_storage_fit_controllers_that_have_it_too() -> None:
    with_tiers = {"remote.log.storage.system.enable": "true"}
    assert codes(with_tiers, replace(OURS, remote_storage=True)) == []
    assert codes({"remote.log.storage.system.enable": "false"}) == []


def test_a_tiered_topic_is_held_against_what_it_inherits_from_the_controllers_file() -> None:
    """R-405-05. Brokers keep for 30 days, by their files. Kafka's default is a week, and a controller has its file."""
    days = 86_400_000
    tree = the_evidence().tree
    name, reading = next(iter(tree.topics.items()))
    config = {"remote.storage.enable": "true", "local.retention.ms": str(10 * days)}
    tree = replace(tree, topics={**tree.topics, name: msgspec.structs.replace(reading, config=config)})

    def found(**defaults: str) -> list[str]:
        ours = replace(OURS, remote_storage=True, topic_defaults=defaults)
        return [each.text for each in controller_findings(tree, ours) if each.code == "Z2K-1063"]

    (said,) = found()
    assert f"the first is {name}, do not go with what they inherit from c.properties: local.retention.ms" in said
    assert found(**{"log.retention.hours": "720"}) == []
    assert found(**{"log.retention.ms": "-1"}) == []
    assert len(found(**{"log.retention.hours": "24"})) == 1
    tree = replace(tree, broker_configs={"": {"log.retention.ms": str(30 * days)}})
    assert found() == [], "a dynamic default of all brokers is in the log too"


def test_settings_that_fit_are_no_finding() -> None:
    assert codes({}) == []
    assert list(broker_findings(4, {}, ControllerFileSettings())) == []


@pytest.mark.parametrize(
    ("key", "value", "code"),
    [
        ("zookeeper.connect", "zk1:2181", "Z2K-1050"),  # F-50
        ("zookeeper.connect", "zk1:2181/kafka2", "Z2K-1050"),
        ("zookeeper.set.acl", "true", "Z2K-1050"),  # F-18
        ("authorizer.class.name", "com.vendor.Authorizer", "Z2K-1050"),  # F-37
        ("authorizer.class.name", ACL_AUTHORIZER, "Z2K-1051"),
        ("alter.config.policy.class.name", "a.Policy", "Z2K-1050"),  # F-39
        ("create.topic.policy.class.name", "a.Policy", "Z2K-1050"),
        ("principal.builder.class", "a.Builder", "Z2K-1050"),  # F-09
        ("remote.log.storage.system.enable", "true", "Z2K-1050"),
        ("control.plane.listener.name", "CONTROL", "Z2K-1051"),  # F-53
    ],
)
def test_one_setting_that_does_not_fit_is_named_with_its_broker_and_key(key: str, value: str, code: str) -> None:
    assert codes({key: value}) == [(code, key)]


def test_what_brokers_have_and_controllers_lack_is_named() -> None:
    """F-37, F-38."""
    bare = ControllerFileSettings(chroot="/kafka")
    assert codes({"authorizer.class.name": ACL_AUTHORIZER}, bare) == [
        ("Z2K-1050", "authorizer.class.name"),
        ("Z2K-1050", "delegation.token.secret.key"),
        ("Z2K-1051", "authorizer.class.name"),
    ]


def test_no_secret_is_in_what_is_said() -> None:
    (found,) = broker_findings(4, {"delegation.token.secret.key": HIDDEN}, ControllerFileSettings())
    assert found.text.startswith("Broker 4 runs with delegation.token.secret.key=(hidden): ")


def test_a_setting_that_forbids_closes_the_gate_and_one_for_later_is_told() -> None:
    settings = {1: {"zookeeper.set.acl": "true"}, 2: {"control.plane.listener.name": "CONTROL"}}
    verdict = takeover_verdict(the_evidence(broker_settings=settings))
    (failed,) = verdict.failed
    assert (failed.name, failed.codes) == ("the settings of brokers and controllers fit each other", ("Z2K-1050",))
    assert "Broker 1 runs with zookeeper.set.acl=true" in failed.message
    (later,) = [
        each.message
        for each in verdict.conditions
        if each.name == "the changes that brokers need for KRaft mode are known"
    ]
    assert "Broker 2 runs with control.plane.listener.name=CONTROL" in later


@pytest.mark.parametrize(("limit", "holds"), [("100", False), ("104857600", True)])
def test_a_broker_that_would_not_take_the_full_request_closes_the_gate(limit: str, holds: bool) -> None:
    """F-54: it would close the connection, again and again, inside the window."""
    verdict = takeover_verdict(the_evidence(broker_settings={3: {"socket.request.max.bytes": limit}}))
    assert verdict.holds == holds
    assert holds or verdict.failed[0].codes == ("Z2K-1012",)
    assert holds or "broker 3 accepts 100 and needs at least socket.request.max.bytes=" in verdict.failed[0].message


def test_a_broker_is_judged_by_its_own_limit_and_by_kafkas_where_it_has_none() -> None:
    size = 100_000_000
    assert needed_limit(size) == 125_000_000
    found = request_limit_finding(1, {}, size)
    assert found is not None
    assert found.values == {"bytes": size, "broker": 1, "limit": REQUEST_MAX_BYTES, "needed": 125_000_000}
    assert request_limit_finding(1, {"socket.request.max.bytes": "124999999"}, size) is not None
    assert request_limit_finding(1, {"socket.request.max.bytes": "125000000"}, size) is None


def test_a_broker_that_does_not_say_how_it_is_set_closes_the_gate() -> None:
    (failed,) = takeover_verdict(the_evidence(settings_unread={2: "TimeoutError: "})).failed
    assert failed.message == "broker 2: TimeoutError: "
