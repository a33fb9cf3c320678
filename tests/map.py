"""The map in docs/architecture.md and the way in README.md: `python -m tests.map --save` draws both anew.

In:   the source of every package; the table of phases.
Out:  a Mermaid chart of who imports whom, as few arrows as say the same; one of the phases, forward and back.
Elsewhere: which arrows are allowed (tests/unit/test_arrows.py); that the page is fresh (tests/unit/test_map.py).
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final

from state_machine.policy.phases import (
    BEFORE_TAKEOVER,
    PEOPLE,
    ROAD,
    TRANSITIONS,
    WINDOW,
    Trigger,
    next_edges,
)
from tests.support.source_trees import tree_of

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "architecture.md"
README: Final = ROOT / "README.md"
WAY_BEGIN: Final = "<!-- the way: python -m tests.map --save -->"
WAY_END: Final = "<!-- end of the way -->"
BEGIN: Final = "<!-- the map: python -m tests.map --save -->"
END: Final = "<!-- end of the map -->"
TOP: Final = ("api", "state_machine", "migrator")


def part_of(module: str, inside: str) -> str:
    """The package or module right below `inside` that `module` belongs to; "" when it is outside."""
    return module.removeprefix(f"{inside}.").partition(".")[0] if module.startswith(f"{inside}.") else ""


def imports() -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for path in (path for top in TOP for path in sorted((ROOT / top).rglob("*.py"))):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        for node in ast.walk(tree_of(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                found.setdefault(module, set()).update(f"{node.module}.{alias.name}" for alias in node.names)
    return found


def between_packages(known: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Of api, state_machine and the packages of migrator."""

    def package(module: str) -> str:
        top = module.partition(".")[0]
        return part_of(module, "migrator") if top == "migrator" else top if top in TOP else ""

    return _graph(known, package)


def inside(known: Mapping[str, set[str]], package: str) -> dict[str, set[str]]:
    """Of the sub-packages of one package; modules that stand beside them are left out."""
    folders = {path.parent.name for path in (ROOT / Path(*package.split("."))).glob("*/__init__.py")}

    def part(module: str) -> str:
        found = part_of(module, package)
        return found if found in folders else ""

    return _graph(known, part)


def _graph(known: Mapping[str, set[str]], part: object) -> dict[str, set[str]]:
    assert callable(part)
    graph: dict[str, set[str]] = {}
    for module, targets in known.items():
        for target in targets:
            one, other = part(module), part(target)
            if one and other and one != other:
                graph.setdefault(one, set()).add(other)
                graph.setdefault(other, set())
    return graph


def reduced(graph: Mapping[str, set[str]]) -> dict[str, set[str]]:
    """Without the arrows that follow from others."""

    def reach(start: str) -> set[str]:
        found: set[str] = set()
        waiting = list(graph[start])
        while waiting:
            each = waiting.pop()
            if each not in found:
                found.add(each)
                waiting += graph[each]
        return found

    return {
        one: {to for to in targets if not any(to in reach(via) for via in targets - {to})}
        for one, targets in graph.items()
    }


def chart(graph: Mapping[str, set[str]]) -> list[str]:
    arrows = [f"    {one} --> {to}" for one, targets in sorted(graph.items()) for to in sorted(targets)]
    return ["```mermaid", "flowchart TD", *arrows, "```"]


def the_map() -> str:
    known = imports()
    lines = [BEGIN, "", *chart(reduced(between_packages(known))), ""]
    lines += ["Inside `migrator/node`:", "", *chart(reduced(inside(known, "migrator.node"))), ""]
    lines += ["Inside `state_machine`:", "", *chart(reduced(inside(known, "state_machine"))), "", END]
    return "\n".join(lines)


def the_way() -> str:
    """Phases that one order leads through are one box. Dotted: where `abort` and `rollback` lead back to."""
    boxes = [BEFORE_TAKEOVER, WINDOW, *((phase,) for phase in ROAD if phase not in (*BEFORE_TAKEOVER, *WINDOW))]
    arrows = [f'    {box[0]}["{"<br>".join(box)}"]' for box in boxes]
    arrows.append('    zookeeper(["ZooKeeper mode, as before"])')
    for box, following in pairwise(boxes):
        orders = [trigger for trigger, edge in next_edges(box[-1]).items() if edge.to is following[0]]
        by_person = next((PEOPLE[each] for each in orders if each in PEOPLE), "")
        arrows.append(f"    {box[0]} {f'-- {by_person} -->' if by_person else '-->'} {following[0]}")
    for box in boxes:
        back = [
            each for each in (Trigger.ABORT, Trigger.ROLL_BACK) if any((phase, each) in TRANSITIONS for phase in box)
        ]
        if back:
            given_up = TRANSITIONS[box[0], Trigger.ABORT].to if back == [Trigger.ABORT] else "zookeeper"
            arrows.append(f"    {box[0]} -. {' or '.join(PEOPLE[each] for each in back)} .-> {given_up}")
    return "\n".join([WAY_BEGIN, "", "```mermaid", "flowchart LR", *arrows, "```", "", WAY_END])


def renewed(page: str) -> str:
    return _between(_between(page, BEGIN, END, the_map), WAY_BEGIN, WAY_END, the_way)


def _between(page: str, begin: str, end: str, drawn: Callable[[], str]) -> str:
    """The page with what stands between two marks drawn anew, if it has them."""
    if begin not in page:
        return page
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return before + drawn() + after


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m tests.map", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--save", action="store_true", help="write both into their pages")
    if parser.parse_args(arguments).save:
        for page in (PAGE, README):
            page.write_text(renewed(page.read_text()))
    else:
        print(the_map(), the_way(), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
