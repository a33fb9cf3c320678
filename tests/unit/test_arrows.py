"""Imports point down, cores do not touch the world, no two parts of a package need each other, and no act of the driver
assigns the driver's state.

Read from the source, not from loaded modules, so that imports inside functions count as well. When an import points
the wrong way, the failure prints it. A package that is missing from `MAY_IMPORT` has no place in the picture yet.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Set
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Final

import pytest

from tests.support.source_trees import tree_of

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("migrator", "state_machine", "api")
MODULES_MAX: Final = 25
"""At one level of one package: more of them are two packages."""

CORES: Final = frozenset(
    {"model", "control_api", "findings", "wire", "wire.errors", "raft", "records", "zk.znodes", "controller", "driver"}
)
"""Values in, values out. `zk.znodes` stands for everything in that folder that opens nothing."""

MAY_IMPORT: Final[dict[str, frozenset[str]]] = {
    package: frozenset(others.split())
    for package, others in {
        "model": "",
        "findings": "",
        "control_api": "",
        "tls": "",
        "http": "",
        "kerberos": "model findings",
        "commands": "",
        "wire": "findings",
        "wire.errors": "",
        "raft": "wire.errors findings",
        "records": "model wire",
        "zk.znodes": "model findings",
        "zk.session": "zk.znodes model tls kerberos findings",
        "controller": "model wire records wire.errors findings",
        "driver": "control_api model wire records zk.znodes findings",
        "node": "control_api raft controller driver wire wire.errors zk.znodes zk.session model tls http "
        "commands kerberos findings",
        "audit": "model wire zk.znodes zk.session findings",
        "fleet": "model wire commands findings",
        "lab": "findings http",
        "state_machine": "control_api model findings wire raft controller driver zk.znodes zk.session node audit fleet "
        "http tls",
        "api": "state_machine control_api model http findings",
    }.items()
}

ZK_SHELLS: Final = frozenset(
    f"migrator.zk.{name}"
    for name in (
        *("session", "pipeline", "kazoo_calls", "backup", "reach", "tls_sockets", "select_handler"),
        *("logins", "kerberos", "files.server_files", "files.session"),
    )
)
"""The modules of `migrator/zk` that open something or wait; the others are values."""

EXCEPTIONS: Final[dict[tuple[str, str], str]] = {
    ("node", "audit"): "the copy is audited before the commit; a rollback and a release compare both sides, here",
}
"""Arrows between packages that the picture does not have, each with its reason."""

MODULE_EXCEPTIONS: Final[dict[tuple[str, str], str]] = {
    **dict.fromkeys(
        (
            (f"api.commands.{name}", "*")
            for name in (
                "controllers",
                "clusters",
                "audits",
                "audit_history",
                "disks",
                "features",
                "fleet",
                "laboratory",
                "plan",
                "service",
                "tiered",
            )
        ),
        "the commands alone put everything together",
    ),
    ("api.cli", "audit"): "which engine is there decides what an option has where nobody says",
}
"""(module, package) pairs; "*" stands for every package."""

FORBIDDEN_IN_CORES: Final = frozenset(
    {
        "asyncio", "concurrent", "confluent_kafka", "datetime", "fastapi", "fcntl", "httpx", "importlib", "kazoo",
        "logging", "multiprocessing", "os", "pathlib", "pyspark", "random", "requests", "secrets", "select",
        "selectors", "shutil", "signal", "socket", "sqlalchemy", "ssl", "starlette", "structlog", "subprocess", "sys",
        "tempfile", "threading", "time", "urllib", "uuid", "uvicorn",
    }
)  # fmt: skip
"""Waiting, opening, chance and the clock: these arrive as arguments."""

ALLOWED_IN_CORES: Final[dict[tuple[str, str], str]] = {
    ("migrator.controller.decision", "random.Random"): "the type of the chance that arrives as an argument",
    ("migrator.findings.finding", "os.strerror"): "a table of words",
    ("migrator.controller.partitions.placement", "random.Random"): "the type of the chance that arrives as an argument",
}

ONLY_USERS: Final[dict[str, frozenset[str]]] = {
    "kazoo": frozenset({"zk.session", "lab"}),
    "pyspark": frozenset({"audit", "lab"}),
    "sqlalchemy": frozenset({"state_machine"}),
    "alembic": frozenset({"state_machine"}),
    "yaml": frozenset({"fleet"}),
}
"""Who may use a library at all. The laboratory looks from outside, so it may not borrow the product's eyes."""


DRIVER: Final = ROOT / "migrator/node/driver"
ASSIGN_THE_STATE: Final = frozenset({"driver_state.py", "driver_node.py"})
"""The state itself with its reporter, and the loop."""
STATE_NAMES: Final = frozenset({"now", "_now"})
"""How the modules of the driver name its state, or the view of it."""
STATE_TYPES: Final = frozenset({"DriverState", "DriverView"})
CHANGE_IN_PLACE: Final = frozenset(
    {
        *("append", "extend", "insert", "remove", "pop", "popitem"),
        *("clear", "update", "setdefault", "add", "discard", "sort", "reverse"),
    }
)


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
    for node in ast.walk(tree_of(path.read_text())):
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


def package_of(module: str) -> str:
    """`migrator.driver.update_requests` lies in `driver`, `api.cli` in `api`."""
    parts = module.split(".")
    if parts[0] != "migrator":
        return parts[0]
    if parts[1:2] == ["zk"]:
        return "zk.session" if module in ZK_SHELLS else "zk.znodes"
    if module == "migrator.wire.errors":  # numbers only: the quorum has them, and no codec
        return module.removeprefix("migrator.")
    return parts[1] if len(parts) > 1 else "migrator"


def between_packages() -> list[Import]:
    return [each for each in imports() if each.is_ours and package_of(each.module) != package_of(each.target)]


def excepted(found: Import) -> bool:
    package = package_of(found.target)
    return (
        (package_of(found.module), package) in EXCEPTIONS
        or (found.module, package) in MODULE_EXCEPTIONS
        or (found.module, "*") in MODULE_EXCEPTIONS
    )


def test_every_arrow_points_down_the_picture() -> None:
    turned = [
        f"{each}  ({package_of(each.module)} -> {package_of(each.target)})"
        for each in between_packages()
        if package_of(each.target) not in MAY_IMPORT[package_of(each.module)] and not excepted(each)
    ]
    assert not turned, "\n".join(["imports point down the picture of the house, never up:", *turned])


def test_no_two_packages_need_each_other() -> None:
    graph: dict[str, set[str]] = {}
    for each in between_packages():
        graph.setdefault(package_of(each.module), set()).add(package_of(each.target))
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(f"packages in a circle: {' -> '.join(error.args[1])}")


def parts(package: str) -> dict[str, set[str]]:
    """Of each module and sub-package of `package`: which others of them it imports."""
    graph: dict[str, set[str]] = {}
    inside = f"{package}."
    for each in imports():
        if each.module.startswith(inside) and each.target.startswith(inside):
            one, other = (name.removeprefix(inside).partition(".")[0] for name in (each.module, each.target))
            if one != other:
                graph.setdefault(one, set()).add(other)
    return graph


def packages_with_modules() -> list[str]:
    return sorted(
        ".".join(path.parent.relative_to(ROOT).parts)
        for package in PACKAGES
        for path in (ROOT / package).rglob("__init__.py")
    )


@pytest.mark.parametrize("package", packages_with_modules())
def test_no_two_parts_of_a_package_need_each_other(package: str) -> None:
    try:
        TopologicalSorter(parts(package)).prepare()
    except CycleError as error:
        pytest.fail(f"{package}: parts in a circle: {' -> '.join(error.args[1])}")


NODE: Final = (
    *("background", "on_thread", "log", "transport", "zookeeper", "config", "observer", "brokers"),
    *("quorum", "leader", "driver", "listener", "tools", "process"),
)
"""The parts of a controller process, lowest first: each imports only what stands before it."""


def test_the_parts_of_a_controller_process_stand_in_their_order() -> None:
    turned = [
        f"{part} -> {target}"
        for part, targets in parts("migrator.node").items()
        for target in sorted(targets)
        if NODE.index(target) >= NODE.index(part)
    ]
    assert not turned, "\n".join(turned)


SERVICE: Final = (
    *("facts", "times", "policy", "clusters", "origins", "settings", "access"),
    *("rows", "trouble", "children", "audits", "nodes", "finish", "rollback", "rolling"),
    *("evidence", "work", "change", "service"),
)
"""The parts of the service, lowest first, as docs/architecture.md has them."""


def test_the_parts_of_the_service_stand_in_their_order() -> None:
    turned = [
        f"{part} -> {target}"
        for part, targets in parts("state_machine").items()
        for target in sorted(targets)
        if SERVICE.index(target) >= SERVICE.index(part)
    ]
    assert not turned, "\n".join(turned)


def test_the_log_of_a_quorum_has_one_reader() -> None:
    """Beside the voters, who fetch from each other. There were two, and only one of them knew snapshots."""
    asking = {
        str(path.relative_to(ROOT))
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        if "FetchRequest(" in path.read_text()
        for node in ast.walk(tree_of(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "FetchRequest"
    }
    of_no_log = {"migrator/node/brokers/what_they_say.py"}
    """It asks brokers whether a log is of a topic id, at an offset that no log has."""
    assert asking - of_no_log == {"migrator/node/observer/log_reader.py", "migrator/node/quorum/peers.py"}


@pytest.mark.parametrize("package", packages_with_modules())
def test_no_package_has_too_many_modules_at_one_level(package: str) -> None:
    modules = [path for path in (ROOT / Path(*package.split("."))).glob("*.py") if path.stem != "__init__"]
    assert len(modules) <= MODULES_MAX, f"{package} has {len(modules)} modules"


def test_what_tests_share_imports_neither_benchmarks_nor_scenarios() -> None:
    """`tests/support` stands below every other folder of tests; only tests import tests."""
    turned = [str(each) for each in of_tests() if each.module.startswith("tests.support.") and is_above_support(each)]
    turned += [str(each) for each in imports() if each.target.partition(".")[0] == "tests"]
    turned += [
        str(each)
        for each in of_tests()
        if each.module.startswith("tests.benchmarks.") and each.target.startswith(("tests.unit", "tests.e2e"))
    ]
    assert not turned, "\n".join(turned)


def of_tests() -> list[Import]:
    return [found for path in sorted((ROOT / "tests").rglob("*.py")) for found in _of(path)]


def is_above_support(found: Import) -> bool:
    return found.target.startswith("tests.") and not found.target.startswith("tests.support")


def test_phases_and_gates_know_only_the_model_and_the_findings() -> None:
    strangers = [
        str(each)
        for each in between_packages()
        if each.module in ("state_machine.policy.phases", "state_machine.policy.gates")
        and package_of(each.target) not in ("model", "findings", "control_api")
    ]
    assert not strangers, "\n".join(strangers)


def test_a_core_takes_time_and_chance_as_arguments_and_opens_nothing() -> None:
    found = [
        str(each)
        for each in imports()
        if package_of(each.module) in CORES
        and each.library in FORBIDDEN_IN_CORES
        and (each.module, f"{each.target}.{each.name}") not in ALLOWED_IN_CORES
    ]
    assert not found, "\n".join(["a core never waits and never looks at the clock:", *found])


def is_wiring(found: Import) -> bool:
    return found.module.startswith("api.commands.")


@pytest.mark.parametrize("library", sorted(ONLY_USERS))
def test_a_library_stays_behind_its_one_door(library: str) -> None:
    others = [
        str(each)
        for each in imports()
        if each.library == library
        and package_of(each.module) not in ONLY_USERS[library]
        and not each.module.startswith("api.commands.")
    ]
    assert not others, "\n".join(others)


# --- the state of the driver ------------------------------------------------------------------------------


def test_only_the_loop_of_the_driver_assigns_its_state() -> None:
    """An act returns what it changed, or reports it (act.py). Then one place says what every field is set by."""
    modules = [path for path in sorted(DRIVER.glob("*.py")) if path.name not in ASSIGN_THE_STATE]
    assert len(modules) > 15
    found = [f"{path.name}:{each}" for path in modules for each in assigned(path.read_text())]
    assert not found, "\n".join(["an act returns its changes in `Ended`, or reports them to `Progress`:", *found])


def test_the_loop_and_its_reporter_are_the_ones_that_assign_it() -> None:
    """Otherwise the test above looks for the wrong names."""
    assert all(assigned((DRIVER / name).read_text()) for name in ASSIGN_THE_STATE)


@pytest.mark.parametrize(
    "line",
    [
        "self.now.claim = claim",
        "self._now.moves += 1",
        "driver.now.reason: str = ''",
        "self.now.window, other = None, 1",
        "[*self.now.history] = moves",
        "now.surveys[3] = survey",
        "del self.now.surveys[3]",
        "self.now.surveys.pop(3, None)",
        "now.history.append(move)",
        "setattr(self.now, 'claim', claim)",
        "object.__setattr__(self.now, 'claim', claim)",
        "view = self.now; view.claim = claim",
        "if (view := self.now): view.claim = claim",
        "cast(DriverState, self.now).claim = claim",
        "for self.now.trouble in found: pass",
        "self.now.take(ClaimHeld(claim))",
        "self.now.enter(state, happened, 0)",
    ],
)
def test_an_act_that_assigns_the_state_of_the_driver_is_found(line: str) -> None:
    planted = f"def act(self, driver, now):\n    {line}\n"
    assert assigned(planted) == [f"2: {line}"]


@pytest.mark.parametrize(
    "line",
    [
        "self.now = now",
        "claim = self.now.claim",
        "self.progress.changed(ClaimHeld(claim))",
        "return Ended(happened, (ClaimDropped(),))",
        "named = self.now.alarms.get(code)",
        "self.now_ms = now_ms",
        "now = self.now.claim; later = replace(now, at=position)",
    ],
)
def test_an_act_that_reads_the_state_or_reports_a_change_is_allowed(line: str) -> None:
    assert assigned(f"def act(self, driver, now):\n    {line}\n") == []


def assigned(source: str) -> list[str]:
    """Where `source` assigns something of the driver's state, changes it in place, or calls it: line, and its text."""
    tree = tree_of(source)
    names = STATE_NAMES | states_in(tree)
    lines = source.splitlines()
    found = {node.lineno for node in ast.walk(tree) if isinstance(node, ast.expr) and changes_state(node, names)}
    return [f"{number}: {lines[number - 1].strip()}" for number in sorted(found)]


def states_in(tree: ast.AST) -> set[str]:
    """Other names under which the module has the state: by the type of a parameter or field, or assigned from it."""
    names: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.arg(arg=name, annotation=ast.Name(id=type_)) if type_ in STATE_TYPES:
                names.add(name)
            case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id=type_)) if type_ in STATE_TYPES:
                names.add(name)
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if is_state(value, STATE_NAMES):
                names.add(name)
            case ast.NamedExpr(target=ast.Name(id=name), value=value) if is_state(value, STATE_NAMES):
                names.add(name)
            case _:
                pass
    return names


def is_state(node: ast.expr, names: Set[str]) -> bool:
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name in names
        case ast.Call(func=ast.Name(id="cast"), args=[_, value]):
            return is_state(value, names)
        case _:
            return False


def is_below_state(node: ast.expr, names: Set[str]) -> bool:
    """An attribute or item of the state, or of something in it."""
    if not isinstance(node, ast.Attribute | ast.Subscript | ast.Starred):
        return False
    return is_state(node.value, names) or is_below_state(node.value, names)


def changes_state(node: ast.expr, names: Set[str]) -> bool:
    match node:
        case ast.Attribute(ctx=ast.Store() | ast.Del()) | ast.Subscript(ctx=ast.Store() | ast.Del()):
            return is_below_state(node, names)
        case ast.Starred(ctx=ast.Store()):
            return is_below_state(node, names)
        case ast.Call(func=ast.Name(id="setattr" | "delattr") | ast.Attribute(attr="__setattr__"), args=[first, *_]):
            return is_state(first, names)
        case ast.Call(func=ast.Attribute(value=value, attr=method)):
            return is_state(value, names) or (method in CHANGE_IN_PLACE and is_below_state(value, names))
        case _:
            return False


def test_no_exception_outlives_its_reason() -> None:
    arrows = {(package_of(each.module), package_of(each.target)) for each in between_packages()}
    modules = {each.module for each in between_packages()}
    taken = {(each.module, f"{each.target}.{each.name}") for each in imports()}
    assert set(EXCEPTIONS) <= arrows
    assert {module for module, _ in MODULE_EXCEPTIONS} <= modules
    assert set(ALLOWED_IN_CORES) <= taken
    assert all([*EXCEPTIONS.values(), *MODULE_EXCEPTIONS.values(), *ALLOWED_IN_CORES.values()])


def test_every_folder_stands_in_the_picture() -> None:
    packages = {package_of(each.module) for each in imports()} - {"migrator"}
    assert packages <= set(MAY_IMPORT)
