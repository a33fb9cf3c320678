"""What a log on disk and ZooKeeper say differently, for a rollback without controllers.

In:   a ZooKeeper session, the metadata log directory of a controller that does not run, the claim as read.
Out:  partition states whose versions are behind their partition epochs, how many are ahead of them, how many things
      differ otherwise, who is registered, and the configuration that only the log can have; the writes that raise
      those that are behind.
Elsewhere: records that ZooKeeper never got (unmirrored.py), the rollback itself (without_controllers.py), the same
while a controller lives (driver.lagging, rollback.py).
Why: brokers keep the partition epochs that our controllers told them. A ZooKeeper controller refuses ISR changes of a
partition whose state znode is at a lower version. Nobody is left to raise it, so the command does.
A stock controller writes states again that did not change, so their versions run ahead. Nothing is lost by that, as the
content is compared by itself. The ZooKeeper controller refuses ISR changes there as well, until it gives the partition
another leader epoch, as it does when a broker with a replica of it stops. So the brokers are restarted afterwards.
Source: Kafka 3.9 `ReplicaManager.becomeLeaderOrFollower` (only a higher leader epoch counts),
`KafkaController.doControlledShutdown`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Final, NamedTuple

from migrator.audit.compare import (
    STOCK_RUNS_AHEAD,
    VERSION_LAGS,
    Comparison,
    Difference,
    DifferenceKind,
    ExpectedDifferences,
)
from migrator.audit.log_source import CommittedRecords, read_directory
from migrator.audit.normalise import ORDERS, PRODUCER_IDS, LogFacts
from migrator.audit.quick import compare_sides
from migrator.driver.chained import guarded
from migrator.driver.checks.replacing import WITHOUT_ZNODE
from migrator.driver.claim import ClaimObservation
from migrator.driver.only_kraft import only_kraft
from migrator.findings.audit import LOG_INCONSISTENT
from migrator.findings.driver import WITHOUT_CONTROLLERS_REFUSED
from migrator.findings.finding import FindingError
from migrator.model.values import ConfigKey
from migrator.wire.messages.metadata import (
    ConfigRecord,
    RegisterBrokerRecord,
    RegisterControllerRecord,
    UnregisterBrokerRecord,
)
from migrator.wire.schema import Message
from migrator.zk import paths
from migrator.zk.multi import JUTE_MAXBUFFER_MIN, Check, Operation, SetData
from migrator.zk.pipeline import CONSIDERATE
from migrator.zk.session import ZkSession

OPERATIONS_AT_ONCE: Final = 10_000
"""In flight together, in as many multis as any server takes: nobody tells this command how they are set."""
STATES_AT_ONCE: Final = 1_000
RAISES_PER_S: Final = 5_000
"""About, for a person who reads the plan (docs/performance.md)."""

SETTLED_OTHERWISE: Final = frozenset({ORDERS, PRODUCER_IDS})
"""Orders are dropped by consent or refuse the rollback, and producer ids go on far behind all of them."""


class Behind(NamedTuple):
    """A state znode: the version that it has, and the partition epoch that brokers were told."""

    path: str
    version: int
    epoch: int


class Registered(NamedTuple):
    """Who is registered in a log.

    kraft_brokers: in KRaft mode. controllers: ids, each with (host, port) of its listeners; empty below
    metadata.version 15 (3.7-IV0), which has no such records.
    """

    kraft_brokers: frozenset[int]
    controllers: Mapping[int, tuple[tuple[str, int], ...]]


NOBODY: Final = Registered(frozenset(), MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class LogAgainstZooKeeper:
    """differing: what is not the same, by name. not_compared: why some of it, or all, could not be compared.

    ahead: how many states have a version above their partition epoch, as a stock controller leaves them.
    registered: who is registered in the log.
    only_kraft: configuration for which ZooKeeper has no form, all of it, in words.
    """

    behind: tuple[Behind, ...] = ()
    ahead: int = 0
    differing: tuple[str, ...] = ()
    not_compared: str = ""
    registered: Registered = NOBODY
    only_kraft: tuple[str, ...] = ()

    @property
    def writes(self) -> int:
        return sum(each.epoch - each.version for each in self.behind)

    @property
    def lines(self) -> tuple[str, ...]:
        """What was found, in words, a line for each kind."""
        found = []
        if self.behind:
            seconds = max(1, round(self.writes / RAISES_PER_S))
            found.append(
                f"{len(self.behind)} partition states are behind their partition epochs; {self.writes} writes raise "
                f"them first, about {seconds} s"
            )
        if self.ahead:
            found.append(
                f"{self.ahead} partition states are ahead of their partition epochs, as stock controllers leave them; "
                "restart each broker afterwards, one at a time: before that, such a partition may keep its ISR"
            )
        if self.differing:
            found.append(f"{len(self.differing)} things differ, and ZooKeeper's stay; the first is {self.differing[0]}")
        found += [f"ZooKeeper has no form of it, so it is lost: {each}" for each in self.only_kraft]
        if self.not_compared:
            found.append(f"not verified: {self.not_compared}")
        return tuple(found) or ("partition states are at their partition epochs, and nothing differs",)


NOT_LOOKED: Final = LogAgainstZooKeeper(
    not_compared="whether partition states are at their partition epochs, and whether something is lost for which "
    "ZooKeeper has no form (--log DIR compares, raises the states, and names what is lost)"
)


def look_at_both(session: ZkSession, directory: Path) -> LogAgainstZooKeeper:
    """Raises Z2K-5001 when the log cannot be read."""
    facts, without_znode, registrations = LogFacts(), _WithoutZnode(), _Registrations()
    records = registrations.noted(without_znode.noted(read_directory(directory, CommittedRecords())))
    why_not = _inconsistent(facts.apply, records)
    if why_not:
        _inconsistent(lambda _: None, records)  # the rest of the log
        looked = LogAgainstZooKeeper(not_compared=f"whether ZooKeeper says what the log says ({why_not})")
    else:
        rules = ExpectedDifferences(in_dual_write=True, ours_leads=False)  # nobody is left who could tell who led
        looked = _looked(compare_sides(session, facts, rules, CONSIDERATE))
    return replace(looked, registered=registrations.found, only_kraft=without_znode.lost)


def look_at_log(directory: Path) -> LogAgainstZooKeeper:
    """Who is registered in it, and what only it has: where `/migration` does not say up to which offset ZooKeeper is
    complete, nothing is compared. Raises Z2K-5001.
    """
    without_znode, registrations = _WithoutZnode(), _Registrations()
    _inconsistent(
        lambda _: None, registrations.noted(without_znode.noted(read_directory(directory, CommittedRecords())))
    )
    return replace(NOT_LOOKED, registered=registrations.found, only_kraft=without_znode.lost)


def _inconsistent(take: Callable[[Message], None], records: Iterator[Message]) -> str:
    """Why the records cannot be followed; empty when they were, to the last one. Raises Z2K-5001."""
    try:
        for record in records:
            take(record)
    except FindingError as error:
        if error.code != LOG_INCONSISTENT.code:
            raise
        return f"{error.code} {error.occurrence.text}"
    return ""


class _WithoutZnode:
    """Configuration of kinds that ZooKeeper has no form of, by records in log order."""

    def __init__(self) -> None:
        self._values: dict[ConfigKey, set[str]] = {}

    def noted(self, records: Iterable[Message]) -> Iterator[Message]:
        for record in records:
            if isinstance(record, ConfigRecord) and record.resource_type in WITHOUT_ZNODE:
                values = self._values.setdefault(ConfigKey(record.resource_type, record.resource_name), set())
                (values.discard if record.value is None else values.add)(record.name)
            yield record

    @property
    def lost(self) -> tuple[str, ...]:
        return only_kraft((key for key, values in self._values.items() if values), named_max=None)


class _Registrations:
    """Who is registered, from records in log order."""

    def __init__(self) -> None:
        self._kraft_brokers: set[int] = set()
        self._controllers: dict[int, tuple[tuple[str, int], ...]] = {}

    def noted(self, records: Iterable[Message]) -> Iterator[Message]:
        for record in records:
            self._note(record)
            yield record

    def _note(self, record: Message) -> None:
        match record:
            case RegisterBrokerRecord(is_migrating_zk_broker=False):
                self._kraft_brokers.add(record.broker_id)
            case RegisterBrokerRecord() | UnregisterBrokerRecord():
                self._kraft_brokers.discard(record.broker_id)
            case RegisterControllerRecord():
                places = tuple((each.host, each.port) for each in record.end_points)
                self._controllers[record.controller_id] = places
            case _:
                pass

    @property
    def found(self) -> Registered:
        return Registered(frozenset(self._kraft_brokers), dict(self._controllers))


def _looked(compared: Comparison) -> LogAgainstZooKeeper:
    behind = tuple(map(_behind, (each for each in compared.expected if each.rule == VERSION_LAGS)))
    ahead = sum(each.rule == STOCK_RUNS_AHEAD for each in compared.expected)
    differing, unread = [], 0
    for each in compared.differences:
        if each.family in SETTLED_OTHERWISE:
            continue
        if each.kind == DifferenceKind.NOT_READ:
            unread += 1
        else:
            differing.append(" ".join(filter(None, (each.family, each.key, each.field_))))
    not_compared = f"{unread} things that cannot be read" if unread else ""
    return LogAgainstZooKeeper(behind, ahead, tuple(differing), not_compared)


def _behind(each: Difference) -> Behind:
    topic, _, partition = each.key.rpartition("-")
    return Behind(paths.state(topic, int(partition)), each.zookeeper, each.log)


def guards(observed: ClaimObservation) -> tuple[Operation, ...]:
    """What was read still stands: nobody else claims the cluster meanwhile."""
    stands = (
        (paths.CONTROLLER_EPOCH, observed.epoch_version),
        (paths.MIGRATION, observed.migration_version),
        (paths.CONTROLLER, observed.controller_version),
    )
    return tuple(Check(path, version) for path, version in stands if version >= 0)


def raise_versions(session: ZkSession, behind: Sequence[Behind], stands: tuple[Operation, ...]) -> None:
    """Write what stands in each of them again, until its version is the partition epoch.

    Raises Z2K-2019 when ZooKeeper moved meanwhile; what was raised stays, and the next look finds the rest.
    """
    waiting: list[Operation] = []
    for at in range(0, len(behind), STATES_AT_ONCE):
        piece = behind[at : at + STATES_AT_ONCE]
        for each, znode in zip(piece, session.get_many([each.path for each in piece]), strict=True):
            if znode is None:
                raise WITHOUT_CONTROLLERS_REFUSED.error(
                    reason=f"ZooKeeper moved meanwhile: {each.path} does not exist any more"
                )
            waiting += [SetData(each.path, znode.data or b"", version) for version in range(each.version, each.epoch)]
            while len(waiting) >= OPERATIONS_AT_ONCE:
                waiting = _send(session, waiting, stands)
    while waiting:
        waiting = _send(session, waiting, stands)


def _send(session: ZkSession, waiting: list[Operation], stands: tuple[Operation, ...]) -> list[Operation]:
    """Some of them, in flight together; the others are returned."""
    now, later = waiting[:OPERATIONS_AT_ONCE], waiting[OPERATIONS_AT_ONCE:]
    multis = guarded(stands, now, JUTE_MAXBUFFER_MIN)
    for multi, pending in [(multi, session.send(multi)) for multi in multis]:
        outcome = pending.outcome()
        if not outcome.applied:
            refused = multi.describe()[outcome.failed_at]
            raise WITHOUT_CONTROLLERS_REFUSED.error(reason=f"ZooKeeper moved meanwhile ({outcome.error} at: {refused})")
    return later
