"""Every command says what it takes, with each bracket that its help has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.metadata import version

import pytest
import typer.main
from typer.testing import CliRunner

from api.cli import app


def commands(group: object, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    yield path
    for name, each in getattr(group, "commands", {}).items():
        yield from commands(each, (*path, name))


@pytest.mark.parametrize("words", list(commands(typer.main.get_command(app))), ids=" ".join)
def test_a_command_has_help(words: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*words, "--help"], terminal_width=200)
    assert result.exit_code == 0, result.output
    assert "Usage:" in result.output


def test_brackets_of_an_address_are_printed() -> None:
    assert "HOST:PORT[,HOST:PORT][/chroot]" in CliRunner().invoke(app, ["check", "--help"], terminal_width=200).output


def test_the_version_is_that_of_the_package() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert (result.exit_code, result.output) == (0, f"zk2kraft {version('zk2kraft')}\n")


def test_a_shell_can_complete_the_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = CliRunner().invoke(app, ["--help"], terminal_width=200).output
    assert "--install-completion" in shown
    assert "--show-completion" in shown
    asked = {"_ZK2KRAFT_COMPLETE": "complete_bash", "COMP_WORDS": "zk2kraft roll", "COMP_CWORD": "1"}
    result = CliRunner().invoke(app, [], prog_name="zk2kraft", env=asked)
    assert re.findall(r"\w+", result.output) == ["rollback"]
