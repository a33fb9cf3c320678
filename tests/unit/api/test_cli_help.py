"""Every command says what it takes, with each bracket that its help has; how a command ends that has no result."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest
import typer.main
from typer.testing import CliRunner

from api import cli, main
from api.cli import app
from migrator.errors import ZOOKEEPER_UNREACHABLE


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


def ends(error: Exception, monkeypatch: pytest.MonkeyPatch) -> int | str | None:
    def audit(*_: object, **__: object) -> int:
        raise error

    monkeypatch.setattr(main, "audit", audit)
    with pytest.raises(SystemExit) as caught:
        cli.main(["audit", "-z", "zk:2181", "--kraft", "/log"])
    return caught.value.code


def test_an_audit_that_fails_by_a_fault_of_ours_does_not_say_diverged(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(OSError("Too many open files"), monkeypatch) == 70
    assert "Traceback" in capsys.readouterr().err


def test_an_audit_that_cannot_begin_has_not_read_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends(ZOOKEEPER_UNREACHABLE.error(connect="zk:2181", reason="nobody"), monkeypatch) == 2
    assert "Z2K-2001" in capsys.readouterr().err
