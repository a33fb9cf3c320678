"""The map in docs/architecture.md, the way in README.md and the tables in docs/phases.md and docs/feature-levels.md,
drawn anew by `python -m tests.map --save`.

In:   the source of every package; the tables of phases and operations, of feature levels and what they lose.
Out:  a Mermaid chart of who imports whom, as few arrows as say the same; one of the phases, forward and back; tables.
Elsewhere: which arrows are allowed (tests/unit/test_arrows.py); that the page is fresh (tests/unit/test_map.py).
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final

from migrator.model.features.cases import CASES
from migrator.model.features.losses import ELR, KINDS, LOSES_NOTHING
from migrator.model.levels import level_name
from state_machine.policy.phase_table import PHASES, WAY_FORWARD, PhaseRow, phases_where
from state_machine.policy.phases import OPERATIONS, PEOPLE, TRANSITIONS, Trigger, next_edges
from tests.support.source_trees import tree_of

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "architecture.md"
README: Final = ROOT / "README.md"
WAY_BEGIN: Final = "<!-- the way: python -m tests.map --save -->"
WAY_END: Final = "<!-- end of the way -->"
PHASES_PAGE: Final = ROOT / "docs" / "phases.md"
PHASES_BEGIN: Final = "<!-- the phases: python -m tests.map --save -->"
PHASES_END: Final = "<!-- end of the phases -->"
LEVELS_PAGE: Final = ROOT / "docs" / "feature-levels.md"
CASES_BEGIN: Final = "<!-- the cases: python -m tests.map --save -->"
CASES_END: Final = "<!-- end of the cases -->"
LOSSES_BEGIN: Final = "<!-- the losses: python -m tests.map --save -->"
LOSSES_END: Final = "<!-- end of the losses -->"
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
    before, window = (phases_where(lambda row: row.before_takeover), phases_where(lambda row: row.without_controller))
    boxes = [before, window, *((phase,) for phase in WAY_FORWARD if phase not in (*before, *window))]
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


def the_phases() -> str:
    """Each phase, each column with the phases that it picks, each operation."""
    lines = [PHASES_BEGIN, "", *_table("phase | the migration | rolling restarts | `rollback` | leads on to", _rows())]
    lines += ["", *_table("column | what it says | phases", _columns()), ""]
    lines += [
        *_table("operation | may lead to | where phases that lead on end", _operations()),
        "",
        PHASES_END,
    ]
    return "\n".join(lines)


def the_cases() -> str:
    """Each case of metadata.version."""
    rows = (f"{row.case} | {row.holds} | {row.effective} | {row.remedy}" for row in CASES.values())
    head = "case | holds for a node when | effective version | what to do"
    return "\n".join([CASES_BEGIN, "", *_table(head, rows), "", CASES_END])


def the_losses() -> str:
    """What a log at a lower level cannot say, the newest first."""
    rows = (
        f"{level_name(row.first_level)} | {row.kind} | {'.'.join(filter(None, (row.record, row.field)))}"
        for row in (ELR, *KINDS)
    )
    lossless = (f"{level_name(level)} | nothing | {why}" for level, why in LOSES_NOTHING.items())
    head = "below this level | is lost | record and field"
    lines = [*_table(head, rows), "", *_table("records changed at | is lost | why", lossless)]
    return "\n".join([LOSSES_BEGIN, "", *lines, "", LOSSES_END])


def _rows() -> Iterator[str]:
    for phase, row in PHASES.items():
        back = "no" if row.goes_back is None else row.goes_back
        yield f"{phase} | {row.stage} | {', '.join(row.rolls) or 'none'} | {back} | {row.ends or 'nothing by itself'}"


def _columns() -> Iterator[str]:
    said = dict(re.findall(r"^    (\w+): (.+)$", PhaseRow.__doc__ or "", re.MULTILINE))
    said |= {name: each.fget.__doc__ for name, each in vars(PhaseRow).items() if isinstance(each, property)}
    for name, words in said.items():
        picked = [phase for phase, row in PHASES.items() if getattr(row, name)]
        if any(getattr(row, name) is True for row in PHASES.values()):
            yield f"`{name}` | {words[:1].upper()}{words[1:].removesuffix('.')} | {', '.join(picked)}"


def _operations() -> Iterator[str]:
    for row in OPERATIONS.values():
        to = [edge.to for (_, trigger), edge in TRANSITIONS.items() if trigger is row.trigger]
        yield f"`{row.word}` | {', '.join(dict.fromkeys(to)) or 'it changes no phase'} | {row.ends or ''}"


def _table(head: str, rows: Iterable[str]) -> list[str]:
    return [f"| {head} |", "| --- " * len(head.split("|")) + "|", *(f"| {row} |" for row in rows)]


def renewed(page: str) -> str:
    for begin, end, drawn in (
        (BEGIN, END, the_map),
        (WAY_BEGIN, WAY_END, the_way),
        (PHASES_BEGIN, PHASES_END, the_phases),
        (CASES_BEGIN, CASES_END, the_cases),
        (LOSSES_BEGIN, LOSSES_END, the_losses),
    ):
        page = _between(page, begin, end, drawn)
    return page


def _between(page: str, begin: str, end: str, drawn: Callable[[], str]) -> str:
    """The page with what stands between two marks drawn anew, if it has them."""
    if begin not in page:
        return page
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return before + drawn() + after


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser("python -m tests.map", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--save", action="store_true", help="write them into their pages")
    if parser.parse_args(arguments).save:
        for page in (PAGE, README, PHASES_PAGE, LEVELS_PAGE):
            page.write_text(renewed(page.read_text()))
    else:
        print(the_map(), the_way(), the_phases(), the_cases(), the_losses(), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
