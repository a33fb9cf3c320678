"""What a docstring points to exists: a module, a page, a rule by its number.

Rules: a pointer to a module is `name.py`, `package/name.py`, or, in a parenthesis of an `Elsewhere:` paragraph,
`package.name`, `package.name.attribute` or a name with an underscore. It is read from the folder of its own file, from
each folder above, and from the roots of the product. A name alone may also be that of the only such file.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.support.source_trees import tree_of

ROOT: Final = Path(__file__).resolve().parents[2]
PRODUCT: Final = ("migrator", "state_machine", "api")
SOURCES: Final = sorted(
    file for top in (*PRODUCT, "tests") for file in (ROOT / top).rglob("*.py") if file.name != Path(__file__).name
)
DOCSTRING: Final = re.compile(r'^ *"""(.*?)"""', re.MULTILINE | re.DOTALL)
FILE: Final = re.compile(r"(?<![\w./*-])((?:[\w-]+/)*\w+\.(?:py|pyi))\b(?!:)")
PAGE: Final = re.compile(r"(?<![\w./-])((?:docs|runbooks|findings|docker)/[\w./-]*\w\.(?:md|ya?ml|json))\b")
ELSEWHERE: Final = re.compile(r"^Elsewhere:.*?(?=^[A-Z][a-z]+: |^\n|\Z)", re.MULTILINE | re.DOTALL)
PARENTHESIS: Final = re.compile(r"\(([^()]*)\)")
DOTTED: Final = re.compile(r"(?<![\w./'-])([a-z]\w*(?:\.\w+)+|(?<!`)[a-z]+_\w+)(?![\w/'(-]|\.\w)")
PACKAGES: Final = {place.name for top in PRODUCT for place in (ROOT / top).iterdir() if place.is_dir()}
NO_MODULES: Final = (".py", ".md", ".id", ".json", ".toml", ".yaml", "jute.maxbuffer", "http.closed", "driver.state")
KEYS_OF_KAFKA: Final = ("controller.listener.", "controller.quorum.", "controller.socket.")
RULE: Final = re.compile(r"\b([RKF]-(?:\d{3}-)?)(\d{2})\b((?:(?:, | to |\.\.)-?(?:R-\d{3}-)?\d{2}\b(?!-))*)")
PAGES_OF_RULES: Final = {"R": ROOT / "docs/rules.md", "K": ROOT / "docs/rules.md", "F": ROOT / "docs/cases.md"}


def docstrings(text: str) -> list[str]:
    """Those of module, classes and functions, and texts below constants. Parsing every source would take ten times."""
    return DOCSTRING.findall(text)


@functools.cache
def names_of(module: Path) -> frozenset[str]:
    """What stands at the top of a module, and `Class.member`."""
    found: set[str] = set()
    for node in tree_of(module.read_bytes()).body:
        found |= _declared(node)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{name}" for inner in node.body for name in _declared(inner)}
    return frozenset(found)


def _declared(node: ast.stmt) -> set[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return {name}
        case ast.AnnAssign(target=ast.Name(id=name)):
            return {name}
        case ast.Assign(targets=targets):
            return {each.id for each in targets if isinstance(each, ast.Name)}
    return set()


@functools.cache
def existing() -> frozenset[str]:
    """Every source, from the root."""
    return frozenset(file.relative_to(ROOT).as_posix() for file in (*SOURCES, Path(__file__)))


@functools.cache
def files_named(name: str) -> int:
    return sum(file.rpartition("/")[2] == name for file in existing())


@functools.cache
def bases(folder: Path) -> tuple[str, ...]:
    """Where a pointer of a file in it may begin: this folder and those above, then the roots of the product."""
    above = (each.relative_to(ROOT).as_posix() for each in (folder, *folder.parents) if each.is_relative_to(ROOT))
    return tuple("" if each == "." else f"{each}/" for each in (*above, *PRODUCT))


@functools.cache
def is_file(pointer: str, folder: Path) -> bool:
    if any(base + pointer in existing() for base in bases(folder)):
        return True
    return "/" not in pointer and files_named(pointer) == 1


@functools.cache
def is_module(pointer: str, folder: Path) -> bool:
    """Whether it is a package, a module, or what stands in one."""
    parts = pointer.split(".")
    for base in bases(folder):
        for taken in range(len(parts), 0, -1):
            place, rest = base + "/".join(parts[:taken]), ".".join(parts[taken:])
            module = next((each for each in (f"{place}.py", f"{place}/__init__.py") if each in existing()), None)
            if module is not None and (not rest or rest in names_of(ROOT / module)):
                return True
    return len(parts) == 1 and files_named(f"{pointer}.py") == 1


def dotted(text: str) -> Iterator[str]:
    """Pointers to modules without an ending. A name alone, or of no package of ours, is one only where those stand."""
    elsewhere = [within for each in ELSEWHERE.findall(text) for within in PARENTHESIS.findall(each)]
    yield from (pointer for within in elsewhere for pointer in DOTTED.findall(within) if not is_no_module(pointer))
    for pointer in DOTTED.findall(text):
        if pointer.partition(".")[0] in PACKAGES and not is_no_module(pointer):
            yield pointer


def is_no_module(pointer: str) -> bool:
    return pointer.endswith(NO_MODULES) or pointer.startswith(KEYS_OF_KAFKA)


def broken(text: str, file: Path) -> set[str]:
    """Pointers of the docstrings of one source that lead nowhere."""
    found = set()
    for docstring in docstrings(text):
        found |= {pointer for pointer in FILE.findall(docstring) if not is_file(pointer, file.parent)}
        found |= {page for page in PAGE.findall(docstring) if not (ROOT / page).exists()}
        found |= {pointer for pointer in dotted(docstring) if not is_module(pointer, file.parent)}
    return found


def rules_in(text: str) -> Iterator[str]:
    """Numbers as they are written: `R-866-01, 06`, `R-778-05 to 08`, `R-595-01..13`, and each by itself."""
    for series, first, more in RULE.findall(text):
        yield series + first
        before = int(first)
        for between, number in re.findall(r"(, | to |\.\.)-?(?:R-\d{3}-)?(\d{2})", more):
            begin = int(number) if between == ", " else before + 1
            yield from (f"{series}{each:02}" for each in range(begin, int(number) + 1))
            before = int(number)


def rows_of(page: Path) -> set[str]:
    return set(re.findall(r"^\| ([RKF]-[\d-]+) \|", page.read_text(), re.MULTILINE))


@functools.cache
def named_rules() -> dict[str, str]:
    """Every number that code, tests or pages name, with one place that does."""
    pages = [page for page in (ROOT / "docs").rglob("*.md") if page not in PAGES_OF_RULES.values()]
    files = [*SOURCES, *pages, *(ROOT / "runbooks").glob("*.md")]
    return {rule: str(file.relative_to(ROOT)) for file in files for rule in rules_in(file.read_text())}


def test_every_pointer_of_a_docstring_leads_somewhere() -> None:
    found = {f"{file.relative_to(ROOT)}: {each}" for file in SOURCES for each in broken(file.read_text(), file)}
    assert found == set()


def test_every_rule_that_is_named_by_its_number_stands_on_its_page() -> None:
    rows = {row for page in set(PAGES_OF_RULES.values()) for row in rows_of(page)}
    assert {rule: place for rule, place in named_rules().items() if rule not in rows} == {}


def test_the_page_of_rules_has_no_number_that_nothing_names() -> None:
    assert rows_of(ROOT / "docs/rules.md") - named_rules().keys() == set()


@pytest.mark.parametrize(
    ("docstring", "expected"),
    [
        ("Elsewhere: a (gone.py), b (mirror.py).", {"gone.py"}),
        ("Elsewhere: a (node.tree_reader), b (node.zookeeper.tree_reader).", {"node.tree_reader"}),
        ("Looked at (`node.zookeeper.tree_reader.read_guards`, node.zookeeper.tree_reader.read_all).", {"read_all"}),
        ("Elsewhere: a (log_replay), b (log_played).", {"log_played"}),
        ("Elsewhere: a (claim.Claim, claim.Clam, driver).", {"claim.Clam"}),
        ("See docs/undo.md, docs/redo.md and runbooks/Z2K-1008.md.", {"docs/redo.md"}),
        ("`zookeeper.connect`, `controller.quorum.voters` and 3.9 are no pointers; nor is server.properties.", set()),
        ("Shown by tests/unit/driver/test_claim.py and tests/unit/driver/test_clam.py.", {"test_clam.py"}),
    ],
)
def test_a_pointer_that_leads_nowhere_is_found(docstring: str, expected: set[str]) -> None:
    found = broken(f'"""{docstring}"""', ROOT / "migrator/driver/mirror.py")
    assert len(found) == len(expected)
    assert all(any(pointer.endswith(each) for each in expected) for pointer in found)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("R-866-01, 06, 11 and K-07.", ["R-866-01", "R-866-06", "R-866-11", "K-07"]),
        ("R-778-05 to 08", ["R-778-05", "R-778-06", "R-778-07", "R-778-08"]),
        ("R-778-03 to R-778-05; F-31", ["R-778-03", "R-778-04", "R-778-05", "F-31"]),
        ("R-778-03, -08", ["R-778-03", "R-778-08"]),
        ("R-595-01..03", ["R-595-01", "R-595-02", "R-595-03"]),
        ("R-866-10, R-866-11, K-02", ["R-866-10", "R-866-11", "K-02"]),
    ],
)
def test_numbers_are_read_in_every_form_that_is_written(text: str, numbers: list[str]) -> None:
    assert sorted(set(rules_in(text))) == sorted(numbers)
