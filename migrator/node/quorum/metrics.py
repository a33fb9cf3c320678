"""What a controller measures of itself: the whole way of a change, elections, fetches, and where the node stands.

In:   moments of the shell (raft_node, active_controller, server), and the status of the process at a scrape.
Out:  the text of `/metrics`, for Prometheus. Names, help and units are here and nowhere else; docs/metrics.md has them
      as a table, which a unit test compares with this module.
Elsewhere: serving it (process/control.py), Kafka's own names (nobody yet), the service's metrics (api).
Rules: observed on the loop's thread only; a scrape on another thread reads single values and copies of lists, so a sum
may be one observation behind its count. An observation costs less than a microsecond. Times are seconds.

The way of a change, as a leader sees it:

    request ──decide──► records ──append──► in the file ──replicate──► a majority has it on disk ──apply──► reply
    └───────────────────────────────────────────── commit ──────────────────────────────────────────────────┘

`replicate` contains the leader's own `fsync` and that of the followers, which run beside each other.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Any, Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric

from migrator.raft.effects import Standing
from migrator.raft.types import NOBODY

BUCKETS_S: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0,
)  # fmt: skip
"""From an fsync of a good disk to an election that needs several tries."""

UNMATCHED_MAX: Final = 100_000
"""Changes whose way is measured at the same time; beyond that the oldest is not measured."""

_KNOWS_A_LEADER: Final = frozenset({Standing.FOLLOWER, Standing.OBSERVER, Standing.LEADER})


class Histogram:
    """How long something took, by buckets."""

    def __init__(self, name: str, help_text: str) -> None:
        self.name = name
        self.help = help_text
        self.counts = [0] * (len(BUCKETS_S) + 1)
        self.sum = 0.0

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(BUCKETS_S, seconds)] += 1
        self.sum += seconds

    def family(self) -> Metric:
        bounds = [*map(str, BUCKETS_S), "+Inf"]
        cumulative = list(accumulate(self.counts.copy()))
        buckets = list(zip(bounds, cumulative, strict=True))
        return HistogramMetricFamily(self.name, self.help, buckets=buckets, sum_value=self.sum)


class Counter:
    """How often, or how much, since the process started. name: without `_total`, which the format adds."""

    def __init__(self, name: str, help_text: str) -> None:
        self.name = name
        self.help = help_text
        self.value = 0

    def family(self) -> Metric:
        return CounterMetricFamily(self.name, self.help, value=self.value)


class Metrics:
    """One for each process. clock: seconds, of any origin."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.append = Histogram("zk2kraft_append_seconds", "from the decision on a change to its bytes in the log file")
        self.fsync = Histogram("zk2kraft_fsync_seconds", "one flush of the log to disk; it may cover many changes")
        self.replicate = Histogram(
            "zk2kraft_replicate_seconds", "on the leader, from a batch in its log file to a majority having it on disk"
        )
        self.commit = Histogram(
            "zk2kraft_commit_seconds", "from a request that was read to its reply, of requests that wait for a commit"
        )
        self.apply = Histogram(
            "zk2kraft_apply_seconds", "putting committed records into the image: a commit on the leader, else a piece"
        )
        self.election = Histogram("zk2kraft_election_seconds", "from this node's standing for leader to its leading")
        self.without_leader = Histogram(
            "zk2kraft_without_leader_seconds", "from this node's losing its leader to its knowing of one again"
        )
        self.fetches = Counter("zk2kraft_fetches_served", "fetches of voters, brokers and others that were answered")
        self.fetched_bytes = Counter("zk2kraft_fetch_sent_bytes", "bytes of the log in these answers")
        self._clock = clock
        self._decided: deque[tuple[int, float]] = deque(maxlen=UNMATCHED_MAX)
        self._written: deque[tuple[int, float]] = deque(maxlen=UNMATCHED_MAX)
        self._stands_since: float | None = None
        self._lost_since: float | None = None
        self._had_leader = False
        self._status: Mapping[str, Any] = {}
        self.registry.register(self)

    # --- the way of a change -------------------------------------------------------------------------------

    def decided(self, last_offset: int, at: float) -> None:
        """Records up to `last_offset` are about to be appended; they were decided on at `at`."""
        self._decided.append((last_offset, at))

    def written(self, end: int) -> None:
        """The leader's own records before `end` are in the file."""
        now = self._clock()
        while self._decided and self._decided[0][0] < end:
            self.append.observe(now - self._decided.popleft()[1])
        self._written.append((end, now))

    def committed(self, high_watermark: int) -> None:
        if not self._written:
            return
        now = self._clock()
        while self._written and self._written[0][0] <= high_watermark:
            self.replicate.observe(now - self._written.popleft()[1])

    def forgotten(self) -> None:
        """This node leads no more: nobody knows what becomes of what it wrote."""
        self._decided.clear()
        self._written.clear()

    def fetch_served(self, size: int) -> None:
        self.fetches.value += 1
        self.fetched_bytes.value += size

    # --- elections -----------------------------------------------------------------------------------------

    def stands(self, standing: Standing, leader: int) -> None:
        """What this node is now, and whom it believes to lead. A candidate that stands again began with its first try.

        A node that never knew a leader has lost none: its start is not counted.
        """
        now = self._clock()
        if standing in _KNOWS_A_LEADER and leader != NOBODY:
            if self._lost_since is not None:
                self.without_leader.observe(now - self._lost_since)
            if standing is Standing.LEADER and self._stands_since is not None:
                self.election.observe(now - self._stands_since)
            self._had_leader, self._lost_since, self._stands_since = True, None, None
            return
        if self._had_leader and self._lost_since is None:
            self._lost_since = now
        if standing in (Standing.PROSPECTIVE, Standing.CANDIDATE) and self._stands_since is None:
            self._stands_since = now

    # --- a scrape ------------------------------------------------------------------------------------------

    def text(self, status: Mapping[str, Any]) -> str:
        """Everything, in Prometheus' text format. status: as `status.status` makes it."""
        self._status = status
        return generate_latest(self.registry).decode()

    def collect(self) -> Iterator[Metric]:
        for histogram in self.histograms:
            yield histogram.family()
        for counter in (self.fetches, self.fetched_bytes):
            yield counter.family()
        yield _role(self._status)
        yield _findings(self._status)
        if self._status.get("driver") is not None:
            yield from _driver(self._status["driver"], self._status["dual_write"])
        for name, (help_text, read) in GAUGES.items():
            value = read(self._status)
            if value is not None:
                yield GaugeMetricFamily(name, help_text, value=value)

    @property
    def histograms(self) -> tuple[Histogram, ...]:
        return (
            self.append, self.fsync, self.replicate, self.commit, self.apply, self.election, self.without_leader,
        )  # fmt: skip


def _role(status: Mapping[str, Any]) -> Metric:
    """One line for each role, of which one is 1: what this node is can be summed and alarmed on."""
    family = GaugeMetricFamily("zk2kraft_role", "1 for the role that this node has in its quorum", labels=["role"])
    for standing in Standing:
        family.add_metric([standing.value], float(_quorum("role")(status) == standing.value))
    return family


def _findings(status: Mapping[str, Any]) -> Metric:
    """What troubles this node now, whatever the driver says."""
    family = GaugeMetricFamily("zk2kraft_finding", "1 for each finding about this node that stands", labels=["code"])
    for code in sorted({each["code"] for each in status.get("findings", ())}):
        family.add_metric([code], 1.0)
    return family


def _driver(driver: Mapping[str, Any], dual_write: Mapping[str, Any]) -> Iterator[Metric]:
    """Where the driver is, and what it has found: a migration that stands still can be alarmed on (K-24)."""
    state = GaugeMetricFamily(DRIVER_STATE, DRIVER_LABELLED[DRIVER_STATE], labels=["state"])
    state.add_metric([driver["state"]], 1.0)
    yield state
    found = GaugeMetricFamily(DRIVER_FINDING, DRIVER_LABELLED[DRIVER_FINDING], labels=["code"])
    said = (driver["finding"], driver["trouble"], dual_write["finding"], *driver.get("alarms", ()))
    for code in sorted({each["code"] for each in said if each is not None}):
        found.add_metric([code], 1.0)
    yield found


def _quorum(key: str) -> Callable[[Mapping[str, Any]], Any]:
    return lambda status: status.get("quorum", {}).get(key)


def _connections(key: str) -> Callable[[Mapping[str, Any]], Any]:
    return lambda status: status.get("connections", {}).get(key)


def _seconds(key: str) -> Callable[[Mapping[str, Any]], float | None]:
    def read(status: Mapping[str, Any]) -> float | None:
        milliseconds = status.get(key)
        return None if milliseconds is None else milliseconds / 1000

    return read


def _of_driver(read: Callable[[Mapping[str, Any]], float | None]) -> Callable[[Mapping[str, Any]], float | None]:
    """Nothing where there is no driver: a controller without the migration."""
    return lambda status: read(status) if status.get("driver") is not None else None


def _refusing(status: Mapping[str, Any]) -> float:
    return float(sum(each["problem"] is not None for each in status["brokers"]))


def _without_controller(status: Mapping[str, Any]) -> float:
    return float(status["driver"]["without_controller_ms"] or 0) / 1000


DRIVER_STATE: Final = "zk2kraft_driver_state"
DRIVER_FINDING: Final = "zk2kraft_driver_finding"
DRIVER_LABELLED: Final[Mapping[str, str]] = {
    DRIVER_STATE: "1 for the state that the driver is in",
    DRIVER_FINDING: "1 for each finding that stands: why a state ended as it did, or what troubles this one",
}
"""Name and help of the two with a label of the driver: `state`, `code`."""

GAUGES: Final[Mapping[str, tuple[str, Callable[[Mapping[str, Any]], float | None]]]] = {
    "zk2kraft_leader": ("node id of the leader as this node knows it; -1: none", _quorum("leader")),
    "zk2kraft_leader_epoch": ("the quorum's epoch", _quorum("epoch")),
    "zk2kraft_high_watermark": ("records before this offset are committed", _quorum("high_watermark")),
    "zk2kraft_log_start_offset": ("first offset that the log has", _quorum("log_start")),
    "zk2kraft_log_end_offset": ("offset that the next record will have", _quorum("log_end")),
    "zk2kraft_snapshot_end_offset": ("the latest snapshot has every record before this; 0: none", _quorum("snapshot")),
    "zk2kraft_flush_waiting_seconds": (
        "how long the disk has not confirmed the flush that is under way; 0: none is",
        lambda status: status.get("quorum", {}).get("flush_waiting_ms", 0) / 1000,
    ),
    "zk2kraft_fetches_waiting": ("fetches that wait for news on this leader", _quorum("fetches_waiting")),
    "zk2kraft_connections": ("connections that others have open to this node", _connections("open")),
    "zk2kraft_connections_max": ("how many there may be; the longest silent one is closed then", _connections("most")),
    "zk2kraft_connections_without_place": (
        "connections that were refused, or closed for others, because all places were taken",
        _connections("without_place"),
    ),
    "zk2kraft_loop_delay_seconds": (
        "how late the loop was at the worst in the last ten seconds",
        _seconds("loop_delay_ms"),
    ),
    "zk2kraft_loop_work_seconds": (
        "the same without the time in which the loop waited for a processor",
        _seconds("loop_work_ms"),
    ),
    "zk2kraft_dual_write": (
        "1 while committed changes are written to ZooKeeper",
        _of_driver(lambda status: float(status["driver"]["state"] == "DUAL_WRITE")),
    ),
    "zk2kraft_zk_write_behind_records": (
        "records that ZooKeeper does not have yet",
        _of_driver(lambda status: status["dual_write"]["lag_records"]),
    ),
    "zk2kraft_zk_unmirrored": (
        "entries of the log that cannot be written to ZooKeeper; each blocks the rollback",
        _of_driver(lambda status: float(status["dual_write"]["unmirrored_count"])),
    ),
    "zk2kraft_zk_lagging_partitions": (
        "partition states whose version is behind the partition epoch; each blocks the rollback until it is raised",
        _of_driver(lambda status: status["dual_write"]["lagging_partitions"]),
    ),
    "zk2kraft_zk_lagging_operations": (
        "writes that are left until every partition state is at its partition epoch",
        _of_driver(lambda status: status["dual_write"]["lagging_operations"]),
    ),
    "zk2kraft_zk_orders": (
        "orders for a ZooKeeper controller in ZooKeeper; each blocks the rollback",
        _of_driver(lambda status: float(status["dual_write"]["orders_count"])),
    ),
    "zk2kraft_zk_behind_seconds": (
        "age of the oldest record that ZooKeeper does not have yet; 0: it has all of them",
        _of_driver(lambda status: status["dual_write"]["behind_ms"] / 1000),
    ),
    "kafka_controller_kafkacontroller_zkwritebehindlag": (
        "Kafka's ZkWriteBehindLag: records that ZooKeeper does not have yet",
        _of_driver(lambda status: status["dual_write"]["lag_records"]),
    ),
    "kafka_controller_kafkacontroller_zookeeperblockingkraftmillis": (
        "KIP-866's ZooKeeperBlockingKRaftMillis: how long ZooKeeper has kept changes of administrators waiting",
        _of_driver(lambda status: float(status["dual_write"]["blocking_ms"])),
    ),
    "zk2kraft_without_controller_seconds": (
        "time without controller since this node's takeover began; 0: there is a controller",
        _of_driver(_without_controller),
    ),
    "zk2kraft_driver_state_seconds": (
        "how long the driver has been in its state",
        _of_driver(lambda status: status["driver"]["since_ms"] / 1000),
    ),
    "zk2kraft_brokers_refusing": (
        "brokers that answered their last update with an error, or do not answer",
        _of_driver(_refusing),
    ),
    "zk2kraft_migrating_brokers": (
        "registered brokers in ZooKeeper mode",
        _of_driver(lambda status: float(sum(each["mode"] == "ZooKeeper" for each in status["brokers"]))),
    ),
}
"""Name, help, and where the value stands in the status; a value that is not known is not shown."""
