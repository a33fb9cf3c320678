"""How a driver is put together: its parts are made once, and an act names only what it has besides."""

from __future__ import annotations

import inspect
from dataclasses import FrozenInstanceError, fields
from typing import Any, Final

import pytest

from migrator.control_api.states import State
from migrator.node.driver import driver_acts
from migrator.node.driver.act import DriverParts, HasParts
from migrator.node.driver.driver_node import DriverNode
from tests.unit.node.driver.test_driver_acts import a_driver, story

PARAMETERS_MAX: Final = 6
BESIDES_MAX: Final = 8
"""What the largest kind of acts, the rollback, has besides its parts, and one more."""


def kinds_of_acts() -> list[type[HasParts]]:
    kinds = HasParts.__subclasses__()
    assert [each for each in kinds if getattr(driver_acts, each.__name__, None) is not each] == [], (
        "it imports them all"
    )
    return kinds


def test_no_part_of_a_driver_is_ever_replaced() -> None:
    async def told() -> None:
        parts: Any = a_driver(State.IDLE).parts
        with pytest.raises(FrozenInstanceError):
            parts.session = None

    story(told)


def test_no_act_copies_what_its_parts_have() -> None:
    parts = {field.name for field in fields(DriverParts)}
    assert len(kinds_of_acts()) == 11
    assert [(kind, field.name) for kind in kinds_of_acts() for field in fields(kind) if field.name in parts] == []


@pytest.mark.parametrize("kind", kinds_of_acts())
def test_what_an_act_has_besides_its_parts_can_be_seen_at_once(kind: type[HasParts]) -> None:
    assert len([field for field in fields(kind) if field.init and field.name != "parts"]) <= BESIDES_MAX


@pytest.mark.parametrize("made", [DriverNode, driver_acts.DriverActs])
def test_a_driver_is_made_of_few_values(made: type) -> None:
    assert len(inspect.signature(made).parameters) <= PARAMETERS_MAX


def test_a_driver_has_no_name_of_its_own_for_a_part() -> None:
    """The state is one thing in two forms: acts read it (`DriverView`), the loop assigns it."""

    async def told() -> None:
        parts = {field.name for field in fields(DriverParts)} - {"now"}
        assert parts.isdisjoint(vars(a_driver(State.IDLE)))

    story(told)
