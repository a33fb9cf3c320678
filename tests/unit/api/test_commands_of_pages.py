"""Every command that a page or a runbook names exists, with its options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
import typer.main

from api.cli import app

ROOT: Final = Path(__file__).resolve().parents[3]
PAGES: Final = sorted({*(ROOT / "docs").rglob("*.md"), *(ROOT / "runbooks").glob("*.md"), *ROOT.glob("[D-Z]*.md")})
"""The changelog names commands of before. Contributors have theirs in CONTRIBUTING.md: `make` and tests."""
COMMAND: Final = re.compile(r"(?:(?<=`)|(?<=\$ ))zk2kraft((?: (?!zk2kraft)[^`\n|);]*)?)")
OPTION: Final = re.compile(r"(?<!\S)(--[a-z][a-z-]+|-[a-z])(?=[\s=.,:]|$)")


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], set[str]]]:
    """Each with its own options; a group has those of all below it, as `zk2kraft render --diff` is said of both."""
    below = [
        found for name, each in getattr(command, "commands", {}).items() for found in commands(each, (*path, name))
    ]
    own = {name for each in command.params for name in (*each.opts, *each.secondary_opts)} | {"--help"}
    yield path, own | ({option for _, options in below for option in options} if path else set())
    yield from below


KNOWN: Final = dict(commands(typer.main.get_command(app)))


def wrong(text: str) -> list[str]:
    """Commands and options of a text that do not exist."""
    found = []
    for said in COMMAND.findall(text):
        path: tuple[str, ...] = ()
        for word in said.split():
            if (*path, word.rstrip(".,:")) not in KNOWN:
                if not path and re.fullmatch(r"[a-z][a-z-]+[.,:]?", word):
                    found.append(f"zk2kraft{said}")
                break
            path = (*path, word.rstrip(".,:"))
        found += [f"zk2kraft{said}: {option}" for option in OPTION.findall(said) if path and option not in KNOWN[path]]
    return found


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_of_a_page_exists_with_its_options(page: Path) -> None:
    assert wrong(page.read_text()) == []


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("`zk2kraft status` and `zk2kraft gates -m 3`", 0),
        ("`zk2kraft undo` says how", 1),
        ("$ zk2kraft statuss\n", 1),
        ("$ zk2kraft inventory import --ansibles FILE --out i.yaml", 1),
        ("$ zk2kraft check -z ZK:2181 --controllers FILE | grep x --color", 0),
        ("zk2kraft takes a cluster over", 0),
    ],
)
def test_a_command_that_does_not_exist_is_found(text: str, count: int) -> None:
    assert len(wrong(text)) == count
