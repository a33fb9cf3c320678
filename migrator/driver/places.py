"""The persistent znodes that have to exist before anything is written below or into them.

In:   which of them a reading of ZooKeeper did not find.
Out:  findings for the gate and for `zk2kraft check`; the multi that creates them.
Elsewhere: reading (node.zookeeper.tree_reader), sending (node.driver.claiming before the claim, node.driver.reconciling
after the takeover); znodes that Kafka itself makes only when they are needed, as those of ACLs and tokens
(mirror.py makes them).
Rules: every broker creates all of them at its start, so one that is missing was deleted. Before the takeover only
those are created whose loss takes nothing with it that Kafka remembers elsewhere. After it the log is the truth, and
all of them are created again: what stood in or below them follows from the log.
Source: Kafka 3.9 `ZkData.PersistentZkPaths`, `ZkProducerIdManager`, `ZooKeeperClient` (which znode handlers hear of a
deletion).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from migrator.findings.finding import Occurrence
from migrator.findings.preflight import PATH_MISSING, PATH_WILL_BE_CREATED
from migrator.zk import paths
from migrator.zk.multi import Check, Create, Multi


@dataclass(frozen=True, slots=True)
class PersistentZnode:
    """One persistent znode. lost: what its absence means; empty where an empty znode is all that Kafka expects."""

    path: str
    lost: str = ""


_BROKERS_GONE: Final = "the registrations of the brokers were below it"
_TOPICS_GONE: Final = "the topics were below it, and brokers still have their logs"
_DEAF: Final = "brokers that run do not hear of changed configuration any more, not even when it is created again"
_IDS_GONE: Final = "it names the producer ids in use; ids that are handed out twice can lose records in silence"

PLACES: Final = (
    PersistentZnode("/brokers", _BROKERS_GONE),
    PersistentZnode(paths.BROKER_IDS, _BROKERS_GONE),
    PersistentZnode(paths.TOPICS, _TOPICS_GONE),
    PersistentZnode(paths.CONFIG),
    PersistentZnode(paths.CONFIG_CHANGES, _DEAF),
    PersistentZnode(paths.TOPIC_CONFIGS),
    PersistentZnode(paths.BROKER_CONFIGS),
    PersistentZnode(paths.USER_CONFIGS),
    PersistentZnode(paths.CLIENT_CONFIGS),
    PersistentZnode(paths.IP_CONFIGS),
    PersistentZnode("/admin"),
    PersistentZnode(paths.DELETE_TOPICS),
    PersistentZnode(paths.PRODUCER_IDS, _IDS_GONE),
)
"""Parents before their children. `/controller_epoch`, `/controller` and `/migration` are the claim's (claim.py)."""

PLACE_PATHS: Final = tuple(place.path for place in PLACES)


def place_findings(missing: Collection[str]) -> Iterator[Occurrence]:
    """One for each path that is missing before a takeover. Where all are missing, there is no cluster at all, and the
    missing cluster id says so.
    """
    if len(missing) == len(PLACES):
        return
    for place in PLACES:
        if place.path in missing:
            yield (
                PATH_MISSING.found(path=place.path, lost=place.lost)
                if place.lost
                else PATH_WILL_BE_CREATED.found(path=place.path)
            )


def plan_places(missing: Collection[str], epoch_version: int) -> Multi:
    """Create these, without data as Kafka does, while `/controller_epoch` is at this version."""
    creates = [Create(path, None) for path in PLACE_PATHS if path in missing]
    return Multi((Check(paths.CONTROLLER_EPOCH, epoch_version), *creates))
