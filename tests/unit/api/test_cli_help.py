"""Every command says what it takes, with each bracket that its help has."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
import typer.main
from typer.testing import CliRunner

from api.cli import app


def commands(group: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
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
