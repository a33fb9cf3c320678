"""One concept has one word, and it is the field's: words of an earlier language stay out of code, texts and docs.

Looked for in names of the code (split at capitals and underscores), in its texts, docstrings and comments, and in every
page. What is allowed stands in `ALLOWED` with its reason, and words that are not looked for in `ORDINARY`.
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
    r"this room|rooms|houses?": "package",
    r"NOT TRUE|NOT GREEN": "a condition's status",
    r"zk2kraft release|zk2kraft hold": "rollback --without-controllers; pause",
}
"""What is looked for, as a whole word, and the word to use."""


ORDINARY: Final[dict[str, str]] = {
    "ask": "programs ask each other in every request; for what an operator wants, names and texts say operation",
    "order": "what others write into ZooKeeper for its controller is an order, and things stand in an order",
    "signal": "a process gets SIGTERM",
    "look": "a reader and a program look at things; the recorded reading is an observation",
    "seen": "as look",
    "told": "as ask: one program tells another",
    "hold": "a claim is held, a condition holds; what stops new steps is pause",
    "window": "maintenance windows, and `window_ms` of the REST answers",
    "gap": "`gap_s` of the REST answers, and gaps between offsets, epochs and codes",
    "post": "HTTP's POST",
    "rule": "expected differences have rules, and so has every module",
    "release": "Kafka's releases",
    "settled": "partitions and transactions settle",
    "green": "the colour of a badge; an audit passes",
    "meant": "an operation is meant for one run of a controller",
    "page": "a page of the service or of the docs; that of a finding is its runbook",
    "proof": "an audit is one; what was verified and did not change is the verified cache",
    "lag": "consumers lag; that of ZooKeeper is the dual-write lag",
}
"""Words that stand for something that has a word, and that have an ordinary use too: no test can tell the two apart."""


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


def test_what_is_not_looked_for_has_a_reason_and_is_not_looked_for() -> None:
    assert all(ORDINARY.values())
    assert not [word for word in ORDINARY for pattern in BANNED if re.fullmatch(pattern, word)]


@pytest.mark.parametrize(
    "source", ['"""What was wished."""', "first = 1  # as was wished", 'text = "was wished"', "wished = 1"]
)
def test_a_docstring_a_comment_a_text_and_a_name_are_read(source: str) -> None:
    assert [text for _, text in words_of(source) if "wished" in text]


@pytest.mark.parametrize("pattern", BANNED)
def test_no_name_text_or_page_uses_a_word_of_the_earlier_language(pattern: str) -> None:
    word = re.compile(
        rf"(?<![A-Za-z])(?:{pattern})(?![A-Za-z])" if pattern.isupper() else rf"(?i)(?<![a-z])(?:{pattern})(?![a-z])"
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
        for number, text in words_of(source):
            yield f"{where}:{number}", text


def words_of(source: str) -> Iterator[tuple[int, str]]:
    yield from names_and_comments_of(source)
    yield from texts_of(source)


def names_and_comments_of(source: str) -> Iterator[tuple[int, str]]:
    """Each name as words: `RolledBack` and `rolled_back` are both "rolled back"."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
        if token.type == tokenize.NAME:
            apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", token.string.replace("ZooKeeper", "Zookeeper"))
            yield token.start[0], apart.replace("_", " ").strip()


def texts_of(source: str) -> Iterator[tuple[int, str]]:
    """Strings of the code, docstrings among them, line by line."""
    for node in ast.walk(tree_of(source)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from enumerate(node.value.splitlines(), node.lineno)
