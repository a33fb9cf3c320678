"""Threads for hosts: bounds per host and in all, answers with an age of their own, limits from what a round takes."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import wait
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec
import pytest

from migrator.findings.fleet import ACT_TOO_SLOW, HOST_UNANSWERED, HOSTS_TOO_SLOW
from state_machine.evidence.after_dual_write import fleet_evidence
from state_machine.evidence.file_watch import NodeFiles, file_findings, read_files
from state_machine.facts.guards import GuardFact
from state_machine.nodes.calls import HostCalls, HostThreads
from state_machine.nodes.fleet import Fleet
from state_machine.nodes.readings import NodeReadings
from state_machine.policy.conditions import files_are_as_rendered, guards_are_proven
from state_machine.policy.freshness import CEILING_S, FLOOR_S, limit_s
from state_machine.policy.phases import Phase
from state_machine.rows.documents import FILES, FilesDocument
from state_machine.rows.tables import Migration
from tests.unit.state_machine.evidence.test_hanging_hosts import FILE, on_own_host
from tests.unit.state_machine.nodes.test_road_parts import Host, a_row, an_inventory_file
from tests.unit.state_machine.world import Clock, World


@dataclass
class Gate(Host):
    """It answers once the test lets it."""

    opened: threading.Event = field(default_factory=threading.Event)
    asked: int = 0

    def read(self, path: str) -> bytes | None:
        self.asked += 1
        self.opened.wait(20)
        return FILE


def test_no_host_and_no_migration_has_more_than_its_bound_of_calls() -> None:
    lock, now, most = threading.Lock(), {"a": 0, "b": 0, "c": 0}, {"a": 0, "b": 0, "c": 0, "all": 0}

    def work(host: str) -> None:
        with lock:
            now[host] += 1
            most[host] = max(most[host], now[host])
            most["all"] = max(most["all"], sum(now.values()))
        time.sleep(0.01)
        with lock:
            now[host] -= 1

    with closing(HostCalls("test", at_once=3, per_host=2)) as calls:
        begun = [calls.begin(host, lambda host=host: work(host)) for host in "aaaaabbbbbccccc"]  # type: ignore[misc]
        for each in begun:
            each.result.result(20)
    assert max(most[host] for host in "abc") <= 2
    assert most["all"] == 3


def test_calls_that_hang_on_one_host_leave_the_threads_to_the_others() -> None:
    opened = threading.Event()
    with closing(HostCalls("test", at_once=3, per_host=2)) as calls:
        hang = [calls.begin("dead", lambda: opened.wait(20)) for _ in range(10)]
        assert [calls.begin("alive", lambda: 7).result.result(20) for _ in range(3)] == [7, 7, 7]
        opened.set()
        assert all(each.result.result(20) for each in hang)


def test_a_call_that_never_begins_is_cancelled_when_the_service_ends() -> None:
    opened = threading.Event()
    calls = HostCalls("test", at_once=1)
    first, second = (calls.begin("host", lambda: opened.wait(20)) for _ in range(2))
    calls.close()
    assert second.result.cancelled()
    opened.set()
    assert first.result.result(20)


def test_hosts_of_one_migration_that_hang_delay_neither_another_migration_nor_the_service() -> None:
    """Before, all of them and every other blocking act shared the six threads of a service on two cores."""
    opened = threading.Event()

    async def story() -> None:
        threads = HostThreads()
        hang = [asyncio.create_task(threads.away(1, opened.wait, 20)) for _ in range(20)]
        await asyncio.sleep(0)
        assert await asyncio.wait_for(threads.away(2, int, "7"), 10) == 7
        assert await asyncio.wait_for(asyncio.to_thread(int, "7"), 10) == 7
        opened.set()
        await asyncio.gather(*hang)
        threads.close()

    asyncio.run(story())


def test_a_host_that_hangs_makes_no_other_answer_older_and_is_named(tmp_path: Path) -> None:
    world, clock, hangs = World(tmp_path), Clock(100.0), Gate()
    fleet = Fleet(
        an_inventory_file(), (on_own_host(Host({"/etc/kafka.properties": FILE}), 1), on_own_host(hangs, 2)), ""
    )
    said: NodeReadings[NodeFiles] = NodeReadings(clock, patience_s=1.0)
    with closing(HostCalls("test")) as calls:
        first = read_files(world.snapshot, fleet, clock(), said, calls)
        assert list(first.checksums) == ["broker 1"]
        assert first.not_read[0].words.startswith("broker 2: /etc/kafka.properties: its host has not answered for")
        found = file_findings(world.snapshot, msgspec.structs.replace(first, unanswered={"broker 2": 12.0}))
        assert HOST_UNANSWERED.code == "Z2K-7055" in {each.code for each in found}
        hangs.opened.set()
        wait([call.result for call in said._under_way.values()])
        clock.pass_by(30)
        second = read_files(world.snapshot, fleet, clock(), said, calls)
        assert second.read_at == {"broker 1": 130.0, "broker 2": 130.0}
        hangs.opened.clear()
        clock.pass_by(30)
        third = read_files(world.snapshot, fleet, clock(), said, calls)
        asked = hangs.asked
        fourth = read_files(world.snapshot, fleet, clock(), said, calls)
        hangs.opened.set()
    assert third.read_at == {"broker 1": 160.0, "broker 2": 130.0}
    assert list(third.unanswered) == ["broker 2"]
    assert not third.not_read, "what it said before counts, with its own age"
    assert (fourth.read_at, hangs.asked) == (third.read_at, asked), "one that hangs is not asked again"


def test_an_answer_of_before_the_last_step_of_its_node_is_none(tmp_path: Path) -> None:
    world, clock, host = World(tmp_path), Clock(100.0), Gate()
    host.opened.set()
    node = on_own_host(host, 1)
    said: NodeReadings[int] = NodeReadings(clock, patience_s=1.0)
    with closing(HostCalls("test")) as calls:
        ask = lambda each: len(each.actuator.read(each.path) or b"")  # noqa: E731
        assert said.round(calls, world.snapshot, [node], ask)["broker 1"].answer == len(FILE)
        host.opened.clear()
        moved = replace(world.snapshot, road=(a_row(role="broker", node_id=1, step="WRITTEN"),))
        assert said.round(calls, moved, [node], ask)["broker 1"].answer is None
        host.opened.set()


def test_a_failed_answer_is_as_old_as_its_failure_and_a_content_as_its_question(tmp_path: Path) -> None:
    clock, snapshot = Clock(100.0), World(tmp_path).snapshot

    @dataclass
    class Slow(Host):
        fails: bool = False

        def read(self, path: str) -> bytes | None:
            clock.pass_by(20)
            if self.fails:
                raise ACT_TOO_SLOW.error(act="read", node=2, seconds=20)
            return FILE

    for fails, at in ((False, 100.0), (True, 140.0)):
        fleet = Fleet(an_inventory_file(), (on_own_host(Slow(fails=fails), 2),), "")
        seen = read_files(snapshot, fleet, clock(), NodeReadings(clock))
        assert seen.read_at == {"broker 2": at}


@pytest.mark.parametrize(
    ("every_s", "round_s", "limit"), [(30, 5, FLOOR_S), (30, 60, 180.0), (30, 1000, CEILING_S), (3600, 1, CEILING_S)]
)
def test_the_age_that_counts_follows_from_what_a_round_takes(every_s: float, round_s: float, limit: float) -> None:
    assert limit_s(every_s, round_s) == limit


def test_readings_beyond_the_ceiling_are_a_finding(tmp_path: Path) -> None:
    snapshot = World(tmp_path).snapshot
    assert file_findings(snapshot, FilesDocument(1.0, round_s=59.0, limit_s=178.0)) == ()
    (found,) = file_findings(snapshot, FilesDocument(1.0, round_s=700.0, limit_s=CEILING_S))
    assert found.code == HOSTS_TOO_SLOW.code == "Z2K-7054"
    assert "takes 700 s" in found.text


def test_a_gate_names_the_host_whose_answer_is_too_old_and_no_other_guard_closes_with_it(tmp_path: Path) -> None:
    """Of 65 hosts one is slow: before, "the service read no host in the last 2 minutes" was said of all of them."""
    world = World(tmp_path)
    now = world.clock()
    files = FilesDocument(
        now - 10.0,
        guards=(GuardFact(3000, "proven", "it is", now - 9.0), GuardFact(3001, "proven", "it is", now - 130.0)),
        read_at={"controller 3000": now - 9.0, "controller 3001": now - 130.0, "broker 1": now - 8.0},
    )
    with world.store.writing() as session:
        session.get_one(Migration, world.id).phase = Phase.SOAK
    world.store.record_document(world.id, FILES, msgspec.to_builtins(files), at=now)
    road = fleet_evidence(world.snapshot, now)
    assert road is not None
    first, second = guards_are_proven(road)
    assert first.holds
    assert not second.holds
    assert second.message == "it was last read 130 s ago, and an answer counts for 120 s"
    assert "Z2K-7054" in second.codes
    rendered = files_are_as_rendered(road)
    assert not rendered.holds
    assert "the file of controller 3001 was last read 130 s ago" in rendered.message
    slow = msgspec.structs.replace(files, limit_s=180.0)
    world.store.record_document(world.id, FILES, msgspec.to_builtins(slow), at=now)
    road = fleet_evidence(world.snapshot, now)
    assert road is not None
    assert all(each.holds for each in guards_are_proven(road))
