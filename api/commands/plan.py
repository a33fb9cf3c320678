"""`zk2kraft plan`: the whole way of an estate on one page, without a cluster.

In:   an inventory file, and what people measured. Out: an exit code, text or JSON on standard output.
Elsewhere: the legs (state_machine/change/legs.py), the lines (api/plan_text.py).
Exit codes: 0 planned, 1 planned, and the release of some broker is not known, 2 refused.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from api.commands.output import print_json
from api.plan_text import EstatePlan, PlannedNode, plan_lines
from migrator.findings.finding import FindingError
from migrator.fleet.actuators import actuator_for
from migrator.fleet.inventory import Inventory, Node, read_inventory, require_inventory
from migrator.fleet.releases.running import RunningRelease, running_release
from state_machine.change.durations import assumed_time_of_one
from state_machine.change.facts import ChangeLimits
from state_machine.change.legs import Estate, features_at_end, legs_of, named_releases
from state_machine.policy.fleet_evidence import BROKERS, CONTROLLERS

REFUSED: Final = 2
HOSTS_AT_ONCE: Final = 16


def plan_estate(
    file: Path, through: str, last: str, measured: Mapping[str, float | None], *, read: bool, as_json: bool
) -> int:
    """measured: seconds of one restart by role, None where it is assumed. read: ask hosts for the running release."""
    try:
        inventory = require_inventory(read_inventory(file), str(file), datetime.now(UTC))
        releases, unread = named_releases(inventory), dict[int, str]()
        if read:
            for node, found in _running(inventory, file.resolve().parent / "templates").items():
                if found.release:
                    releases[node] = found.release
                else:
                    unread[node] = found.reason
        plan = made_plan(inventory, releases, unread, through, last, measured)
    except FindingError as error:
        print(f"{error}\n{error.occurrence.finding.remedy}", file=sys.stderr)
        return REFUSED
    if as_json:
        print_json(plan.as_json())
    else:
        print("\n".join(plan_lines(plan)))
    return 1 if plan.unknown else 0


def made_plan(
    inventory: Inventory,
    releases: Mapping[int, str],
    unread: Mapping[int, str],
    through: str,
    last: str,
    measured: Mapping[str, float | None],
) -> EstatePlan:
    """Raises Z2K-7070."""
    limits = ChangeLimits()

    def time_of_one(role: str) -> tuple[float, float]:
        given = measured.get(role)
        low, high, _ = assumed_time_of_one(inventory, limits.settle_s, role)
        return (low, high) if given is None else (given, given)

    estate = Estate(
        inventory=inventory, releases=releases, time_of_one=time_of_one, limits=limits, through=through, last=last
    )
    return EstatePlan(
        name=inventory.cluster.name,
        brokers=tuple(map(_node, inventory.brokers)),
        controllers=tuple(map(_node, inventory.controllers)),
        windows=tuple(
            f"{each.start} to {each.end} UTC on {', '.join(each.days)}" for each in inventory.maintenance_windows
        ),
        releases=releases,
        unread=unread,
        last=last,
        legs=legs_of(estate),
        features=features_at_end(estate)[1:],
        seconds={role: time_of_one(role) for role in (BROKERS, CONTROLLERS)},
        measured=frozenset(role for role, given in measured.items() if given is not None),
        settle_s=limits.settle_s,
    )


def _node(node: Node) -> PlannedNode:
    return PlannedNode(id=node.id, host=node.host, rack=node.rack)


def _running(inventory: Inventory, templates: Path) -> dict[int, RunningRelease]:
    """Of brokers, beside each other."""

    def ask(node: Node) -> RunningRelease:
        try:
            return running_release(actuator_for(inventory, node, templates))
        except FindingError as error:
            return RunningRelease(reason=f"{error.code} {error.occurrence.text}")

    with ThreadPoolExecutor(HOSTS_AT_ONCE) as threads:
        return dict(zip((each.id for each in inventory.brokers), threads.map(ask, inventory.brokers), strict=True))
