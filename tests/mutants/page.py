"""The table of `docs/mutants.md`: written by a run of all faults, never by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tests.mutants.runner import Result, Verdict

HEAD: Final = """# Hand-made faults

`make mutants` puts {count} faults, one at a time, into lines on which data depends, and runs the tests that must find
each ({minutes:.0f} minutes for the run below). It works on a copy; nothing of it runs in CI. This page is its output.

```
python -m tests.mutants [--only PACKAGE] [--processes 2] [--limit-s 240] [--save]
```

The list is declarative (`tests/mutants/`): file, text, replacement, why it matters, tests. An entry whose text does not
stand in its file exactly once is an error of the list, and `tests/unit/test_mutants.py` says so in every condition. A
fault is *killed* when its tests pass without it and one fails with it, *survived* when all pass, *unproven* when the
tests fail without it as well or cannot be collected. The simulator's own faults are in docs/simulation.md.

"""


def rates(results: Sequence[Result]) -> list[tuple[str, int, int]]:
    """Package, killed, all; the last line is the sum."""
    packages = list(dict.fromkeys(each.fault.package for each in results))
    lines = []
    for package in packages:
        of_it = [each for each in results if each.fault.package == package]
        lines.append((package, sum(each.verdict is Verdict.KILLED for each in of_it), len(of_it)))
    return [*lines, ("all", sum(line[1] for line in lines), sum(line[2] for line in lines))]


def rate_table(results: Sequence[Result]) -> str:
    lines = ["| package | killed | of | rate |", "| --- | --- | --- | --- |"]
    lines += [
        f"| {name} | {killed} | {count} | {100 * killed / count:.0f} % |" for name, killed, count in rates(results)
    ]
    return "\n".join(lines)


def page(results: Sequence[Result], took_s: float) -> str:
    """The whole page, with one line for each fault."""
    parts = [
        HEAD.format(count=len(results), minutes=took_s / 60),
        "## Rates\n\n",
        rate_table(results),
        "\n\n## Faults\n\n",
    ]
    parts.append("| where | what it would cost | | found by, or why not |\n| --- | --- | --- | --- |\n")
    parts += [f"{_line(each)}\n" for each in results]
    return "".join(parts)


def _line(each: Result) -> str:
    said = each.by or each.fault.survives or "nobody looks"
    place = f"{each.fault.file.removeprefix('migrator/')}:{each.line}"
    return f"| {place} | {each.fault.why} | {each.verdict} | {_short(said)} |"


def _short(text: str) -> str:
    return text.removeprefix("tests/").replace("|", "/")[:160]
