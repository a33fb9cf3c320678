"""The kinds of rolling restarts as a table: what is the same for all code that meets one.

In:   nothing. Out: `ROLLS`, one row per kind, and which of them are ways back.
Elsewhere: how each kind acts and judges (state_machine/rolling), conditions of steps forward (step_conditions.py),
which phase has which roll (phase_table.py).
Rules: nobody asks which roll it is; whoever needs a difference adds a field here, or a method to the kinds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from migrator.fleet.render import FileKind
from state_machine.policy.fleet_evidence import BROKERS, CONTROLLERS, Roll


@dataclass(frozen=True, slots=True)
class RollRow:
    """One kind of roll.

    file:      what a node gets; None: it keeps its own.
    back:      it is a way back: only nodes that need it restart, and what is broken elsewhere holds nobody.
    alone:     the file of a node that a person sends back alone, out of this roll; None: nobody does.
    undoes:    rolls that it undoes, of the same node, in the order in which a node goes through them.
    by_rack:   its brokers' partitions are in the log, so that it can be judged what a whole rack takes away.
    log_dirs:  its brokers read their log directories with another eye than before, so that these are looked at.
    """

    role: str
    file: FileKind | None
    back: bool = False
    alone: FileKind | None = FileKind.BACK
    undoes: tuple[Roll, ...] = ()
    by_rack: bool = False
    log_dirs: bool = True


ROLLS: Final[Mapping[Roll, RollRow]] = {
    Roll.BEGIN: RollRow(CONTROLLERS, FileKind.STOCK, alone=None, log_dirs=False),
    Roll.JOIN: RollRow(BROKERS, FileKind.MIGRATION, log_dirs=False),
    Roll.KRAFT: RollRow(BROKERS, FileKind.KRAFT, by_rack=True),
    Roll.STOCK: RollRow(CONTROLLERS, FileKind.STOCK),
    Roll.SOAK: RollRow(CONTROLLERS, None),
    Roll.FINAL: RollRow(CONTROLLERS, FileKind.FINALIZED),
    Roll.OURS: RollRow(CONTROLLERS, FileKind.BACK, back=True, alone=FileKind.STOCK, undoes=(Roll.STOCK, Roll.SOAK)),
    Roll.BACK: RollRow(BROKERS, FileKind.BACK, back=True, alone=None, undoes=(Roll.KRAFT,)),
    Roll.ORIGINAL: RollRow(BROKERS, FileKind.ORIGINAL, back=True, alone=None),
}
"""In the order in which a node goes through them: of its files, the one of the last roll is its present one."""
FORWARD: Final = tuple(roll for roll, row in ROLLS.items() if not row.back)
WAYS_BACK: Final = tuple(roll for roll, row in ROLLS.items() if row.back)


def facts_of(roll: str) -> RollRow:
    """Finds the row of a roll by its name, as the journal has it."""
    return ROLLS[Roll(roll)]
