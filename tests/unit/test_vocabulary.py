"""One concept has one word, and it is the field's: words of an earlier language stay out of code, texts and docs.

Looked for in names of the code (split at capitals and underscores), in the texts that the code shows (strings that are
no docstrings), and in every page. What is allowed stands in `ALLOWED` with its reason.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

import pytest

from tests.support.source_trees import tree_of

ROOT: Final = Path(__file__).resolve().parents[2]
CODE: Final = ("migrator", "state_machine", "api")
PAGES: Final = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "docs", "runbooks", "api/templates")

BANNED: Final[dict[str, str]] = {
    r"wish(?:es|ed)?": "operation",
    r"teller|telling": "broker updates",
    r"hand(?:ed|ing|s)?[ _-]?back": "rollback",
    r"g(?:ive|iven|iving|ave)[ _-]back": "rollback, or abort before the commit",
    r"giving[ _-]up": "rollback, or abort before the commit",
    r"hand(?:ed|ing|s)?[ _-]?over": "replacing controllers",
    r"keepers?": "supervisor",
    r"strangers?": "not in inventory, or not following",
    r"rulers?|ruled": "active controller",
    r"sights?": "observation",
    r"voices?": "progress reporter",
    r"seals?|sealed": "secret fingerprint",
    r"(?:un)?settled?[ _-]claim": "ephemeral claim; persist the claim",
    r"NOT TRUE|NOT GREEN": "a condition's status",
    r"zk2kraft release|zk2kraft hold": "rollback --without-controllers; pause",
}
"""What is looked for, as a whole word, and the word to use."""


@dataclass(frozen=True)
class Allowed:
    """A use of a banned word that stays. where: the beginning of the file's path; text: what its line contains."""

    where: str
    text: str
    reason: str


ALLOWED: Final = (
    Allowed("migrator/node/log/storage.py", "zk2kraft-handed-back", "the name of a file on controllers' disks"),
    Allowed("migrator/model/values.py", "handed-back", "the value of a mark in metadata logs"),
    Allowed("migrator/zk", "Keeper", "a class of kazoo"),
    Allowed("CHANGELOG.md", "the place of", "it says which name a command had before"),
    Allowed("docs", "handed-back", "pages name that file and that mark"),
    Allowed("runbooks", "handed-back", "pages name that file and that mark"),
)


def test_the_list_of_what_is_allowed_is_short_and_has_reasons() -> None:
    assert len(ALLOWED) <= 10
    assert all(each.reason for each in ALLOWED)
    assert all(any(each.text in line for _, line in lines_below(each.where)) for each in ALLOWED)


@pytest.mark.parametrize("pattern", BANNED)
def test_no_name_text_or_page_uses_a_word_of_the_earlier_language(pattern: str) -> None:
    word = re.compile(
        rf"(?<![A-Za-z]){pattern}(?![A-Za-z])" if pattern.isupper() else rf"(?i)(?<![a-z]){pattern}(?![a-z])"
    )
    found = [f"{where}: {text}" for where, text in everything() if word.search(text) and not is_allowed(where, text)]
    assert not found, "\n".join([f"the word is: {BANNED[pattern]}", *found[:40], f"{len(found)} in all"])


def is_allowed(where: str, text: str) -> bool:
    return any(where.startswith(each.where) and each.text in text for each in ALLOWED)


@cache
def everything() -> tuple[tuple[str, str], ...]:
    return (*names_and_texts(), *(line for page in PAGES for line in lines_below(page)))


def lines_below(where: str) -> Iterator[tuple[str, str]]:
    top = ROOT / where
    for path in [top] if top.is_file() else sorted(top.rglob("*")):
        if path.suffix in (".md", ".html", ".py"):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                yield f"{path.relative_to(ROOT)}:{number}", line


def names_and_texts() -> Iterator[tuple[str, str]]:
    for path in (path for package in CODE for path in sorted((ROOT / package).rglob("*.py"))):
        where, source = str(path.relative_to(ROOT)), path.read_text()
        for number, name in names_of(source):
            yield f"{where}:{number}", name
        for number, text in texts_of(source):
            yield f"{where}:{number}", text


def names_of(source: str) -> Iterator[tuple[int, str]]:
    """Each name as words: `RolledBack` and `rolled_back` are both "rolled back"."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME:
            apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", token.string.replace("ZooKeeper", "Zookeeper"))
            yield token.start[0], apart.replace("_", " ").strip()


def texts_of(source: str) -> Iterator[tuple[int, str]]:
    """Strings of the code that are no docstrings."""
    tree = tree_of(source)
    alone = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in alone:
            yield node.lineno, node.value
