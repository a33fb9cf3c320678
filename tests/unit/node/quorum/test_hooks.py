"""The places where a test may stop a controller: all named, all used, and none of them set by the product."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path

from migrator import node
from migrator.node.quorum.hooks import EFFECTS, Hooks

SOURCES = {path.name: path.read_text() for path in Path(node.__path__[0]).rglob("*.py")}


def test_every_effect_that_a_crash_may_come_before_is_in_the_list_and_happens_somewhere() -> None:
    used = {name for text in SOURCES.values() for name in re.findall(r'hooks\.before\("([^"]+)"\)', text)}
    assert used == set(EFFECTS)
    assert len(EFFECTS) == len(set(EFFECTS))


def test_hooks_that_nobody_set_do_nothing() -> None:
    hooks = Hooks()
    assert asyncio.run(_awaited(hooks)) is None
    orders: list[object] = [object()]
    assert hooks.full_updates(orders) is orders  # type: ignore[arg-type]


async def _awaited(hooks: Hooks) -> None:
    for effect in EFFECTS:
        await hooks.before(effect)


def test_the_product_runs_without_hooks() -> None:
    made = {name for name, text in SOURCES.items() if re.search(r"\bHooks\([^)]", text)}
    assert made == set()
