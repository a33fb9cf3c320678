"""The house stands: imports point down, cores do not touch the world, and nothing goes round in a circle.

Read from the source, not from loaded modules, so that imports inside functions count as well. When an arrow turns
round, the failure prints it. A room that is missing from `MAY_IMPORT` is a room nobody has given a sentence to.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("migrator", "state_machine", "api")

CORES: Final = frozenset({"model", "errors", "wire", "raft", "zk.znodes", "controller", "driver"})
"""Values in, values out. `zk.znodes` stands for everything in that folder that opens nothing."""

MAY_IMPORT: Final[dict[str, frozenset[str]]] = {
    room: frozenset(others.split())
    for room, others in {
        "model": "",
        "errors": "",
        "wire": "errors",
        "raft": "errors",
        "zk.znodes": "model errors",
        "zk.session": "zk.znodes model errors",
        "controller": "model wire errors",
        "driver": "model wire zk.znodes errors",
        "node": "raft controller driver wire zk.znodes zk.session model errors",
        "fleet": "model wire errors",
        "audit": "model wire zk.znodes zk.session errors",
        "lab": "errors",
        "state_machine": "model errors wire raft controller driver zk.znodes zk.session node fleet audit",
        "api": "state_machine model errors",
    }.items()
}

ZK_SHELLS: Final = frozenset(
    f"migrator.zk.{name}" for name in ("session", "pipeline", "kazoo_calls", "backup", "reach")
)
"""The modules of `migrator/zk` that open something or wait; the others are values."""

EXCEPTIONS: Final[dict[tuple[str, str], str]] = {
    ("node", "audit"): "the copy is audited before the commit; a hand-back and a release compare both sides, here",
}
"""Arrows between rooms that the picture does not have, each with its reason."""

MODULE_EXCEPTIONS: Final[dict[tuple[str, str], str]] = {
    ("api.main", "*"): "api/main.py alone wires everything",
}
"""(module, room) pairs; "*" stands for every room."""

FORBIDDEN_IN_CORES: Final = frozenset(
    {
        "asyncio", "concurrent", "confluent_kafka", "datetime", "fastapi", "fcntl", "httpx", "importlib", "kazoo",
        "logging", "multiprocessing", "os", "pathlib", "pyspark", "random", "requests", "secrets", "select",
        "selectors", "shutil", "signal", "socket", "sqlalchemy", "ssl", "structlog", "subprocess", "sys", "tempfile",
        "threading", "time", "urllib", "uuid", "uvicorn",
    }
)  # fmt: skip
"""Waiting, opening, chance and the clock: these arrive as arguments."""

ALLOWED_IN_CORES: Final[dict[tuple[str, str], str]] = {
    ("migrator.controller.decision", "random.Random"): "the type of the chance that arrives as an argument",
    ("migrator.errors", "os.strerror"): "a table of words",
    ("migrator.controller.placement", "random.Random"): "the type of the chance that arrives as an argument",
}

ONLY_USERS: Final[dict[str, frozenset[str]]] = {
    "kazoo": frozenset({"zk.session", "lab"}),
    "pyspark": frozenset({"audit", "lab"}),
    "sqlalchemy": frozenset({"state_machine"}),
    "alembic": frozenset({"state_machine"}),
}
"""Who may use a library at all. The laboratory looks from outside, so it may not borrow the product's eyes."""


@dataclass(frozen=True)
class Import:
    """`module` imports `target`; `name` is what is taken out of it, empty for the whole."""

    module: str
    target: str
    name: str
    line: int

    def __str__(self) -> str:
        return f"{self.module}:{self.line} imports {self.target}{'.' if self.name else ''}{self.name}"

    @property
    def is_ours(self) -> bool:
        return self.target.partition(".")[0] in PACKAGES

    @property
    def library(self) -> str:
        return self.target.partition(".")[0]


@cache
def imports() -> tuple[Import, ...]:
    return tuple(
        found for package in PACKAGES for path in sorted((ROOT / package).rglob("*.py")) for found in _of(path)
    )


def _of(path: Path) -> Iterator[Import]:
    module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    for node in ast.walk(ast.parse(path.read_text(), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(module, alias.name, "", node.lineno)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}:{node.lineno}: imports are absolute"
            for alias in node.names:
                whole = f"{node.module}.{alias.name}"
                if (ROOT / Path(*whole.split("."))).with_suffix(".py").is_file():
                    yield Import(module, whole, "", node.lineno)
                else:
                    yield Import(module, node.module or "", alias.name, node.lineno)


def room_of(module: str) -> str:
    """`migrator.driver.tell` lies in `driver`, `api.main` in `api`."""
    parts = module.split(".")
    if parts[0] != "migrator":
        return parts[0]
    if parts[1:2] == ["zk"]:
        return "zk.session" if module in ZK_SHELLS else "zk.znodes"
    return parts[1] if len(parts) > 1 else "migrator"


def between_rooms() -> list[Import]:
    return [each for each in imports() if each.is_ours and room_of(each.module) != room_of(each.target)]


def excepted(found: Import) -> bool:
    room = room_of(found.target)
    return (
        (room_of(found.module), room) in EXCEPTIONS
        or (found.module, room) in MODULE_EXCEPTIONS
        or (found.module, "*") in MODULE_EXCEPTIONS
    )


def test_every_arrow_points_down_the_picture() -> None:
    turned = [
        f"{each}  ({room_of(each.module)} -> {room_of(each.target)})"
        for each in between_rooms()
        if room_of(each.target) not in MAY_IMPORT[room_of(each.module)] and not excepted(each)
    ]
    assert not turned, "\n".join(["imports point down the picture of the house, never up:", *turned])


def test_no_two_rooms_need_each_other() -> None:
    graph: dict[str, set[str]] = {}
    for each in between_rooms():
        graph.setdefault(room_of(each.module), set()).add(room_of(each.target))
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"rooms in a circle: {' -> '.join(error.args[1])}")


def test_no_two_modules_of_a_controller_process_need_each_other() -> None:
    """The room with the most modules: what the acts are done with must not know the acts."""
    graph: dict[str, set[str]] = {}
    for each in imports():
        if room_of(each.module) == room_of(each.target) == "node":
            graph.setdefault(each.module, set()).add(each.target)
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"modules in a circle: {' -> '.join(error.args[1])}")


def test_phases_and_gates_know_only_the_model_and_the_findings() -> None:
    strangers = [
        str(each)
        for each in between_rooms()
        if each.module in ("state_machine.phases", "state_machine.gates")
        and room_of(each.target) not in ("model", "errors")
    ]
    assert not strangers, "\n".join(strangers)


def test_a_core_takes_time_and_chance_as_arguments_and_opens_nothing() -> None:
    found = [
        str(each)
        for each in imports()
        if room_of(each.module) in CORES
        and each.library in FORBIDDEN_IN_CORES
        and (each.module, f"{each.target}.{each.name}") not in ALLOWED_IN_CORES
    ]
    assert not found, "\n".join(["a core never waits and never looks at the clock:", *found])


@pytest.mark.parametrize("library", sorted(ONLY_USERS))
def test_a_library_stays_behind_its_one_door(library: str) -> None:
    others = [
        str(each)
        for each in imports()
        if each.library == library and room_of(each.module) not in ONLY_USERS[library] and each.module != "api.main"
    ]
    assert not others, "\n".join(others)


def test_no_exception_outlives_its_reason() -> None:
    arrows = {(room_of(each.module), room_of(each.target)) for each in between_rooms()}
    modules = {each.module for each in between_rooms()}
    taken = {(each.module, f"{each.target}.{each.name}") for each in imports()}
    assert set(EXCEPTIONS) <= arrows
    assert {module for module, _ in MODULE_EXCEPTIONS} <= modules
    assert set(ALLOWED_IN_CORES) <= taken
    assert all([*EXCEPTIONS.values(), *MODULE_EXCEPTIONS.values(), *ALLOWED_IN_CORES.values()])


def test_every_folder_is_a_room_of_the_picture() -> None:
    rooms = {room_of(each.module) for each in imports()} - {"migrator"}
    assert rooms <= set(MAY_IMPORT)
