"""SOAK: stock controllers restart as they are.

Elsewhere: the rest of that phase (finish/soak.py).
"""

from __future__ import annotations

from state_machine.policy.fleet_evidence import Roll
from state_machine.rolling.stock import StockControllers


class SoakRoll(StockControllers):
    roll = Roll.SOAK
