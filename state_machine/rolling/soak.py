"""SOAK: stock controllers restart as they are.

Elsewhere: the rest of that phase (road/soak.py).
"""

from __future__ import annotations

from state_machine.policy.road_observations import Roll
from state_machine.rolling.stock import StockControllers


class SoakRoll(StockControllers):
    roll = Roll.SOAK
