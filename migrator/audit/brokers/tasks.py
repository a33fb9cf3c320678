"""What the third side needs of whoever runs tasks for it: steps, one behind the other, and rows that stay between them.

Elsewhere: the tasks of Spark (spark/kept_tasks.py), the steps (node/tools/asking_by_tasks.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol

SLOT: Final = -1
"""`nth` of the one row with which a task begins: its owner is the number of the task."""
TOLD: Final = 0
"""`nth` of the row of each owner that goes to the driver."""


class KeptRow(NamedTuple):
    """Rows of one owner stand together, in the order of `nth`."""

    owner: int
    nth: int
    data: bytes


KeptStep = Callable[[Iterator[KeptRow]], Iterator[KeptRow]]
"""Takes the rows of one task, and gives those that it goes on with. It can be pickled."""


class KeepsRows(Protocol):
    """So many tasks, with the rows of each."""

    def run(self, step: KeptStep) -> list[KeptRow]:
        """Make the step in every task, and return its rows `TOLD`. Raises Z2K-5003."""


class RunsTasks(Protocol):
    """master: where the tasks run. remote: on other hosts, which see no file of this one. at_once: so many."""

    @property
    def master(self) -> str: ...
    @property
    def remote(self) -> bool: ...
    @property
    def at_once(self) -> int: ...

    def keep(self, tasks: int) -> KeepsRows:
        """Begin so many tasks, each with its row `SLOT`."""
