"""What the benchmark of the two roads reads from logs, answers and moments."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from migrator.wire.frames import encode_response
from migrator.wire.messages.topics import (
    CreatableTopicResult,
    CreateTopicsResponse,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from tests.benchmarks import controller_probe
from tests.benchmarks.controller_probe import ControllerProbe, why_not_whole
from tests.benchmarks.figures import between_markers
from tests.benchmarks.road_figures import (
    OURS,
    STOCK,
    Phase,
    PhaseFigures,
    RoadFigures,
    Stretch,
    Stretches,
    leader_and_lags,
    our_takeover,
    outages_s,
    phase_figures,
    stock_takeover,
    table,
)
from tests.benchmarks.stock_road import MARKER, PAGE, page_text

DRIVER = "(org.apache.kafka.metadata.migration.KRaftMigrationDriver)"
STOCK_LOG = f"""\
[2026-11-24 11:57:47,078] INFO [KRaftMigrationDriver id=3000] 3000 transitioning from UNINITIALIZED to INACTIVE state {DRIVER}
[2026-11-24 11:57:57,000] INFO [KRaftMigrationDriver id=3000] 3000 transitioning from INACTIVE to WAIT_FOR_CONTROLLER_QUORUM state {DRIVER}
[2026-11-24 11:57:58,000] INFO [KRaftMigrationDriver id=3000] 3000 transitioning from WAIT_FOR_BROKERS to BECOME_CONTROLLER state {DRIVER}
[2026-11-24 11:57:58,250] INFO [KRaftMigrationDriver id=3000] 3000 transitioning from BECOME_CONTROLLER to ZK_MIGRATION state {DRIVER}
[2026-11-24 11:57:58,750] INFO [KRaftMigrationDriver id=3000] Completed migration of metadata from ZooKeeper to KRaft. 68 records were generated in 470 ms across 1 batches. {DRIVER}
[2026-11-24 11:57:59,000] INFO [KRaftMigrationDriver id=3000] 3000 transitioning from SYNC_KRAFT_TO_ZK to KRAFT_CONTROLLER_TO_BROKER_COMM state {DRIVER}
[2026-11-24 11:57:59,500] INFO [KRaftMigrationDriver id=3000] 3000 transitioning from KRAFT_CONTROLLER_TO_BROKER_COMM to DUAL_WRITE state {DRIVER}
"""  # noqa: E501
REPLICATION = """\
NodeId\tDirectoryId           \tLogEndOffset\tLag\tLastFetchTimestamp\tLastCaughtUpTimestamp\tStatus  \t
3001  \tAAAAAAAAAAAAAAAAAAAAAA\t270         \t0  \t1795506878041     \t1795506878041        \tLeader  \t
3000  \tAAAAAAAAAAAAAAAAAAAAAA\t268         \t2  \t1795506877541     \t1795506877541        \tFollower\t
3002  \tAAAAAAAAAAAAAAAAAAAAAA\t270         \t0  \t1795506877541     \t1795506877541        \tFollower\t
0     \tAAAAAAAAAAAAAAAAAAAAAA\t260         \t10 \t1795506877541     \t1795506877541        \tObserver\t
"""


# --- logs -------------------------------------------------------------------------------------------------


def test_stock_says_in_its_log_how_long_its_copy_and_its_takeover_took() -> None:
    taken = stock_takeover(STOCK_LOG)
    assert taken is not None
    assert (taken.copy_s, taken.window_s) == (0.5, 1.5)
    assert taken.claimed == datetime(2026, 11, 24, 11, 57, 58).timestamp()


def test_a_stock_controller_that_only_followed_has_no_takeover() -> None:
    assert stock_takeover(STOCK_LOG.splitlines()[0]) is None


def test_a_stock_controller_that_took_over_after_another_one_copied_nothing() -> None:
    lines = [line for line in STOCK_LOG.splitlines() if "Completed" not in line and "ZK_MIGRATION" not in line]
    assert stock_takeover("\n".join(lines)) is None


def test_the_copy_of_ours_is_that_of_the_takeover_that_succeeded() -> None:
    def state(to: str, second: float) -> dict[str, Any]:
        return {"event": "driver.state", "to": to, "timestamp": f"2026-11-24T07:58:{second:09.6f}Z"}

    events = [
        state("COPYING", 1.0),
        state("ABORTED", 2.0),
        state("COPYING", 10.25),
        state("SYNCING", 10.5),
        state("DUAL_WRITE", 10.9),
        {"event": "dual_write.entered", "window_ms": 800, "timestamp": "2026-11-24T07:58:10.900000Z"},
    ]
    taken = our_takeover(events)
    assert taken is not None
    assert (taken.copy_s, taken.window_s) == (0.25, 0.8)
    assert abs(taken.claimed - datetime(2026, 11, 24, 7, 58, 10, 100_000, tzinfo=UTC).timestamp()) < 0.001
    assert our_takeover(events[:4]) is None


def test_the_tool_of_the_quorum_tells_the_leader_and_who_is_behind() -> None:
    assert leader_and_lags(REPLICATION) == (3001, {3001: 0, 3000: 2, 3002: 0})
    assert leader_and_lags("") == (None, {})


# --- moments ----------------------------------------------------------------------------------------------


def test_a_phase_that_comes_twice_is_one_row_with_the_worst_of_both() -> None:
    stretches = [Stretch(Phase.CHECK, 0, 2), Stretch(Phase.JOIN, 2, 3), Stretch(Phase.CHECK, 3, 6)]
    acknowledged = [0, 500_000, 1_900_000, 2_100_000, 3_500_000, 6_000_000]
    check, join = phase_figures(stretches, acknowledged, [0, 2_500_000, 6_000_000])
    assert check == PhaseFigures(Phase.CHECK, seconds=5.0, stall_s=2.5, unserved_s=3.5)
    assert join == PhaseFigures(Phase.JOIN, seconds=1.0, stall_s=1.4, unserved_s=3.5)


def test_only_a_second_and_more_without_an_answer_is_an_outage() -> None:
    answered = [100_000, 1_050_000, 2_200_000, 3_000_000, 9_000_000]
    assert outages_s(answered, start=0.0, end=5.0) == [1.15, 2.0]
    assert outages_s([], start=0.0, end=5.0) == [5.0]


def test_the_end_of_a_phase_may_be_known_only_afterwards() -> None:
    stretches = Stretches()
    stretches.begin(Phase.JOIN, at=10.0)
    stretches.begin(Phase.TAKEOVER, at=12.0)
    stretches.begin(Phase.ROLL, at=13.0)
    assert stretches.found == [Stretch(Phase.JOIN, 10.0, 12.0), Stretch(Phase.TAKEOVER, 12.0, 13.0)]


# --- answers of brokers -----------------------------------------------------------------------------------


def a_view(
    *brokers: int, isr: tuple[int, ...] = (0, 1, 2), leader: int = 0, topic: str = "topic-0"
) -> MetadataResponse:
    partition = MetadataResponsePartition(
        partition_index=3, leader_id=leader, replica_nodes=(0, 1, 2), isr_nodes=isr, leader_epoch=4
    )
    return MetadataResponse(
        brokers=tuple(MetadataResponseBroker(node_id=each) for each in brokers),
        topics=(MetadataResponseTopic(name="topic-0", partitions=(partition,)),),
    )


def test_the_cluster_is_whole_only_when_every_broker_says_so() -> None:
    whole = a_view(0, 1, 2)
    assert why_not_whole({0: whole, 1: whole, 2: whole}, ["topic-0"]) is None
    reason = why_not_whole({0: whole, 1: whole, 2: a_view(0, 1, 2, isr=(0, 1))}, ["topic-0"])
    assert reason == "broker 2 says that 1 partitions are under-replicated, for instance topic-0-3"
    assert why_not_whole({0: whole, 1: a_view(0, 1), 2: whole}, []) == "broker 1 does not name [2]"
    assert why_not_whole({0: whole}, ["gone"]) == "broker 0 does not know ['gone']"
    assert why_not_whole({0: a_view(0, leader=-1)}, []) == (
        "broker 0 says that 1 partitions are under-replicated, for instance topic-0-3"
    )


@contextmanager
def a_broker(errors: list[int | None]) -> Iterator[int]:
    """Answers CreateTopics with these error codes, one after the other, the last one for ever; None closes."""
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            with closing(connection):
                while connection.recv(1000):
                    error = errors.pop(0) if len(errors) > 1 else errors[0]
                    if error is None:
                        break
                    answer = CreateTopicsResponse(topics=(CreatableTopicResult(name="x", error_code=error),))
                    connection.sendall(encode_response(answer, 7, correlation_id=1))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield int(listening.getsockname()[1])
    finally:
        listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(5)


def test_only_an_answer_without_an_error_shows_a_controller_and_a_closed_connection_is_opened_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(controller_probe, "ANSWER_S", 60.0)  # the broker is a thread, and may stand still
    with a_broker([41, None, 41, 0]) as port, ControllerProbe({0: port}) as probe:
        ends = time.monotonic() + 60
        while not probe.served_us and time.monotonic() < ends:
            time.sleep(0.01)
    assert probe.refused == {41: 2}
    assert probe.served_us


# --- the tables -------------------------------------------------------------------------------------------


def a_road(system: str, *phases: PhaseFigures) -> RoadFigures:
    return RoadFigures(
        system=system,
        seconds=100.0,
        phases=[*phases],
        slowest_s=3.0,
        outages_s=[1.5, 2.0],
        copy_s=0.5,
        window_s=1.5,
        broker_restarts=6,
        controller_restarts=3,
        acknowledged=18_543,
        lost=0,
        wrong={},
    )


def test_both_roads_stand_in_one_table_and_the_worst_phase_is_named() -> None:
    join, soak = PhaseFigures(Phase.JOIN, 40.0, 2.5, 0.1), PhaseFigures(Phase.SOAK, 20.0, 0.2, 2.0)
    lines = table([a_road(STOCK, join), a_road(OURS, join, soak)]).splitlines()
    assert lines[0] == "| | stock, by hand | zk2kraft |"
    assert lines[2] == f"| longest producer stall, and in which phase | 2.50 s ({Phase.JOIN}) | 2.50 s ({Phase.JOIN}) |"
    assert f"| longest time without a controller that serves | 0.10 s ({Phase.JOIN}) | 2.00 s ({Phase.SOAK}) |" in lines
    assert "| all such times of 1 s and more | 3.5 s in 2 | 3.5 s in 2 |" in lines
    assert "| acknowledged records | 18,543 | 18,543 |" in lines
    assert lines[-1] == f"| {Phase.SOAK} | - | 20 s, 0.20 s, 2.00 s |"


def test_the_page_has_a_place_for_the_table_and_names_no_host() -> None:
    text = page_text([a_road(STOCK, PhaseFigures(Phase.JOIN, 1, 1, 1))], 8, 200.0, datetime(2026, 11, 24, tzinfo=UTC))
    assert text.startswith("2026-11-24; ")
    assert socket.gethostname() not in text
    assert text in between_markers(PAGE.read_text(), MARKER, text)
