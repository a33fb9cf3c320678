"""Listings of a broker's disks: what they have, what they do not follow, and which files are none (Z2K-5013, 5014)."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import Any, Final

import pytest
from typer.testing import CliRunner

from api.cli import app
from migrator.audit.brokers.disk_listing import (
    RUNS_MS,
    ListedReplica,
    ListingEnd,
    ListingHead,
    LogDirectory,
    LogState,
    read_listing,
    read_listings,
)
from migrator.audit.brokers.list_disks import HIGH_WATERMARKS, list_disks
from migrator.findings.finding import FindingError
from tests.support.broker_disks import CLUSTER_ID, a_listing, a_log_directory, a_replica, listed

TOPIC_ID: Final = "AAAAAAAAAAAAAAAAAAAABw"
REAL: Final = Path(__file__).parents[2] / "support/tiered/b1"


def test_a_listing_has_what_names_and_small_files_say(tmp_path: Path) -> None:
    one = a_log_directory(tmp_path / "d1", 7, directory_id="e30", alive_ms=4_000)
    two = a_log_directory(tmp_path / "d2", 7)
    a_replica(one, "or.de-rs_1-12", TOPIC_ID, [(2, 0), (5, 40)], segments=[(0, 100), (40, 7)])
    a_replica(two, "orders-3.5b1d0bb8b4e04d4a8f0e3f3ef3c4c0c2-delete", TOPIC_ID, [])
    a_replica(two, "orders-3.5b1d0bb8b4e04d4a8f0e3f3ef3c4c0c2-future", None, [], segments=[])
    a_replica(two, "orders-3.5b1d0bb8b4e04d4a8f0e3f3ef3c4c0c2-stray", None, [], segments=[])
    (two / "orders-3.5b1d0bb8b4e04d4a8f0e3f3ef3c4c0c2-stray" / "leader-epoch-checkpoint").write_text("")
    (two / "lost+found").mkdir()
    (two / "cleaner-offset-checkpoint-0").write_text("a file, whatever its name")
    head, first, replica, second, *others, end = list_disks([one, two], 5_000)
    assert head == ListingHead(1, 5_000)
    assert first == LogDirectory(0, str(one), 7, CLUSTER_ID, "e30", 4_000)
    assert replica == ListedReplica(
        *(0, "or.de-rs_1", 12, LogState.CURRENT, TOPIC_ID, 0), epochs=2, epoch=5, epoch_start=40, last=40, first=0,
        segments=2, bytes=107,
    )  # fmt: skip
    assert second == LogDirectory(1, str(two), 7, CLUSTER_ID)
    told = {each.state: each for each in others if isinstance(each, ListedReplica)}
    assert set(told) == {LogState.DELETED, LogState.FUTURE, LogState.STRAY}
    assert {each.key for each in told.values()} == {"orders-3"}
    assert told[LogState.STRAY] == ListedReplica(1, "orders", 3, LogState.STRAY)
    assert end == ListingEnd(6)


def test_a_real_brokers_files_are_read(tmp_path: Path) -> None:
    """Without meta.properties, which the kept copy does not have, it is no log directory of a broker."""
    directory = a_log_directory(tmp_path / "d")
    for each in sorted(REAL.iterdir()):
        (directory / each.name).mkdir()
        for file in each.iterdir():
            (directory / each.name / file.name).write_bytes(file.read_bytes())
    found = listed(tmp_path / "l", [directory], 1)
    assert found.replicas["t-plain-0"][0].topic_id == "X159B-84RfezBpifkCTLug"
    assert (found.replicas["t-plain-0"][0].epochs, found.replicas["t-plain-0"][0].epoch) == (3, 4)
    assert found.replicas["t-plain-0"][0].epoch_start == 1002


def test_nothing_that_leads_out_is_followed_and_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    directory = a_log_directory(tmp_path / "d")
    elsewhere = a_replica(tmp_path, "elsewhere-0", TOPIC_ID)
    (directory / "linked-0").symlink_to(elsewhere)
    inside = a_replica(directory, "inside-0", None)
    (inside / "partition.metadata").symlink_to(elsewhere / "partition.metadata")
    pipe = a_replica(directory, "pipe-0", None)
    (pipe / "leader-epoch-checkpoint").unlink()
    os.mkfifo(pipe / "leader-epoch-checkpoint")
    a_replica(directory, "odd-0", TOPIC_ID, [(5, 0), (4, 10)])
    (a_replica(directory, "torn-0", None) / "partition.metadata").write_text("version: 0\n")
    problems = {key: each.problem for key, (each,) in listed(tmp_path / "l", [directory], 1).replicas.items()}
    assert problems["linked-0"] == "it is a symbolic link, which is not followed"
    assert "Too many levels of symbolic links" in problems["inside-0"]
    assert problems["pipe-0"].startswith("leader-epoch-checkpoint is no file")
    assert problems["odd-0"] == "leader-epoch-checkpoint: it is no checkpoint of ascending leader epochs"
    assert problems["torn-0"] == "partition.metadata names no version and topic_id"
    found = CliRunner().invoke(app, ["log", "disks", str(directory)])
    assert found.exit_code == 1
    assert "not read: linked-0: it is a symbolic link" in found.stderr


def test_the_command_writes_json_lines_and_changes_nothing(tmp_path: Path) -> None:
    directory = a_log_directory(tmp_path / "d")
    a_replica(directory, "orders-0", TOPIC_ID)
    before = {str(each): each.stat().st_mtime_ns for each in tmp_path.rglob("*")}
    found = CliRunner().invoke(app, ["log", "disks", str(directory)])
    assert found.exit_code == 0, found.stderr
    lines = [json.loads(each) for each in found.stdout.splitlines()]
    assert [each["line"] for each in lines] == ["listing", "directory", "replica", "end"]
    assert before == {str(each): each.stat().st_mtime_ns for each in tmp_path.rglob("*")}


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        (("nowhere",), "No such file or directory"),
        (("d", "file"), "there is no meta.properties in it"),
        (("d", "empty"), "there is no meta.properties in it"),
        (("d", "same"), "it is named twice"),
    ],
)
def test_what_is_no_log_directory_is_refused_before_any_line(
    names: tuple[str, ...], reason: str, tmp_path: Path
) -> None:
    a_log_directory(tmp_path / "d")
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "same").symlink_to(tmp_path / "d")
    with pytest.raises(FindingError, match=f"Z2K-5014 .*{reason}"):
        next(list_disks([tmp_path / each for each in names], 1))
    found = CliRunner().invoke(app, ["log", "disks", *(str(tmp_path / each) for each in names)])
    assert (found.exit_code, found.stdout) == (2, "")
    assert "Z2K-5014" in found.stderr


def test_a_disk_that_cannot_be_opened_is_told_and_the_others_are_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken, well = a_log_directory(tmp_path / "d1"), a_log_directory(tmp_path / "d2")
    a_replica(well, "orders-0", TOPIC_ID)
    opened = os.open

    def fails(name: str, *given: int, **named: int) -> int:
        if name == str(broken):
            raise OSError(5, "Input/output error")
        return opened(name, *given, **named)

    monkeypatch.setattr(os, "open", fails)
    found = listed(tmp_path / "l", [broken, well], 1)
    assert [each.problem for each in found.directories] == ["Input/output error", ""]
    assert list(found.replicas) == ["orders-0"]


@pytest.mark.parametrize(("alive_ms", "as_of_ms"), [(-1, 100_000), (100_000 - RUNS_MS, 100_000), (60_000, 60_000)])
def test_what_a_stopped_broker_has_is_of_the_time_when_it_stopped(alive_ms: int, as_of_ms: int, tmp_path: Path) -> None:
    directory = a_log_directory(tmp_path / "d", alive_ms=alive_ms)
    empty = a_log_directory(tmp_path / "e", alive_ms=5)
    assert listed(tmp_path / "l", [directory], 100_000).as_of_ms == as_of_ms
    if alive_ms >= 0:
        assert listed(tmp_path / "l", [empty, directory], 100_000).as_of_ms == as_of_ms, (
            "a disk may be without replicas"
        )


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("", "its first line is none of a listing"),
        ("not JSON\n", "JSON is malformed"),
        ('{"line":"end","lines":0}\n', "its first line is none of a listing"),
        ('{"line":"listing","version":2,"listed_at_ms":1}\n', "it has version 2"),
        ('{"line":"listing","version":1,"listed_at_ms":1}\n', "it ends before its last line"),
        ('{"line":"listing","version":1,"listed_at_ms":1}\n{"line":"end","lines":7}\n', "does not follow"),
        ('{"line":"listing","version":1,"listed_at_ms":1}\n{"line":"end","lines":0}\n', "of which broker it is"),
        ('{"line":"listing","version":1,"listed_at_ms":1}\n{"line":"replica","directory":0,"topic":"a","partition":0}\n',
         "does not follow"),
        ("x" * 70_000, "a line is longer"),
    ],
)  # fmt: skip
def test_what_is_no_whole_listing_is_refused(lines: str, reason: str, tmp_path: Path) -> None:
    (tmp_path / "l").write_text(lines)
    with pytest.raises(FindingError, match=f"Z2K-5013 .*{reason}"):
        read_listing(tmp_path / "l")


def test_two_listings_of_one_broker_and_a_file_that_is_not_there_are_refused(tmp_path: Path) -> None:
    file = a_listing(tmp_path / "one", [a_log_directory(tmp_path / "d")], 1)
    with pytest.raises(FindingError, match=r"Z2K-5013 .*it is of broker 1, as .*one is"):
        read_listings([file, file])
    with pytest.raises(FindingError, match=r"Z2K-5013 .*No such file"):
        read_listing(tmp_path / "none")


def test_a_disk_that_fails_at_its_second_file_is_a_problem_of_that_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its meta.properties can still be read, and the file of high watermarks not even be looked at."""
    (tmp_path / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=c\n")
    real = os.stat

    def failing(path: Any, **named: Any) -> os.stat_result:
        if path == HIGH_WATERMARKS:
            raise OSError(errno.EIO, "Input/output error")
        return real(path, **named)

    monkeypatch.setattr("migrator.audit.brokers.list_disks.os.stat", failing)
    _, directory, end = list_disks([tmp_path], 1)
    assert isinstance(directory, LogDirectory)
    assert "Input/output error" in directory.problem
    assert isinstance(end, ListingEnd)
