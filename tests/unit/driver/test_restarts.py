"""What is stored and not applied, and counts at a broker's next restart: ZooKeeper and files against brokers."""

from __future__ import annotations

import pytest

from migrator.driver.checks.restarts import (
    Applied,
    LogBegins,
    file_changes,
    is_true,
    restart_findings,
    tells_of_tiers,
)
from migrator.findings.finding import Occurrence

SYSTEM = "remote.log.storage.system.enable"
READS_REMOTELY = Applied({SYSTEM: "true"}, begins={"t": {0: LogBegins(0, 0), 1: LogBegins(0, 2048, 2047)}})
TIERED = {"remote.storage.enable": "true"}
OFF = {"t": {"remote.storage.enable": "false", "segment.bytes": "20000"}}


def codes(found: list[Occurrence]) -> list[str]:
    return [each.code for each in found]


@pytest.mark.parametrize("config", [{"remote.storage.enable": "false"}, {}, {"remote.storage.enable": "yes"}])
def test_a_switch_off_that_a_broker_has_not_applied_is_named_with_topic_and_broker(config: dict[str, str]) -> None:
    """Deleting the key has the same effect as false; a value that is no boolean is refused as well."""
    found = [each for each in restart_findings({"t": config}, {1: READS_REMOTELY}, {}) if each.code == "Z2K-1058"]
    (one,) = found
    assert one.values == {
        "path": "/config/topics/t",
        "broker": 1,
        "count": 1,
        "first": "t-1",
        "offset": 2047,
        "lost": "none",
    }
    assert "broker 1 still reads 1 partitions from remote storage, the first is t-1 (up to offset 2047)" in one.text


def test_each_broker_that_still_reads_remotely_is_named_by_itself() -> None:
    """One that was restarted since reads no more; its fellows do until they are."""
    restarted = Applied({SYSTEM: "true"}, begins={"t": {1: LogBegins(2048, 2048)}})
    found = list(restart_findings(OFF, {1: READS_REMOTELY, 2: restarted, 3: READS_REMOTELY}, {}))
    assert [(each.code, each.values["broker"]) for each in found] == [("Z2K-1058", 1), ("Z2K-1058", 3)]
    assert all("brokers whose replica lost that already: [2]" in each.text for each in found)


def test_a_replica_that_begins_after_its_leader_is_named_when_the_topic_is_tiered_again() -> None:
    """Its broker was restarted while the topic was switched off. `true` is no remedy for it any more."""
    on = {"t": {"remote.storage.enable": "true"}}
    leader = Applied({SYSTEM: "true"}, begins={"t": {0: LogBegins(0, 186, 185)}}, leads=frozenset({("t", 0)}))
    lost = Applied({SYSTEM: "true"}, begins={"t": {0: LogBegins(186, 186, 185)}})
    (found,) = restart_findings(on, {1: leader, 2: lost}, {})
    assert (found.code, found.values["node"]) == ("Z2K-4234", "broker 1")
    assert "broker 2 would lead it, whose replica begins at 186 and not at 0" in found.text


def test_a_follower_that_has_not_heard_of_deleted_segments_yet_is_no_finding() -> None:
    on = {"t": {"remote.storage.enable": "true"}}
    leader = Applied({SYSTEM: "true"}, begins={"t": {0: LogBegins(50, 186, 185)}}, leads=frozenset({("t", 0)}))
    behind = Applied({SYSTEM: "true"}, begins={"t": {0: LogBegins(40, 186, 185)}})
    assert list(restart_findings(on, {1: leader, 2: behind}, {})) == []


def test_a_broker_before_3_9_shows_only_what_remote_storage_alone_has() -> None:
    before = Applied({SYSTEM: "true"}, begins={"t": {0: LogBegins(0, 700)}})
    (found,) = restart_findings(OFF, {1: before}, {})
    assert found.values["offset"] == 699
    everything_local = Applied({SYSTEM: "true"}, begins={"t": {0: LogBegins(0, 0)}})
    assert list(restart_findings(OFF, {1: everything_local}, {})) == []


def test_a_topic_that_zookeeper_calls_tiered_is_no_finding() -> None:
    for text in ("true", " True "):
        assert list(restart_findings({"t": {"remote.storage.enable": text}}, {1: READS_REMOTELY}, {})) == []


def test_a_broker_that_did_not_answer_is_a_finding_and_never_silence() -> None:
    (found,) = restart_findings({"t": {}}, {1: Applied()}, {2: "connection refused"})
    assert (found.code, found.values) == ("Z2K-1060", {"broker": 2, "reason": "connection refused"})
    assert found.finding.severity.value == "blocks"


@pytest.mark.parametrize(
    ("config", "code"),
    [
        ({"retention.ms": "soon"}, "Z2K-1030"),
        ({"segment.bytes": "3"}, "Z2K-1030"),
        ({"remote.log.copy.disable": "true"}, "Z2K-4234"),
        ({"remote.log.delete.on.disable": "true"}, "Z2K-4234"),
    ],
)
def test_a_configuration_at_which_the_start_of_a_broker_ends_is_named(config: dict[str, str], code: str) -> None:
    (found,) = restart_findings({"gone": config}, {1: Applied()}, {})
    assert found.code == code
    assert found.finding.severity.value == "blocks"
    assert "/config/topics/gone" in found.text


@pytest.mark.parametrize(
    "config",
    [
        {"min.compaction.lag.ms": "100", "max.compaction.lag.ms": "10"},
        {"no.such.key": "1"},
        {"remote.log.copy.disable": "false"},
    ],
)
def test_what_a_broker_starts_with_is_not_named_here(config: dict[str, str]) -> None:
    assert list(restart_findings({"t": config}, {1: Applied()}, {})) == []


def test_a_directory_that_failed_is_named_before_the_restart_that_would_end_the_broker() -> None:
    (found,) = restart_findings({}, {1: Applied(replicas={"/a": 3, "/b": 0}, offline=("/b",))}, {})
    assert found.code == "Z2K-4234"
    assert "broker 1 would also change log.dirs (/b)" in found.text


def test_a_broker_without_remote_storage_is_named_before_a_start_that_a_tiered_topic_would_end() -> None:
    """R-405-05: its file is as it was at its start, so comparing those two says nothing."""
    brokers = {1: Applied({SYSTEM: "true"}), 2: Applied({SYSTEM: "false"}), 3: Applied()}
    found = restart_findings({"t": TIERED, "u": TIERED, "v": {}}, brokers, {})
    assert [(each.code, each.values) for each in found] == [
        ("Z2K-1062", {"count": 2, "first": "t", "broker": 2}),
        ("Z2K-1062", {"count": 2, "first": "t", "broker": 3}),
    ]
    assert list(restart_findings({"v": {}}, brokers, {})) == []


def test_zookeeper_tells_of_tiers_by_a_topics_key_or_by_the_topic_of_remote_metadata() -> None:
    assert tells_of_tiers(OFF)
    assert tells_of_tiers({"__remote_log_metadata": {}})
    assert not tells_of_tiers({"t": {"retention.ms": "1"}})
    assert not is_true(None)


# --- files ------------------------------------------------------------------------------------------------

STATIC: dict[str, str | None] = {
    "broker.id": "1",
    "node.id": "1",
    "log.dirs": "/data/a,/data/b",
    "num.io.threads": "8",
    "zookeeper.connect": "zk:2181",
    "ssl.keystore.password": None,
}
FILE = {
    "broker.id": "1",
    "log.dirs": "/data/a,/data/b",
    "num.io.threads": "8",
    "zookeeper.connect": "zk:2181",
    "ssl.keystore.password": "changed",
}
RUNS = Applied(STATIC, {"/data/a": 7, "/data/b": 3})


def changes(
    file: dict[str, str], meant: dict[str, str] | None = None, applied: Applied = RUNS
) -> list[tuple[str, str]]:
    found = list(file_changes(1, "/etc/kafka.properties", file, applied, meant or {}))
    assert {each.code for each in found} <= {"Z2K-4234"}
    assert all(each.values["node"] == "broker 1" and each.values["path"] == "/etc/kafka.properties" for each in found)
    return [(each.values["key"], each.values["change"]) for each in found]


def test_a_file_as_the_broker_read_it_is_no_finding() -> None:
    """Kafka gives a broker a node.id beside its broker.id; the value of a secret is not shown, so it is not judged."""
    assert changes(FILE) == []
    assert changes({**{key: FILE[key] for key in FILE if key != "broker.id"}, "node.id": "1"}) == []


@pytest.mark.parametrize(
    ("edit", "key", "change"),
    [
        ({"num.io.threads": "16"}, "num.io.threads", "it is 8, and 16 in the file"),
        ({"num.io.threads": None}, "num.io.threads", "it is not in the file any more; it is 8"),
        ({"log.retention.hours": "1"}, "log.retention.hours", "it was added to the file: 1"),
        ({"broker.id": "2"}, "broker.id", "it is 1, and 2 in the file"),
        ({"some.plugin.key": "s3cret"}, "some.plugin.key", "it was added to the file"),
        ({"ssl.keystore.password": None}, "ssl.keystore.password", "it is not in the file any more"),
    ],
)
def test_a_key_that_changed_since_the_broker_started_is_named(
    edit: dict[str, str | None], key: str, change: str
) -> None:
    file = {name: value for name, value in {**FILE, **edit}.items() if value is not None}
    assert changes(file) == [(key, change)]


def test_a_directory_with_replicas_that_the_file_leaves_out_is_named_with_their_number() -> None:
    assert changes({**FILE, "log.dirs": "/data/a"}) == [("log.dirs", "/data/b is left out, and 3 replicas lie there")]
    without = {key: value for key, value in FILE.items() if key != "log.dirs"}
    assert [key for key, _ in changes({**without, "log.dir": "/data/a/"})] == ["log.dirs"]
    empty = Applied(STATIC, {"/data/a": 7, "/data/b": 0})
    assert changes({**FILE, "log.dirs": "/data/a"}, applied=empty) == [
        ("log.dirs", "it is /data/a,/data/b, and /data/a in the file")
    ]


def test_what_the_migration_wants_is_meant_and_another_value_is_not() -> None:
    flag = "zookeeper.metadata.migration.enable"
    assert changes({**FILE, flag: "true"}, {flag: "true"}) == []
    assert changes({**FILE, flag: "false"}, {flag: "true"}) == [(flag, "it was added to the file: false")]


def test_a_value_of_a_config_provider_is_not_compared() -> None:
    assert changes({**FILE, "zookeeper.connect": "${file:/etc/zk:connect}"}) == []
    assert changes({**FILE, "log.dirs": "${file:/etc/zk:dirs}"}) == []
