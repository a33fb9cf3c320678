"""All hand-made faults, in the order of the table."""

from __future__ import annotations

from typing import Final

from tests.mutants import driver, node, others, raft
from tests.mutants.fault import Fault

FAULTS: Final[tuple[Fault, ...]] = (*raft.FAULTS, *node.FAULTS, *driver.FAULTS, *others.FAULTS)
