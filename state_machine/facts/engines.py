"""Whose controllers take a cluster over: ours, or Kafka's own.

In:   nothing. Out: `ControllerEngine`, by the name that an inventory of a migration has.
Elsewhere: which step leads where with each (policy/phases.py), what is seen of Kafka's own (evidence/stock_driver.py).
"""

from __future__ import annotations

from enum import StrEnum


class ControllerEngine(StrEnum):
    """OURS: zk2kraft's controllers copy, and stock takes their place later. STOCK: Kafka 3.9's own do all of it."""

    OURS = "zk2kraft"
    STOCK = "stock"
