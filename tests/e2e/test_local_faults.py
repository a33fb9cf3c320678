"""One controller's machine fails it: descriptors, a disk that hangs, a disk that is full. The quorum goes on.

Three controllers of ours without brokers: a leader appends a record every half second, so a high watermark that rises
is a quorum that works.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from migrator.findings.finding import FindingError
from migrator.findings.quorum import CONNECTIONS_FULL, LOG_FLUSH_SILENT, LOG_NOT_ON_DISK, SNAPSHOT_NOT_WRITTEN
from migrator.lab.ours import PROGRAM, OurController
from migrator.lab.servers.controller import quorum_specs
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.lab.servers.properties import Value
from migrator.lab.servers.tools import random_cluster_id
from migrator.node.transport.broker_client import BrokerConnection
from migrator.wire.messages.configs import (
    AlterClientQuotasEntry,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    ClientQuotaOp,
)
from migrator.wire.messages.shared import ClientQuotaEntity
from tests.e2e.quorums import leading
from tests.e2e.support import HANGS_AFTER_S, wait_for

pytestmark = pytest.mark.lab

PATIENT: Final[dict[str, Value]] = {"controller.quorum.fetch.timeout.ms": 20_000}
"""On a busy machine nobody may seem dead: a leader that stays has to stay for its own sake."""
SILENT_SOON: Final[dict[str, Value]] = {"controller.quorum.fetch.timeout.ms": 6_000}
"""With it, a disk is silent after 9 s (the check-quorum time)."""

LEFT_FOR_THE_LOG: Final = 512 << 10
"""Half of what a snapshot leaves it (snapshot_files.py); what is appended here is a tenth of it."""

WITH_A_LIMIT: Final = (
    "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (120, 120)); sys.argv[0] = 'api'; "
    "runpy.run_module('api', run_name='__main__', alter_sys=True)"
)
LIMITED: Final = ("-c", WITH_A_LIMIT)
"""Our program with `ulimit -n 120`."""

HANGING_FSYNC: Final = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int fsync(int descriptor) {
    static int (*real)(int);
    char link[64], path[4096];
    if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size > 4 && !strncmp(path + size - 4, ".log", 4))
        while (access(getenv("HANGS_WHILE"), F_OK) == 0) usleep(20000);
    return real(descriptor);
}
"""
"""A disk that takes writes and confirms none of the log's while a file exists."""


@contextmanager
def three_of_ours(
    laboratory: Laboratory, program: tuple[str, ...] = PROGRAM, extra: dict[str, Value] | None = None
) -> Iterator[list[OurController]]:
    cluster_id = random_cluster_id()
    settings = {**PATIENT, **(extra or {})}
    specs = quorum_specs(laboratory, count=3, zookeeper_connect="", migrating=False, extra=settings)
    ours = [OurController(laboratory, spec, cluster_id, program) for spec in specs]
    for each in ours:
        each.prepare()
    yield ours


def start(ours: list[OurController]) -> OurController:
    for each in ours:
        each.launch()
    for each in ours:
        each.wait_ready()
    return wait_leader(ours)


def wait_leader(ours: list[OurController], besides: OurController | None = None) -> OurController:
    """Who leads and is one of these, and not `besides`."""
    found: list[OurController] = []
    others = [each for each in ours if each is not besides]

    def why_not() -> str | None:
        leader = leading(others)
        found[:] = [each for each in others if each.spec.node_id == leader]
        return None if found else f"the leader is {leader}"

    wait_for(why_not, "a leader")
    return found[0]


def high_watermark(controller: OurController) -> int:
    return int(controller.status()["quorum"]["high_watermark"])


def assert_goes_on(controller: OurController) -> None:
    """Records are committed from now on."""
    before = high_watermark(controller)

    def why_not() -> str | None:
        return None if high_watermark(controller) >= before + 4 else "nothing is committed"

    wait_for(why_not, "records are committed")


def findings(controller: OurController) -> list[str]:
    return [each["code"] for each in controller.status()["findings"]]


def wait_findings(controller: OurController, *wanted: str) -> None:
    """Exactly these, once it is known: they follow what happens a moment later."""
    wait_for(
        lambda: None if (found := findings(controller)) == [*wanted] else f"{found}",
        f"the findings of {controller.name} are {[*wanted]}",
    )


def test_idle_connections_take_no_descriptor_that_the_log_needs(laboratory: Laboratory) -> None:
    """`ulimit -n 120` and 110 idle connections froze the high watermark for ever."""
    with three_of_ours(laboratory, LIMITED) as ours:
        leader = start(ours)
        epoch = leader.status()["quorum"]["epoch"]
        idle = [socket.create_connection((HOST, leader.spec.port), timeout=60) for _ in range(110)]
        try:
            for _ in range(3):
                assert_goes_on(leader)
            wait_for(leader.spec.why_not_answering, "the leader answers")
            assert leader.status()["quorum"]["epoch"] == epoch
            wait_findings(leader, CONNECTIONS_FULL.code)
            assert all(each.is_running for each in ours)
        finally:
            for each in idle:
                each.close()
        assert_goes_on(leader)


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no C compiler: a disk that hangs is made with one")
def test_a_leader_whose_disk_hangs_is_followed_by_another_and_returns(laboratory: Laboratory, tmp_path: Path) -> None:
    source, library = tmp_path / "hanging_fsync.c", tmp_path / "hanging_fsync.so"
    source.write_text(HANGING_FSYNC)
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True, timeout=240)
    with three_of_ours(laboratory, extra=SILENT_SOON) as ours:
        for each in ours:
            each.environment |= {"LD_PRELOAD": str(library), "HANGS_WHILE": str(tmp_path / each.name)}
        leader = start(ours)
        assert_goes_on(leader)
        hangs = tmp_path / leader.name
        hangs.touch()
        try:
            successor = wait_leader(ours, besides=leader)
            for _ in range(3):
                assert_goes_on(successor)
            wait_findings(leader, LOG_FLUSH_SILENT.code)
            assert leader.status()["quorum"]["role"] != "leader"
            successor = wait_leader(ours, besides=leader)
        finally:
            hangs.unlink()
        assert_catches_up(leader, successor)
        wait_findings(leader)


def test_a_follower_whose_disk_hangs_ends_when_it_is_told_to(laboratory: Laboratory, tmp_path: Path) -> None:
    """And disturbs nobody meanwhile. It waits for its disk no longer than the stop allows."""
    if shutil.which("gcc") is None:
        pytest.skip("no C compiler: a disk that hangs is made with one")
    source, library = tmp_path / "hanging_fsync.c", tmp_path / "hanging_fsync.so"
    source.write_text(HANGING_FSYNC)
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], check=True, timeout=240)
    with three_of_ours(laboratory) as ours:
        for each in ours:
            each.environment |= {"LD_PRELOAD": str(library), "HANGS_WHILE": str(tmp_path / each.name)}
        leader = start(ours)
        epoch = leader.status()["quorum"]["epoch"]
        follower = next(each for each in ours if each is not leader)
        (tmp_path / follower.name).touch()
        for _ in range(4):
            assert_goes_on(leader)
        wait_findings(follower, LOG_FLUSH_SILENT.code)
        assert leader.status()["quorum"]["epoch"] == epoch
        follower.stop(60)
        assert not follower.is_running
        assert_goes_on(leader)


@pytest.mark.skipif(os.geteuid() != 0, reason="a small disk is mounted, which root may")
def test_a_leader_whose_disk_is_full_ends_and_another_leads(laboratory: Laboratory) -> None:
    with three_of_ours(laboratory) as ours, small_disk(ours[0]), small_disk(ours[1]), small_disk(ours[2]):
        leader = start(ours)
        assert_goes_on(leader)
        filler = leader.data / "filler"
        fill(filler)
        # it is noticed when the page that the log's end lies in is full: some 40 records of half a second
        assert leader.process.wait_for_exit(HANGS_AFTER_S)
        assert leader.process.exit_code == 1
        assert LOG_NOT_ON_DISK.code in leader.process.log_text()
        assert "No space left on device" in leader.process.log_text()
        successor = wait_leader(ours, besides=leader)
        assert_goes_on(successor)
        filler.unlink()
        leader.start()
        assert_catches_up(leader, successor)


@pytest.mark.skipif(os.geteuid() != 0, reason="a small disk is mounted, which root may")
def test_a_leader_without_room_for_a_snapshot_goes_on_and_tells_of_it_until_there_is_room(
    laboratory: Laboratory,
) -> None:
    often: dict[str, Value] = {"metadata.log.max.record.bytes.between.snapshots": 2_000}
    with three_of_ours(laboratory, extra=often) as ours, small_disk(ours[0]), small_disk(ours[1]), small_disk(ours[2]):
        leader = start(ours)
        assert_goes_on(leader)
        epoch = leader.status()["quorum"]["epoch"]
        change_quotas(leader, 1.0)
        wait_snapshot(leader, 1)
        filler = leader.data / "filler"
        fill_up_to(filler, LEFT_FOR_THE_LOG)
        before = change_quotas(leader, 2.0)
        wait_findings(leader, SNAPSHOT_NOT_WRITTEN.code)
        (told,) = leader.status()["findings"]
        assert "have to be left for the log" in told["says"]
        for limit in range(3, 10):
            change_quotas(leader, float(limit))
        assert_goes_on(leader)
        assert findings(leader) == [SNAPSHOT_NOT_WRITTEN.code], "it stands as long as its cause"
        assert (leading(ours), leader.status()["quorum"]["epoch"]) == (leader.spec.node_id, epoch)
        assert all(each.is_running for each in ours)
        assert findings(next(each for each in ours if each is not leader)) == []
        assert list(leader.metadata_log.glob("*.part")) == []

        filler.unlink()
        change_quotas(leader, 10.0)
        wait_snapshot(leader, before)
        wait_findings(leader)
        assert (leading(ours), leader.status()["quorum"]["epoch"]) == (leader.spec.node_id, epoch)


@pytest.mark.skipif(os.geteuid() != 0, reason="a small disk is mounted, which root may")
def test_snapshots_that_fill_every_disk_end_no_controller(laboratory: Laboratory) -> None:
    """They took the last room, and the leader ended when its log could not grow (Z2K-3121)."""
    often: dict[str, Value] = {"metadata.log.max.record.bytes.between.snapshots": 2_000}
    with three_of_ours(laboratory, extra=often) as ours, small_disk(ours[0]), small_disk(ours[1]), small_disk(ours[2]):
        leader = start(ours)
        assert_goes_on(leader)
        epoch = leader.status()["quorum"]["epoch"]
        full = [[SNAPSHOT_NOT_WRITTEN.code]] * 3
        for group in range(400):  # 150 with a snapshot of everything each: some 20 MiB in all, on disks of 8 MiB
            change_quotas(leader, 1.0, group)
            if group >= 150 and [findings(each) for each in ours] == full:
                break
        assert all(each.is_running for each in ours)
        assert [findings(each) for each in ours] == full
        assert_goes_on(leader)
        assert (leading(ours), leader.status()["quorum"]["epoch"]) == (leader.spec.node_id, epoch)


def change_quotas(leader: OurController, limit: float, group: int = 0) -> int:
    """As an administrator does, of 40 users in one request: over 2,000 bytes of records. The high watermark then."""
    entries = tuple(
        AlterClientQuotasEntry(
            (ClientQuotaEntity(entity_type="user", entity_name=f"user-{group}-{number}"),),
            (ClientQuotaOp("producer_byte_rate", limit),),
        )
        for number in range(40)
    )

    async def ask() -> AlterClientQuotasResponse:
        connection = BrokerConnection(HOST, leader.spec.port, "a test")
        try:
            return await connection.ask(AlterClientQuotasRequest(entries), 1, AlterClientQuotasResponse, 120)
        finally:
            connection.close()

    assert [each.error_code for each in asyncio.run(ask()).entries] == [0] * len(entries)
    return high_watermark(leader)


def wait_snapshot(controller: OurController, at_least: int) -> None:
    """at_least: its end offset."""

    def why_not() -> str | None:
        ends = [int(each.name[:20]) for each in controller.metadata_log.glob("*.checkpoint")]
        return None if max(ends, default=0) >= at_least else f"snapshots end at {sorted(ends)}"

    wait_for(why_not, f"a snapshot that ends at {at_least}")


def assert_catches_up(controller: OurController, leader: OurController) -> None:
    target = high_watermark(leader)

    def why_not() -> str | None:
        try:
            return None if high_watermark(controller) >= target else "it is behind"
        except (OSError, FindingError) as error:
            return str(error)

    wait_for(why_not, "it has what the leader had")


@contextmanager
def small_disk(controller: OurController) -> Iterator[None]:
    """Its data lies on a disk of 8 MiB, in memory."""
    moved = controller.directory / "moved"
    controller.data.rename(moved)
    controller.data.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "none", str(controller.data)], check=True, timeout=240)
    try:
        shutil.copytree(moved, controller.data, dirs_exist_ok=True)
        yield
    finally:
        subprocess.run(["umount", "-l", str(controller.data)], check=True, timeout=240)


def fill_up_to(path: Path, left: int) -> None:
    """left: bytes that stay free."""
    disk = os.statvfs(path.parent)
    with path.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, disk.f_bavail * disk.f_frsize - left)


def fill(path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        while True:
            os.write(descriptor, bytes(4096))
    except OSError:
        return
    finally:
        os.close(descriptor)
