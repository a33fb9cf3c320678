"""Read the three znodes of the claim, and say why a write was refused.

In:   a session. Out: `Seen` (driver.claim). A znode that cannot be parsed counts as present and foreign.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from migrator.driver.claim import ClaimObservation
from migrator.findings.finding import FindingError, Occurrence
from migrator.findings.zookeeper import WRITE_NOT_ALLOWED, WRITE_REFUSED
from migrator.zk import paths
from migrator.zk.bulk_read import Znode
from migrator.zk.multi import ERROR_NAMES, Multi, MultiOutcome
from migrator.zk.znodes import (
    ControllerZnode,
    MigrationZnode,
    parse,
    parse_controller_epoch,
    parse_migration,
)


class ClaimReader(Protocol):
    def get(self, path: str, watch: Callable[[], None] | None = None) -> Znode | None: ...


def read_claim(session: ClaimReader, watch: Callable[[], None] | None = None) -> ClaimObservation:
    """What stands now; `watch` is called once when any of the three changes."""
    epoch = session.get(paths.CONTROLLER_EPOCH, watch)
    controller = session.get(paths.CONTROLLER, watch)
    migration = session.get(paths.MIGRATION, watch)
    return ClaimObservation(
        epoch=-1 if epoch is None else parse_controller_epoch(paths.CONTROLLER_EPOCH, epoch.data),
        epoch_version=-1 if epoch is None else epoch.version,
        controller=_controller(controller),
        controller_version=-1 if controller is None else controller.version,
        controller_owner=0 if controller is None else controller.owner,
        migration=_migration(migration),
        migration_version=-1 if migration is None else migration.version,
        migration_born=-1 if migration is None else migration.czxid,
    )


def refusal(multi: Multi, outcome: MultiOutcome) -> Occurrence:
    """Z2K-2050 where an access list forbids it, else Z2K-2121 with ZooKeeper's own error; both name the path."""
    path = multi.operations[outcome.failed_at].path
    if outcome.error == "no_auth":
        return WRITE_NOT_ALLOWED.found(path=path)
    return WRITE_REFUSED.found(path=path, error=ERROR_NAMES.get(outcome.error, outcome.error))


def _controller(znode: Znode | None) -> ControllerZnode | None:
    return None if znode is None else parse(ControllerZnode, paths.CONTROLLER, znode.data)


def _migration(znode: Znode | None) -> MigrationZnode | None:
    if znode is None:
        return None
    try:
        return parse_migration(paths.MIGRATION, znode.data)
    except FindingError:
        return None  # null or foreign bytes (F-05): present by its version, and owned by nobody
