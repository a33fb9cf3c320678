"""Whether the inventory file agrees with the cluster about brokers, with the migration about controllers' files, and
whether the files of brokers and controllers go together.

In:   `Evidence` with its `road`. Out: conditions.
Elsewhere: whether a node of the inventory is the one that its host has (nodes/identity.py).
Rules: a broker counts as the cluster's where the log, `/brokers/ids` or the migration names it, fenced or not. What was
not read is no yes.
"""

from __future__ import annotations

from typing import Final

from migrator.findings.fleet import CONTROLLER_FILES_DIFFER
from migrator.findings.road import BROKERS_DIFFER, CONTROLLER_WITHOUT_TIERS
from migrator.model.verdict import Condition
from state_machine.policy.conditions import fleet_evidence_of, or_waived
from state_machine.policy.fleet_evidence import FleetEvidence
from state_machine.policy.gates import Evidence

NAME: Final = "the inventory names the brokers that the cluster has"


def brokers_are_those_of_the_cluster(evidence: Evidence) -> Condition:
    road = fleet_evidence_of(evidence)
    if road.named is None:
        return Condition(NAME, False, "the inventory file was not compared yet", (BROKERS_DIFFER.code,))
    named = set(road.named)
    has = {*road.kraft, *road.zookeeper, *road.zookeeper_ids, *(each.id for each in evidence.brokers)}
    parts = []
    if lacking := sorted(has - named):
        parts.append(f"the cluster has {_brokers(lacking)}, which the inventory lacks")
    if unknown := sorted(named - has):
        parts.append(f"the inventory has {_brokers(unknown)}, which the cluster lacks")
    said = "; ".join(parts) or f"both have {_brokers(sorted(named))}"
    return Condition(NAME, not parts, said, (BROKERS_DIFFER.code,))


def controllers_have_one_file(road: FleetEvidence) -> tuple[Condition, ...]:
    """Nothing where they agree; one condition for each controller whose two files differ. A waiver lifts it."""
    found = () if road.files is None else road.files.differing
    name, codes = "both inventories name the same file of controller {}", (CONTROLLER_FILES_DIFFER.code,)
    return tuple(or_waived(road, Condition(name.format(node), False, said, codes), node) for node, said in found)


def controllers_take_tiers(road: FleetEvidence) -> tuple[Condition, ...]:
    """Nothing where no broker's file has remote storage (R-405-05). A file that is not read is left to others."""
    files = road.files
    if files is None or not files.with_tiers:
        return ()
    without = [each.node for each in files.without_tiers]
    said = f"{_brokers(list(files.with_tiers))} have it"
    said += f", and the file of controller {without} does not" if without else ", and the controllers too"
    codes = (CONTROLLER_WITHOUT_TIERS.code,)
    return (Condition("controllers' files have tiered storage as brokers' have", not without, said, codes),)


def _brokers(ids: list[int]) -> str:
    return f"broker {ids[0]}" if len(ids) == 1 else f"brokers {ids}"
