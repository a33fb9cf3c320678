"""Helpers that run as programs of their own: the tests that start them take minutes to say that a name is wrong."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

SUPPORT = Path(__file__).parents[1] / "support"


@pytest.mark.parametrize("name", sorted(each.stem for each in SUPPORT.glob("*.py")))
def test_every_helper_can_be_imported(name: str) -> None:
    import_module(f"tests.support.{name}")
