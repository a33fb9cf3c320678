"""Many files of one host in one command: each is proven by itself, and what did not arrive whole is no answer."""

from __future__ import annotations

import subprocess
from pathlib import Path

import msgspec
import pytest

from migrator.findings.finding import FindingError
from migrator.fleet.connections.many import Content, Names, Nothing, printed_of, read_ahead
from migrator.fleet.exec_actuator import CommandActuator
from migrator.fleet.strict_yaml import dump_yaml
from migrator.fleet.templates import Template, load_template, words_of_act
from migrator.fleet.transfer import TRAILER
from tests.unit.fleet.test_transfer import NEW, SHELLS, SHIPPED, TEMPLATES, on_the_host, values_of

AWKWARD = b"a=1\n" + f"{TRAILER} absent\n{TRAILER} file 0 ".encode() + b"\0\xff"
"""Content that looks like an answer, and does not end its last line."""


@pytest.fixture(params=TEMPLATES)
def template(request: pytest.FixtureRequest) -> Template:
    return load_template(request.param, SHIPPED)


def places(home: Path) -> list[str]:
    (home / "empty").touch()
    (home / "awkward").write_bytes(AWKWARD)
    (home / "long").write_bytes(NEW)
    (home / "logs").mkdir()
    (home / "logs/orders 0").touch()
    (home / "logs/-n").touch()
    (home / "nothing").mkdir()
    return [str(home / name) for name in ("empty", "awkward", "absent", "logs", "long", "nothing")]


def expected(paths: list[str]) -> dict[str, object]:
    found = (Content(b""), Content(AWKWARD), Nothing(True), Names(("-n", "orders 0")), Content(NEW), Names(()))
    return dict(zip(paths, found, strict=True))


@pytest.mark.parametrize("shell", SHELLS)
def test_one_command_says_what_each_path_has(template: Template, shell: str, tmp_path: Path) -> None:
    paths = places(tmp_path)
    words = on_the_host(words_of_act(template.acts["read_many"], values_of(tmp_path)), shell)
    sent = "".join(f"{path}\n" for path in paths).encode()
    done = subprocess.run(words, input=sent, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stderr
    assert printed_of(done.stdout, paths) == expected(paths)
    for cut in (*range(300), len(done.stdout) - 1):
        some = printed_of(done.stdout[:cut], paths)
        assert some == dict(list(expected(paths).items())[: len(some)]), "what arrived whole, and nothing else"
        assert len(some) < len(paths)


def test_a_changed_byte_costs_that_answer_alone(template: Template, tmp_path: Path) -> None:
    paths = places(tmp_path)
    words = on_the_host(words_of_act(template.acts["read_many"], values_of(tmp_path)))
    sent = "".join(f"{path}\n" for path in paths).encode()
    printed = subprocess.run(words, input=sent, capture_output=True, timeout=60).stdout
    some = printed_of(printed.replace(b"key.7=", b"key.8=", 1), paths)
    assert expected(paths).items() - some.items() == {(paths[4], Content(NEW))}


def a_host(pipe: str = "cat", *, without: str = "", commands: Path | None = None) -> CommandActuator:
    """The shipped commands of a host, whose connection ends as `pipe` says; `commands` gets a line for each."""
    template = load_template("local-systemd.yaml", SHIPPED)
    acts = {}
    for name, act in template.acts.items():
        if act.argv[0] == "/bin/sh":
            noted = f"echo {name} >> {commands}; " if commands is not None else ""
            command = f"( {act.argv[2]} ) | {pipe}" if name == "read_many" else act.argv[2]
            act = msgspec.structs.replace(act, argv=(*act.argv[:2], f"{noted}{command}", *act.argv[3:]))
        acts[name] = act
    acts.pop(without, None)
    return CommandActuator(1, msgspec.structs.replace(template, acts=acts), {"host": "b1"}, {})


@pytest.mark.parametrize("without", ["", "read_many"])
def test_what_was_read_ahead_is_what_single_commands_say(without: str, tmp_path: Path) -> None:
    """A template of before has no such act: it reads one after the other."""
    paths, commands = places(tmp_path), tmp_path / "commands"
    host = read_ahead(a_host(without=without, commands=commands), paths)
    assert [host.read(paths[number]) for number in (0, 1, 4)] == [b"", AWKWARD, NEW]
    assert [host.list(paths[number]) for number in (3, 5)] == [("-n", "orders 0"), ()]
    with pytest.raises(FindingError) as error:
        host.read(paths[2])
    assert error.value.code == "Z2K-7024"
    assert len(commands.read_text().split()) == (6 if without else 1)


def test_a_connection_that_ends_early_costs_the_rest_alone_and_shows_none_of_it(tmp_path: Path) -> None:
    paths = places(tmp_path)
    host = read_ahead(a_host("head -c 500"), paths)
    assert host.read(paths[1]) == AWKWARD
    with pytest.raises(FindingError) as error:
        host.read(paths[4])
    assert error.value.code == "Z2K-7044"
    assert "key." not in f"{error.value}{host!r}"


def test_a_host_that_gives_no_answer_says_so_for_each_path(tmp_path: Path) -> None:
    paths = places(tmp_path)
    host = read_ahead(a_host("(cat; exit 255) >/dev/null; exit 255"), paths)
    for path in paths:
        with pytest.raises(FindingError) as error:
            host.read(path)
        assert error.value.code == "Z2K-7046"


def test_a_listing_too_long_for_one_command_is_read_path_by_path(tmp_path: Path) -> None:
    paths = places(tmp_path)
    host = a_host()
    small = msgspec.structs.replace(host.template.acts["read_many"], output_bytes_max=200)
    acts = {**host.template.acts, "read_many": small}
    host = CommandActuator(1, msgspec.structs.replace(host.template, acts=acts), {"host": "b1"}, {})
    assert read_ahead(host, paths).read(paths[4]) == NEW


def test_a_command_for_many_files_without_checksums_is_refused(tmp_path: Path) -> None:
    shipped = msgspec.to_builtins(load_template("local-systemd.yaml", SHIPPED))
    shipped["acts"]["read_many"]["argv"] = ["cat"]
    (tmp_path / "t.yaml").write_text(dump_yaml(shipped))
    with pytest.raises(FindingError, match=r"Z2K-7020.*read_many does not print"):
        load_template("t.yaml", tmp_path)
