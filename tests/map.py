"""The map in docs/architecture.md, drawn from the imports: `python -m tests.map --save` renews it.

In:   the source of every package. Out: a Mermaid chart of who imports whom, as few arrows as say the same.
Elsewhere: which arrows are allowed (tests/unit/test_arrows.py); that the page is fresh (tests/unit/test_map.py).
"""

from __future__ import annotations

import argparse
import ast
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "architecture.md"
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
        for node in ast.walk(ast.parse(path.read_text())):
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


def renewed(page: str) -> str:
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return before + the_map() + after


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m tests.map", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--save", action="store_true", help="write it into docs/architecture.md")
    if parser.parse_args(arguments).save:
        PAGE.write_text(renewed(PAGE.read_text()))
    else:
        print(the_map())
    return 0


if __name__ == "__main__":
    sys.exit(main())
