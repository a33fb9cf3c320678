"""Registered nodes that would end the migration, or cannot go back: what a controller of ours says of them.

In:   the image, who leads, the releases of voters as their fetches name them.
Out:  findings Z2K-2024; the voters that this controller never names as successors.
Elsewhere: how a release is known (model/later_kafka.py), when it is asked (node/leader/unfit_watch.py), what the
service makes of it (state_machine/policy/later.py).
Rules: a registration may be of a process that is gone. A fetch that came lately says who runs now, and counts more.
Votes are never denied: Raft's rules decide who is elected. A leader without ZooKeeper registers everybody as if without
the flag. So one of ours is never judged by that: with the flag off it does not lead in MIGRATION anyway.
Source: Kafka 4.0 has no `KRaftMigrationDriver`; 3.9 `ActivationRecordsGenerator` finalizes without the flag (F-48).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from migrator.controller.incarnations import is_ours
from migrator.findings.driver import UNFIT_NODE
from migrator.findings.finding import Occurrence
from migrator.model.image import METADATA_VERSION, Image
from migrator.model.later_kafka import is_release_without_zookeeper, registered_later
from migrator.model.values import MigrationState

FLAG: Final = "zookeeper.metadata.migration.enable"
UNDER_WAY: Final = (MigrationState.NONE, MigrationState.PRE_MIGRATION, MigrationState.MIGRATION)
"""With the flag on, a log without state of the migration is one that lost it, or that others began."""


def unfit_voters(image: Image, releases: Mapping[int, str], others: frozenset[int]) -> frozenset[int]:
    """The other voters that would end the migration as leader. releases: of those that fetched lately."""
    if image.migration not in UNDER_WAY:
        return frozenset()
    return frozenset(_why_unfit(image, releases)) & others


def unfit_nodes(image: Image, releases: Mapping[int, str], *, leader: int, node: int) -> tuple[Occurrence, ...]:
    """node: this controller. leader: -1 while none is known."""
    if image.migration not in UNDER_WAY:
        return ()
    found = [
        UNFIT_NODE.found(node=f"Controller {voter}", reason=f"{why}{_as_leader(leads=voter == leader)}")
        for voter, why in sorted(_why_unfit(image, releases).items())
        if voter != node
    ]
    found += [
        UNFIT_NODE.found(node=f"Broker {each.id}", reason=f"{_range(each.lowest, each.highest)}: it cannot go back")
        for each in registered_later(image)
        if not each.is_voter
    ]
    if image.migration is MigrationState.NONE and METADATA_VERSION in image.features:
        found.append(UNFIT_NODE.found(node=f"Controller {node}", reason="its own log does not have the migration"))
    return tuple(found)


def _why_unfit(image: Image, releases: Mapping[int, str]) -> dict[int, str]:
    """By voter."""
    later = {each.id: _range(each.lowest, each.highest) for each in registered_later(image) if each.is_voter}
    flagless = {
        each.id: f"it is registered without {FLAG}"
        for each in image.controllers.values()
        if not each.zk_migration_ready and each.id not in later and not is_ours(each.incarnation)
    }
    fetching = {
        voter: f"its Kafka is {release}, without ZooKeeper"
        for voter, release in releases.items()
        if is_release_without_zookeeper(release)
    }
    return {**flagless, **{voter: why for voter, why in later.items() if voter not in releases}, **fetching}


def _range(lowest: int, highest: int) -> str:
    return f"its Kafka is without ZooKeeper (metadata.version {lowest} to {highest})"


def _as_leader(*, leads: bool) -> str:
    return ", and it leads: nothing goes to ZooKeeper any more" if leads else ", and as leader it would end dual-write"
