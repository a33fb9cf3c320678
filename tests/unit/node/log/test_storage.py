"""A controller's directories: identity, election state, marks, and the records that a new log begins with."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from api.commands.controllers import storage_info
from migrator.findings.finding import FindingError
from migrator.model.levels import LATEST, LEVELS
from migrator.node.config.formatting import bootstrap_checkpoint, format_node, level_of
from migrator.node.config.properties import NodeConfig, parse_config, read_config
from migrator.node.log.log_replay import read_bootstrap
from migrator.node.log.storage import (
    BOOTSTRAP,
    LOG_NAME,
    META_PROPERTIES,
    QUORUM_STATE,
    DirectoryLock,
    MetaProperties,
    RetiredMark,
    identify,
    new_directory_id,
    read_election_state,
    read_meta_properties,
    write_durably,
    write_election_state,
    write_meta_properties,
)
from migrator.raft.types import ElectionState
from migrator.wire.batch import read_batches
from migrator.wire.messages.control_records import SnapshotFooterRecord, SnapshotHeaderRecord
from migrator.wire.messages.metadata import FeatureLevelRecord

CLUSTER = "gSJTHuz4SBW8WFvXJLDhIw"


def a_file(*directories: Path, node_id: int = 3000, **keys: str) -> str:
    more = "\n".join(f"{key}={value}" for key, value in keys.items())
    return (
        f"process.roles=controller\nnode.id={node_id}\ncontroller.quorum.voters={node_id}@h:9093\n"
        f"listeners=CONTROLLER://:9093\ncontroller.listener.names=CONTROLLER\n"
        f"log.dirs={','.join(map(str, directories))}\n{more}\n"
    )


def a_config(*directories: Path, **more: Any) -> NodeConfig:
    return parse_config(a_file(*directories, **more))


def reason_of(error: FindingError, directory: Path) -> str:
    assert error.code == "Z2K-3012"
    assert error.occurrence.values["directory"] == str(directory)
    return str(error.occurrence.values["reason"])


# --- meta.properties --------------------------------------------------------------------------------------


def test_an_identity_is_written_as_kafka_writes_it(tmp_path: Path) -> None:
    write_meta_properties(tmp_path, MetaProperties(CLUSTER, 3000, "Zm9vYmFyYmF6cXV4MTIzNA"))
    assert (tmp_path / META_PROPERTIES).read_bytes() == (
        b"#\ncluster.id=gSJTHuz4SBW8WFvXJLDhIw\nversion=1\ndirectory.id=Zm9vYmFyYmF6cXV4MTIzNA\nnode.id=3000\n"
    )
    assert read_meta_properties(tmp_path) == MetaProperties(CLUSTER, 3000, "Zm9vYmFyYmF6cXV4MTIzNA")


@pytest.mark.parametrize(
    ("text", "meta"),
    [
        ("#Thu Nov 19 10:00:00 UTC 2026\nnode.id=3\nversion=1\ncluster.id=c\n", MetaProperties("c", 3)),
        ("#\n#caf\xe9\nbroker.id=7\nversion=0\ncluster.id=c\\=\\=\n", MetaProperties("c==", 7)),
        ("broker.id=7\ncluster.id=c\n", MetaProperties("c", 7)),
    ],
)
def test_an_identity_that_kafka_wrote_is_read(tmp_path: Path, text: str, meta: MetaProperties) -> None:
    (tmp_path / META_PROPERTIES).write_bytes(text.encode("latin-1"))
    assert read_meta_properties(tmp_path) == meta


@pytest.mark.parametrize(
    "text",
    ["", "version=1\nnode.id=3\n", "version=2\nnode.id=3\ncluster.id=c\n", "version=1\nbroker.id=3\ncluster.id=c\n",
     "version=1\nnode.id=-3\ncluster.id=c\n", "version=1\nnode.id=\\u00b2\ncluster.id=c\n", "node.id=\\u1\n",
     "version=1\nnode.id=99999999999\ncluster.id=c\n", "\xff\xfe\x00"],
)  # fmt: skip
def test_an_identity_that_cannot_be_read_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / META_PROPERTIES).write_bytes(text.encode("latin-1"))
    with pytest.raises(FindingError) as raised:
        read_meta_properties(tmp_path)
    assert "cannot be read" in reason_of(raised.value, tmp_path)


def test_directories_have_to_agree_with_each_other_and_with_the_file(tmp_path: Path) -> None:
    """F-15, F-36, R-595-10: a foreign or empty directory is never taken for ours."""
    one, two = tmp_path / "one", tmp_path / "two"
    for directory in (one, two):
        directory.mkdir()
        write_meta_properties(directory, MetaProperties(CLUSTER, 3000))
    assert identify([one, two], 3000) == MetaProperties(CLUSTER, 3000)
    with pytest.raises(FindingError) as raised:
        identify([one, two], 3001)
    assert "belongs to node 3000" in reason_of(raised.value, one)
    write_meta_properties(two, MetaProperties("another", 3000))
    with pytest.raises(FindingError) as raised:
        identify([one, two], 3000)
    assert "cluster.id another differs" in reason_of(raised.value, two)
    with pytest.raises(FindingError) as raised:
        identify([one, tmp_path / "three"], 3000)
    assert "no meta.properties" in reason_of(raised.value, tmp_path / "three")


def test_a_directory_id_never_begins_with_a_dash() -> None:
    ids = {new_directory_id() for _ in range(500)}
    assert len(ids) == 500
    assert {len(each) for each in ids} == {22}
    assert not any(each.startswith("-") for each in ids)


# --- quorum-state -----------------------------------------------------------------------------------------


def test_the_election_state_is_written_as_kafka_writes_it(tmp_path: Path) -> None:
    """R-595-06."""
    write_election_state(tmp_path, ElectionState(7, leader=3001, voted_for=-1), [3000, 3001])
    assert (tmp_path / QUORUM_STATE).read_bytes() == (
        b'{"clusterId":"","leaderId":3001,"leaderEpoch":7,"votedId":-1,"appliedOffset":0,'
        b'"currentVoters":[{"voterId":3000},{"voterId":3001}],"data_version":0}'
    )


states = st.builds(
    ElectionState, st.integers(0, 2**31 - 1), leader=st.integers(-1, 2**31 - 1), voted_for=st.integers(-1, 2**31 - 1)
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(state=states)
def test_a_promise_is_read_back_as_it_was_given(state: ElectionState, tmp_path: Path) -> None:
    write_election_state(tmp_path, state, [1, 2, 3])
    assert read_election_state(tmp_path) == state


def test_a_directory_that_never_took_part_has_made_no_promise(tmp_path: Path) -> None:
    assert read_election_state(tmp_path) == ElectionState()


def test_a_line_end_that_stock_writes_is_no_matter(tmp_path: Path) -> None:
    write_election_state(tmp_path, ElectionState(7, leader=1), [1])
    file = tmp_path / QUORUM_STATE
    file.write_bytes(file.read_bytes() + b"\n")
    assert read_election_state(tmp_path).epoch == 7


IMPOSSIBLE = (("leaderEpoch", -1), ("leaderEpoch", 2**31), ("leaderId", -2), ("votedId", "1"), ("leaderId", None))
GOOD = {
    "clusterId": "", "leaderId": 1, "leaderEpoch": 7, "votedId": -1, "appliedOffset": 0,
    "currentVoters": [{"voterId": 1}], "data_version": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    "data",
    [
        *(b"", b"[]", b"null", b"{}", b"{", b"\xff", b"[" * 100_000),
        *(json.dumps({**GOOD, key: value}).encode() for key, value in IMPOSSIBLE),
        *(json.dumps({key: GOOD[key] for key in GOOD if key != missing}).encode() for missing in GOOD),
    ],
    ids=lambda data: repr(data[:60]),
)
def test_a_promise_that_cannot_be_read_is_not_forgotten(tmp_path: Path, data: bytes) -> None:
    """To begin at epoch 0 again would be to vote twice."""
    (tmp_path / QUORUM_STATE).write_bytes(data)
    with pytest.raises(FindingError) as raised:
        read_election_state(tmp_path)
    assert "cannot be read" in reason_of(raised.value, tmp_path)


def test_a_quorum_with_dynamic_voters_is_refused_by_that_reason(tmp_path: Path) -> None:
    (tmp_path / QUORUM_STATE).write_bytes(json.dumps({**GOOD, "data_version": 1}).encode())
    with pytest.raises(FindingError, match="dynamic voters"):
        read_election_state(tmp_path)


# --- marks, locks, files ----------------------------------------------------------------------------------


def test_the_mark_of_a_retired_log_outlives_its_writer(tmp_path: Path) -> None:
    assert RetiredMark(tmp_path).read() is None
    RetiredMark(tmp_path).write('{"node":3000}')
    assert RetiredMark(tmp_path).read() == '{"node":3000}'
    assert [path.name for path in tmp_path.iterdir()] == ["zk2kraft-handed-back"]


def test_a_file_is_replaced_whole_and_what_a_crash_left_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "x.tmp").write_bytes(b"left by a crash, longer than what comes")
    write_durably(tmp_path / "x", b"one")
    write_durably(tmp_path / "x", b"two")
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("x", b"two")]


TRY_TO_LOCK = """
import sys
from pathlib import Path
from migrator.findings.finding import FindingError
from migrator.node.log.storage import DirectoryLock
try:
    DirectoryLock(Path(sys.argv[1])).acquire()
except FindingError as error:
    sys.exit(error.code)
"""


def test_a_directory_is_for_one_process_at_a_time(tmp_path: Path) -> None:
    def another_process() -> str:
        return subprocess.run(
            [sys.executable, "-c", TRY_TO_LOCK, str(tmp_path)], capture_output=True, check=False, text=True, timeout=120
        ).stderr.strip()

    lock = DirectoryLock(tmp_path)
    lock.acquire()
    assert another_process() == "Z2K-3013"
    lock.release()
    lock.release()
    assert another_process() == ""


# --- formatting -------------------------------------------------------------------------------------------


def test_a_new_log_begins_with_the_level_between_kafkas_snapshot_marks() -> None:
    """R-778-02."""
    header, level, footer = read_batches(bootstrap_checkpoint(21))
    assert isinstance(header.control_records[0], SnapshotHeaderRecord)
    assert isinstance(footer.control_records[0], SnapshotFooterRecord)
    assert [batch.base_offset for batch in (header, level, footer)] == [0, 1, 2]
    assert {(batch.leader_epoch, batch.timestamp_ms) for batch in (header, level, footer)} == {(0, 0)}


@pytest.mark.parametrize("release", [None, "3.8", "3.9.2"])
def test_a_formatted_directory_holds_what_a_controller_starts_from(tmp_path: Path, release: str | None) -> None:
    metadata, data = tmp_path / "metadata", tmp_path / "data"
    config = a_config(data, **{"metadata.log.dir": str(metadata)})
    lines = format_node(config, CLUSTER, release, ignore_formatted=False)
    level = 20 if release == "3.8" else LATEST
    assert lines == [
        f"Formatting metadata directory {each} with metadata.version {LEVELS[level]}." for each in (data, metadata)
    ]
    for directory in (data, metadata):
        meta = read_meta_properties(directory)
        assert (meta.cluster_id, meta.node_id, len(meta.directory_id or "")) == (CLUSTER, 3000, 22)
        assert read_bootstrap(directory / BOOTSTRAP) == [
            (FeatureLevelRecord(name="metadata.version", feature_level=level), 0)
        ]
    assert identify([data, metadata], 3000).cluster_id == CLUSTER


def test_a_log_that_has_records_needs_no_bootstrap_file(tmp_path: Path) -> None:
    """Stock tolerates its absence as well; a directory that was copied without it starts."""
    assert read_bootstrap(tmp_path / BOOTSTRAP, log_is_empty=False) == []
    with pytest.raises(FindingError, match=r"Z2K-3012 .*bootstrap\.checkpoint"):
        read_bootstrap(tmp_path / BOOTSTRAP, log_is_empty=True)


def test_a_directory_that_the_tool_of_kafka_4_4_formatted_is_named_as_such(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It writes a snapshot of offset 0 and no bootstrap.checkpoint (seen with 4.4.0; 4.0.2 to 4.3.1 do not)."""
    file = tmp_path / "controller.properties"
    file.write_text(a_file(tmp_path / "d"))
    config = read_config(file)
    format_node(config, CLUSTER, None, ignore_formatted=False)
    (config.metadata_log_dir / BOOTSTRAP).unlink()
    (config.metadata_log_dir / LOG_NAME).mkdir()
    (config.metadata_log_dir / LOG_NAME / "00000000000000000000-0000000000.checkpoint").write_bytes(b"")
    with pytest.raises(FindingError, match=r"Z2K-3012 .*Kafka 4\.4 or later formatted it"):
        read_bootstrap(config.metadata_log_dir / BOOTSTRAP)
    assert storage_info(file) == 1
    assert "Kafka 4.4 or later formatted it" in capsys.readouterr().out


def test_the_level_is_the_brokers_when_the_file_names_it(tmp_path: Path) -> None:
    config = a_config(tmp_path / "d", **{"inter.broker.protocol.version": "3.8"})
    assert "3.8-IV0" in format_node(config, CLUSTER, None, ignore_formatted=False)[0]


@pytest.mark.parametrize(
    ("release", "level"),
    [("3.9", 21), ("3.9.2", 21), ("3.9-IV0", 21), ("3.7", 19), ("3.6-IV1", 13), ("3.3", 7), ("3.0", 4), ("3.0-IV1", 4)],
)
def test_a_release_means_its_highest_level_and_never_one_below_the_lowest_that_can_begin(
    release: str, level: int
) -> None:
    assert level_of(release) == level


@pytest.mark.parametrize("release", ["", "2.8", "4.0", "3", "3.9-IV1", "3.9.x", "3.10", "x"])
def test_a_release_that_is_not_known_formats_nothing(tmp_path: Path, release: str) -> None:
    with pytest.raises(FindingError, match="Z2K-3016"):
        level_of(release)


def test_what_belongs_to_somebody_else_is_refused_before_anything_is_formatted(tmp_path: Path) -> None:
    fresh, foreign = tmp_path / "a-fresh", tmp_path / "b-foreign"
    format_node(a_config(foreign, node_id=3001), CLUSTER, None, ignore_formatted=False)
    before = (foreign / META_PROPERTIES).read_bytes()
    for cluster, ignore in ((CLUSTER, False), (CLUSTER, True), ("A" + CLUSTER[1:], True)):
        with pytest.raises(FindingError) as raised:
            format_node(a_config(fresh, foreign), cluster, None, ignore_formatted=ignore)
        assert f"formatted for cluster {CLUSTER}, node 3001" in reason_of(raised.value, foreign)
        assert not fresh.exists()
    assert (foreign / META_PROPERTIES).read_bytes() == before


def test_what_is_formatted_already_is_passed_over_only_on_request(tmp_path: Path) -> None:
    old, new = tmp_path / "a-old", tmp_path / "b-new"
    format_node(a_config(old), CLUSTER, "3.8", ignore_formatted=False)
    before = (old / META_PROPERTIES).read_bytes()
    with pytest.raises(FindingError, match="already formatted"):
        format_node(a_config(old, new), CLUSTER, None, ignore_formatted=False)
    assert not new.exists()
    assert len(format_node(a_config(old, new), CLUSTER, None, ignore_formatted=True)) == 1
    assert format_node(a_config(old, new), CLUSTER, None, ignore_formatted=True) == [
        "All of the log directories are already formatted."
    ]
    assert (old / META_PROPERTIES).read_bytes() == before


@pytest.mark.parametrize("given", ["wrong", "", "gSJTHuz4SBW8WFvXJLDhIw==", "gSJTHuz4SBW8WFvXJLDhI/"])
def test_a_directory_is_formatted_with_a_cluster_id_only(tmp_path: Path, given: str) -> None:
    with pytest.raises(FindingError, match="Z2K-4198"):
        format_node(a_config(tmp_path / "new"), given, None, ignore_formatted=False)
    assert not (tmp_path / "new").exists() or not list((tmp_path / "new").iterdir())
