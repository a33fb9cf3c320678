"""What the restart of a broker takes away although the cluster is whole, and who accepted that.

In:   `FleetEvidence`. Out: conditions. Forward they hold a restart until somebody accepts it by name; in a rollback
they only say it, since nobody waits for a consent in a fire.
Elsewhere: counting (migrator.model.at_a_stop), partitions that lack replicas already (conditions.py; on the way
back rollback/stops.py), the words (Z2K-1061, Z2K-4242), waivers (migrator.fleet.inventory).
Rules: one waiver for the cluster accepts all of a kind; one with a node accepts what the stop of that broker takes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from migrator.findings.finding import Finding
from migrator.findings.preflight import ONE_REPLICA
from migrator.findings.road import FILES_NOT_READ, NEEDS_EVERY_REPLICA
from migrator.model.at_a_stop import TakenAtStop, values_of
from migrator.model.verdict import Condition
from state_machine.facts.accepted import WaiverFact
from state_machine.policy.fleet_evidence import FleetEvidence

OFFLINE: Final = "no restart takes a partition offline"
REFUSED: Final = "no restart takes a partition below its minimum ISR"
KNOWN: Final = "the minimum ISR of every broker is known"


def restarts_are_accepted(road: FleetEvidence, nodes: Collection[int] | None = None) -> tuple[Condition, ...]:
    """Before a broker is stopped. nodes: those that are stopped now; None: before the first one, all of them."""
    if road.log_problem:
        said = f"unknown: {road.log_problem}"
        return (Condition(OFFLINE, False, said), Condition(REFUSED, False, said))
    return (
        _accepted(road, OFFLINE, ONE_REPLICA, road.single, nodes),
        _accepted(road, REFUSED, NEEDS_EVERY_REPLICA, road.at_minimum, nodes),
        *_minimum_is_known(road),
    )


def restarts_take(road: FleetEvidence, nodes: Collection[int] | None = None) -> tuple[Condition, ...]:
    """On a way back: only named."""
    said = [
        f"{finding.code} {finding.found(**values_of(taken, road.min_isr)).text}"
        for finding, taken in ((ONE_REPLICA, road.single), (NEEDS_EVERY_REPLICA, road.at_minimum))
        if _of(taken, nodes)
    ]
    if not said:
        return ()
    return (Condition("what restarts take away, for information", True, " ".join(said)),)


def _of(taken: TakenAtStop, nodes: Collection[int] | None) -> dict[int, int]:
    """By broker, of those that are looked at."""
    return {broker: count for broker, count in taken.brokers if nodes is None or broker in nodes}


def _accepted(
    road: FleetEvidence, name: str, finding: Finding, taken: TakenAtStop, nodes: Collection[int] | None
) -> Condition:
    concerned, codes = _of(taken, nodes), (finding.code,)
    if not concerned:
        return Condition(name, True, "none has such a partition", codes)
    waivers = {broker: road.waiver(finding.code, broker) for broker in concerned}
    left = [broker for broker, waiver in waivers.items() if waiver is None]
    said = finding.found(**values_of(taken, road.min_isr)).text
    if left:
        return Condition(name, False, f"{said} {_nobody(left, finding)}", codes)
    return Condition(name, True, f"{_names(waivers.values())}; {said}", codes)


def _nobody(left: list[int], finding: Finding) -> str:
    return f"Nobody accepted it for brokers {left}: a waiver {finding.code} in the inventory does"


def _names(waivers: Iterable[WaiverFact | None]) -> str:
    found = {f"{each.owner} ({each.reason})": None for each in waivers if each is not None}
    return f"accepted by {', '.join(found)}"


def _minimum_is_known(road: FleetEvidence) -> tuple[Condition, ...]:
    """Of topics that set none. A broker whose file cannot be read may want more replicas than all others."""
    brokers = {*(road.named or ()), *road.kraft, *road.zookeeper, *road.zookeeper_ids}
    unknown = road.min_isr.unknown(brokers)
    if not unknown:
        return ()
    codes = (NEEDS_EVERY_REPLICA.code, FILES_NOT_READ.code)
    left = [each for each in unknown if not any(road.waiver(code, each) for code in codes)]
    said = (
        f"the files of brokers {list(unknown)} were not read, so their min.insync.replicas is not known; "
        f"topics that set none are counted with {road.min_isr.value}"
    )
    return (Condition(KNOWN, not left, said, codes),)
