"""What undo costs, in words: the rows that phases share, and those that hold only for a while.

In:   nothing. Out: `Undo` values.
Elsewhere: which phase has which (phase_table.py), what it is at this moment (undo.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Undo:
    """command: what to type, empty when nothing can or need be undone."""

    command: str
    does: str
    restarts: str
    lost: str
    without_controller: str


BEFORE: Final = Undo("zk2kraft rollback", "our controllers are stopped", "none", "nothing", "0 s")
WINDOW: Final = Undo(
    "zk2kraft abort",
    "the takeover is aborted; it also aborts by itself at its time limit, or when the ZooKeeper session ends",
    "none",
    "nothing",
    "from the start of the takeover to the end of the abort",
)
RETIRED: Final = (
    "the metadata log is retired: another migration needs a fresh quorum and a restart of every broker first"
)
DUAL_WRITE: Final = Undo(
    "zk2kraft rollback",
    "a ZooKeeper-mode broker becomes controller (if none of our controllers runs: "
    "`zk2kraft rollback --without-controllers`)",
    "none",
    f"what only KRaft has: configuration of client metrics, which needs consent before; {RETIRED}",
    "under 1 s",
)
UNDER_WAY: Final = Undo("", "the rollback or abort is running", "none", "nothing", "under 1 s")
CANCEL: Final = Undo(
    "zk2kraft advance --to ROLLING_BROKERS",
    "the rollback is running. Until the driver begins its own, it can be cancelled: brokers that are in ZooKeeper "
    "mode again restart into KRaft mode, and stock controllers that are still in place stay",
    "those that went back",
    "nothing",
    "0 s",
)
NOTHING: Final = Undo("", "there is nothing to undo", "none", "nothing", "0 s")

ROLLING_BROKERS: Final = Undo(
    "zk2kraft rollback",
    "the service restarts the brokers in KRaft mode with their migration file, one by one, the last one first; then "
    "the cluster is rolled back as in DUAL_WRITE; then brokers whose migration file the service wrote get "
    "their original file",
    "those that were restarted into KRaft mode, once; afterwards those with a migration file of the service, once",
    "what only KRaft has: directory assignments, and what needs consent before",
    "under 1 s",
)
STOCK: Final = Undo(
    "zk2kraft rollback",
    "the service puts our controllers in the place of stock again, one by one, the active one last; then it restarts "
    "the brokers with their migration file, one by one; then the cluster is rolled back as in DUAL_WRITE; then brokers "
    "whose migration file the service wrote get their original file",
    "every broker, once; afterwards those with a migration file of the service, once",
    "what only KRaft has: directory assignments, and what needs consent before",
    "about 2 s at the change of the active controller, under 1 s at the rollback",
)
FINAL: Final = Undo(
    "",
    "nothing can be undone from the first start of a controller without the migration flag on",
    "none",
    "everything that was written since, if ZooKeeper is used again",
    "0 s",
)


STOCK_WINDOW: Final = Undo(
    "zk2kraft abort",
    "possible until stock claims the controllership: the last broker gets its previous file with `zk2kraft back`. From "
    "the claim on stock goes on by itself within seconds, and `zk2kraft rollback` leads back from AUDIT",
    "the last broker, if it was stopped",
    "nothing",
    "0 s before the claim",
)
STOCK_ENGINE: Final = Undo(
    "zk2kraft rollback",
    "the service restarts brokers in KRaft mode with their migration file, one by one, while stock leads; then it "
    "stops the stock controllers and takes their claim away in one multi; then brokers whose migration file the "
    "service wrote get their original file",
    "those that were restarted into KRaft mode, once; afterwards those with a migration file of the service, once",
    "what only KRaft has: directory assignments, and what needs consent before",
    "from the stop of the last stock controller to the end of that multi, some seconds",
)
"""Of a migration by Kafka's own controllers."""

NOT_BEGUN: Final = Undo(
    "zk2kraft abort",
    "the finalize is given up, and the migration is in SOAK again; a controller that is stopped gets its kept file "
    "first. That is possible until the first start of a controller without the migration flag",
    "the controller that is stopped, if there is one",
    "nothing; another person approves the next finalize",
    "0 s",
)
"""Of FINALIZING, while every controller runs with the flag."""


LATER: Final = Undo(
    "",
    "nothing can be undone while this is so. Stop that controller: one that still has the migration in its log leads "
    "on then, and the way back opens (runbook of Z2K-4233)",
    "none",
    "what was changed since then, if ZooKeeper is used again",
    "0 s",
)
"""A Kafka without ZooKeeper leads, or the log lost the migration by it."""
