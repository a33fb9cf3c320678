"""The third side of an audit: what brokers say beside what ZooKeeper and the log say, and which side stands alone.

In:   addresses of brokers, how to speak to them, a reading of the log, what the two other sides said of each other.
Out:  a `BrokersSide` of the report: counts by family, each difference with its broker and the side that is alone.
Elsewhere: asking (node/brokers/what_they_say.py), comparing one broker (audit/brokers/compare.py), what is told of it
(audit/brokers/told.py), asking in tasks of Spark (asking_by_tasks.py), the report as a whole (audit/compare.py).
Rules: a broker that lags is no broker that differs. What differs is looked at again, log and brokers, until it agrees;
it counts when the broker said the same in every look. A broker that gets nothing new while the log goes on counts, too,
unless the quorum's leader says that it is behind by no more than a healthy one may be (audit/brokers/lagging.py).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Container, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

import msgspec

from migrator.audit.brokers.answers import BrokerReading
from migrator.audit.brokers.compare import ComparedBroker, compare_broker
from migrator.audit.brokers.lagging import ReadUpTo, judge_lag
from migrator.audit.brokers.settling import may_settle, settled
from migrator.audit.brokers.tasks import RunsTasks
from migrator.audit.brokers.told import ToldByBroker, side_of, tell
from migrator.audit.compare import BrokersSide, Difference
from migrator.audit.fingerprints import SecretFingerprints
from migrator.audit.log_states import LogStates
from migrator.audit.normalise import LogFacts
from migrator.findings.audit import AUDIT_CANNOT_READ
from migrator.findings.finding import FindingError
from migrator.node.brokers.what_they_say import read_brokers, reason_of
from migrator.node.tools.log_of_quorum import host_and_port
from migrator.node.transport.client_security import PLAINTEXT, ClientSecurity
from migrator.node.transport.security import ListenerSecurity

LOOKS_AFTER_S: Final = (0.5, 1.0, 2.0)
"""Waited for before each further look. A healthy broker has what is committed within half a second."""

THIRD_SIDE_S: Final = 240.0
"""No look begins later. A broker that was not read by then is silent; what the two sides said waits for it."""

REGISTERED: Final = "registered"
PLAIN: Final = 0
"""`security_protocol` of a listener without TLS and SASL. Source: Kafka `SecurityProtocol.PLAINTEXT`."""

ReadFacts = Callable[[], LogFacts]


@dataclass(frozen=True, slots=True)
class LagAsked:
    """read_up_to: asks the quorum's leader how far brokers have read the log, by id; raises OSError or Z2K-4117.

    behind: reads the log, with all that it said behind an offset.
    """

    read_up_to: Callable[[], dict[int, ReadUpTo]]
    behind: Callable[[int], LogStates]


@dataclass(frozen=True, slots=True)
class BrokersAsked:
    """bootstrap: `HOST:PORT[,...]` of brokers, or `registered`: where the log says that they listen.

    security: how the audit speaks to all of them. listener: of those that they registered; "": the plain one.
    without:  ids of brokers that are not asked, as they are known to be down.
    access:   what `security` was made of, and `file` the controller's file that says it: for tasks; None: plain.
    """

    bootstrap: str
    security: ClientSecurity = PLAINTEXT
    listener: str = ""
    without: frozenset[int] = frozenset()
    access: ListenerSecurity | None = None
    file: Path | None = None

    def addresses(self, facts: LogFacts) -> list[tuple[str, int]]:
        """Raises Z2K-5001."""
        if self.bootstrap != REGISTERED:
            try:
                return [host_and_port(each) for each in self.bootstrap.split(",")]
            except ValueError as error:
                raise AUDIT_CANNOT_READ.error(what="the brokers", reason=str(error)) from None
        found = [
            (each.host, each.port)
            for broker, record in sorted(facts.registered.items())
            if broker not in self.without
            for each in record.end_points
            if (each.name == self.listener if self.listener else each.security_protocol == PLAIN)
        ]
        if not found and self.without.issuperset(facts.registered):
            raise AUDIT_CANNOT_READ.error(what="the brokers", reason="every registered one was left out")
        if not found:
            where = f"listener {self.listener}" if self.listener else "plain listener (give --controller FILE)"
            raise AUDIT_CANNOT_READ.error(what="the brokers", reason=f"no broker is registered with a {where}")
        return found


class AsksBrokers(Protocol):
    """Asks brokers, look by look, and keeps of each what differs."""

    def look(
        self,
        addresses: Sequence[tuple[str, int]],
        facts: LogFacts,
        *,
        only: Iterable[int] | None,
        without: frozenset[int],
        limit_s: float,
    ) -> dict[int, str]:
        """only: those that differed in the look before; None in the first one. limit_s: of this look.

        Returns by broker id why there is no answer. Raises OSError when no address answers.
        """

    def differing(self) -> dict[int, bool]:
        """Return the brokers that differ by the last look at them, and whether each is in KRaft mode."""

    def judge(self, read: dict[int, ReadUpTo], states: LogStates) -> None:
        """Tell lag from differences. read: of brokers that differ. states: what the log said behind all of them."""

    def told(self, silent: Iterable[int]) -> list[ToldByBroker]:
        """Return what is told of each broker that answered, but for these."""


class AsksHere:
    """Asks from this process. Of an answer it keeps what differs."""

    def __init__(self, security: ClientSecurity, two_sides: Sequence[Difference]) -> None:
        self._security = security
        self._two_sides = two_sides
        self._fingerprints = SecretFingerprints()
        self._found: dict[int, ComparedBroker] = {}

    def look(
        self,
        addresses: Sequence[tuple[str, int]],
        facts: LogFacts,
        *,
        only: Iterable[int] | None,
        without: frozenset[int],
        limit_s: float,
    ) -> dict[int, str]:
        def take(reading: BrokerReading) -> None:
            now = compare_broker(reading, facts, self._fingerprints)
            self._found[reading.broker] = now if only is None else settled(self._found[reading.broker], now)

        reading = read_brokers(addresses, facts, self._security, take, only=only, without=without, limit_s=limit_s)
        return asyncio.run(reading)

    def differing(self) -> dict[int, bool]:
        return {broker: each.kraft for broker, each in self._found.items() if may_settle(each)}

    def judge(self, read: dict[int, ReadUpTo], states: LogStates) -> None:
        for broker, each in read.items():
            judge_lag(self._found[broker], each, states, self._fingerprints)

    def told(self, silent: Iterable[int]) -> list[ToldByBroker]:
        left_out = set(silent)
        return [tell(each, self._two_sides) for broker, each in self._found.items() if broker not in left_out]


def third_side(
    asked: BrokersAsked,
    read_log: ReadFacts,
    two_sides: Iterable[Difference] = (),
    *,
    lag: LagAsked | None = None,
    tasks: RunsTasks | None = None,
    looks_after_s: Sequence[float] = LOOKS_AFTER_S,
    limit_s: float = THIRD_SIDE_S,
) -> BrokersSide:
    """Ask every broker that has replicas, is registered, or is alive. two_sides: differences of ZooKeeper and the log,
    expected ones too. lag: None: every broker that stays behind differs. tasks: ask brokers; None: this process does.

    Raises Z2K-5001 when none answers, Z2K-5003 when the tasks end.
    """
    began = time.monotonic()
    of_both = list(two_sides)
    brokers, asked_here = _who_asks(asked, of_both, tasks)
    facts = read_log()

    def look(only: list[int] | None = None) -> dict[int, str]:
        left_s = limit_s - (time.monotonic() - began)
        try:
            return brokers.look(asked.addresses(facts), facts, only=only, without=asked.without, limit_s=left_s)
        except OSError as error:
            raise AUDIT_CANNOT_READ.error(what="the brokers", reason=str(error)) from error

    read: dict[int, ReadUpTo] = {}
    lag_problem = ""
    silent = look()
    for seconds in looks_after_s:
        again = [broker for broker in brokers.differing() if broker not in silent]
        if not again:
            break
        if time.monotonic() - began > limit_s:
            silent |= dict.fromkeys(again, "no time was left to look again at what differs")
            break
        time.sleep(seconds)
        facts = read_log()
        read, lag_problem = _read_up_to(lag)
        silent |= look(again)
    if lag is not None:
        _judge_lags(brokers, silent, read, lag)
    told = brokers.told(silent)  # what a silent one said in one look alone is no proof of anything
    side = side_of(told, silent, asked.without, of_both, time.monotonic() - began)
    return msgspec.structs.replace(side, lag_problem=lag_problem, asked_here=asked_here)


def _who_asks(asked: BrokersAsked, two_sides: Sequence[Difference], tasks: RunsTasks | None) -> tuple[AsksBrokers, str]:
    """And why this process does, where there are tasks."""
    if tasks is None:
        return AsksHere(asked.security, two_sides), ""
    from migrator.node.brokers.sent_access import AccessOfFile, PlainAccess, access_to_send
    from migrator.node.tools.asking_by_tasks import AsksByTasks

    if asked.access is None or asked.file is None:
        plain = PlainAccess()
        return AsksByTasks(tasks, lambda: plain, asked.security, two_sides), ""
    if not tasks.remote:
        of_file = AccessOfFile(asked.file)
        return AsksByTasks(tasks, lambda: of_file, asked.security, two_sides), ""
    access = access_to_send(asked.access, tasks.master)
    if isinstance(access, str):
        return AsksHere(asked.security, two_sides), access
    return AsksByTasks(tasks, access, asked.security, two_sides), ""


def _read_up_to(lag: LagAsked | None) -> tuple[dict[int, ReadUpTo], str]:
    """Asked before the brokers: what they answer is not older than this."""
    try:
        return ({} if lag is None else lag.read_up_to()), ""
    except (OSError, FindingError) as error:
        return {}, f"the quorum does not say who lags: {reason_of(error)}"


def _judge_lags(brokers: AsksBrokers, silent: Container[int], read: dict[int, ReadUpTo], lag: LagAsked) -> None:
    differing = {
        broker: read[broker]
        for broker, kraft in brokers.differing().items()
        if kraft and broker in read and broker not in silent
    }
    if differing:
        brokers.judge(differing, lag.behind(min(each.end for each in differing.values()) - 1))
