"""Whether the stop of one node on the way back makes anything worse than it is.

In:   `Evidence`, the log as observed, and for how long nothing was at stake. Out: a `Verdict` for one node.
Elsewhere: counting (migrator.model.partition_figures), the restarts (rolling/), who is left out (left_out.py).
Rules: what is broken already holds nobody. A broker is stopped when no partition that lacks replicas loses its last one
in sync or its minimum ISR by that; a controller, when a majority of the voters follows without it. Times are of a clock
that only goes on, and of this life of the service: an interval that nobody observed does not count.
Source: failure cases F-41 and F-51.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from migrator.findings.road import NODE_HOLDS_WAY_BACK
from migrator.model.verdict import Condition
from state_machine.clusters.log_observer import LogBroker, LogObservation
from state_machine.facts.voters import has_what_is_committed
from state_machine.policy.conditions import or_waived, why_lacking
from state_machine.policy.fleet_evidence import FleetEvidence
from state_machine.times.stretches import UNOBSERVED_S

AT_STAKE: Final = "its stop takes no partition offline or below its minimum ISR"
MAJORITY: Final = "a majority of the voters follows without it"
"""Names by which a waiver accepts that they are not True."""


@dataclass(slots=True)
class Quiet:
    """Since when each broker of a migration is in sync and holds nothing alone, in this life of the service."""

    steady: Callable[[], float]
    _since: dict[tuple[str, int], float] = field(default_factory=dict)
    _noted: float | None = None

    def note(self, log: LogObservation) -> None:
        """Once in each round. A look that could not read the log says nothing."""
        if not log.known:
            return
        now = self.steady()
        if self._noted is None or now - self._noted > UNOBSERVED_S:
            self._since.clear()
        self._noted = now
        for each in log.brokers:
            self._keep("at stake", each.id, not each.ready or not each.at_stake, now)
            self._keep("in sync", each.id, each.ready and not each.under_replicated, now)

    def free_s(self, broker: int) -> float | None:
        """How long its stop would have taken nothing away; None: it would now."""
        return self._seconds("at stake", broker)

    def in_sync_s(self, broker: int) -> float | None:
        """How long it has been unfenced and in the ISR of each of its partitions; None: it is not now."""
        return self._seconds("in sync", broker)

    def _keep(self, what: str, broker: int, holds: bool, now: float) -> None:
        if holds:
            self._since.setdefault((what, broker), now)
        else:
            self._since.pop((what, broker), None)

    def _seconds(self, what: str, broker: int) -> float | None:
        since = self._since.get((what, broker))
        return None if since is None else self.steady() - since


def host_answers(node: str, reason: str | None) -> Condition:
    """reason: why its host gave no answer; None: it did."""
    said = "it does" if reason is None else f"{node}: {reason}; bring it back, or leave it out by name"
    return Condition("the host of the next node answers", reason is None, said, (NODE_HOLDS_WAY_BACK.code,))


def broker_may_stop(
    road: FleetEvidence, broker: int, observed: LogBroker | None, quiet: Quiet
) -> tuple[Condition, ...]:
    """observed: None: it is not registered. A broker that is fenced or shuts down serves nothing any more."""
    if observed is None or not observed.ready:
        return (Condition(AT_STAKE, True, f"broker {broker} is away already"),)
    taken = takes_nothing(road, broker, observed.at_stake)
    offline = Condition(
        "every directory of the broker is online",
        broker not in road.offline,
        "one is offline, and a broker with the flag halts then" if broker in road.offline else "every directory is",
    )
    settled, least = quiet.free_s(broker) or 0.0, road.limits.settle_s
    waits = Condition(
        f"so it was for {least:g} s", settled >= least or bool(observed.at_stake), f"it has been so for {settled:.0f} s"
    )
    return (taken, waits, offline)


def takes_nothing(road: FleetEvidence, broker: int, at_stake: int) -> Condition:
    """at_stake: how many partitions lack replicas and cannot do without this broker."""
    said = "every partition that lacks replicas keeps enough of them"
    if at_stake:
        said = (
            f"{at_stake} that lack replicas already cannot do without broker {broker}. Bring the others back, or move "
            "replicas to brokers that live; a waiver of this condition accepts that producers wait"
        )
    return or_waived(road, Condition(AT_STAKE, not at_stake, said), broker)


def broker_is_in_sync(road: FleetEvidence, broker: int, observed: LogBroker, quiet: Quiet) -> tuple[Condition, ...]:
    """A broker is in sync after its start. It is not judged by what others lack, unless it leads all of it and none is
    missing.
    """
    lacking, least, seconds = observed.under_replicated, road.limits.settle_s, quiet.in_sync_s(broker) or 0.0
    leads = road.lacking_s is not None and road.lacking_leader == broker
    said = f"it leads {road.under_replicated} of them" if leads else "it leads not all of them"
    return (
        Condition("it is in the ISR of each of its partitions", not lacking, f"it is missing in {lacking}"),
        Condition(f"so it was for {least:g} s", seconds >= least, f"it has been so for {seconds:.0f} s"),
        Condition(
            "not all under-replicated partitions are led by it",
            not leads,
            said + (why_lacking(road.lacking_s, road.lacking_leader) if leads else ""),
        ),
    )


def controller_may_stop(road: FleetEvidence, node: int) -> tuple[Condition, ...]:
    """Where every voter follows, as on the way there. One that does not follow itself is missed by nobody."""
    following = {each.id for each in road.voters if has_what_is_committed(each)}
    left, needed = len(following - {node}), len(road.voters) // 2 + 1
    known = not road.log_problem and road.leader is not None and bool(road.voters)
    every = len(following) == len(road.voters)
    said = f"{left} of {len(road.voters)} voters have what is committed without it"
    if known and left < needed and node in following and not every:
        said += ", so no controller leads while it is exchanged"
    holds = known and (every or left >= needed or node not in following)
    return (or_waived(road, Condition(MAJORITY, holds, said), node),)
