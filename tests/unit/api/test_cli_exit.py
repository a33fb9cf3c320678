"""An exit code is an answer, and a command that failed has none to give."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import pytest

from api import cli
from api.cli import main
from api.commands import service
from migrator.findings.finding import FindingError
from migrator.zk import paths
from migrator.zk.multi import Multi, SetData
from migrator.zk.znodes import controller_data
from state_machine.settings import ServiceSettings
from tests.support.fake_zookeeper import FakeEnsemble
from tests.support.seeded_tree import SeededTree


def exit_code(*words: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(list(words))
    assert isinstance(ended.value.code, int)
    return ended.value.code


@pytest.mark.parametrize(
    "words",
    [
        ("audit", "-z", "zk:2181", "--kraft", "/log", "--engine", "quick", "--json"),
        ("check", "-z", "zk:2181", "--json"),
        ("rollback", "--without-controllers", "-z", "zk:2181"),
    ],
    ids=lambda words: words[0],
)
def test_a_fault_of_ours_is_no_answer(
    words: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*_: object, **__: object) -> NoReturn:
        raise RuntimeError("Too many of something")

    monkeypatch.setattr("migrator.zk.session.ZkSession", fails)
    monkeypatch.setattr("migrator.audit.run.ZkSession", fails)
    assert exit_code(*words) == 70
    out, err = capsys.readouterr()
    assert out == ""
    assert "Traceback" in err
    assert "Too many of something" in err.splitlines()[-1]
    assert "says nothing about the cluster" in err.splitlines()[-1]


def test_an_audit_whose_controllers_file_cannot_be_read_did_not_read_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "missing.properties")
    assert exit_code("audit", "-z", "zk:2181", "--kraft", "/log", "--controller", file, "--json") == 2
    report = json.loads(capsys.readouterr().out)
    assert report["same"] is False
    assert [each["rule"] for each in report["differences"]] == ["Z2K-3017"]
    assert all(each["not_read"] for each in report["families"])


def test_a_release_that_zookeeper_refuses_at_the_last_moment_is_exit_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ensemble = FakeEnsemble()
    SeededTree(topics=1, partitions=1).plant(ensemble)
    ensemble.create(paths.CONTROLLER, controller_data(3000, 5, 1))
    session: Any = ensemble.session()
    apply = session.apply

    def moved_meanwhile(multi: Multi) -> Any:
        assert apply(Multi((SetData(paths.CONTROLLER_EPOCH, b"10"),))).applied
        return apply(multi)

    @contextmanager
    def connected(_: str) -> Iterator[Any]:
        yield session

    monkeypatch.setattr(session, "apply", moved_meanwhile)
    monkeypatch.setattr("migrator.zk.session.ZkSession", connected)
    assert exit_code("rollback", "--without-controllers", "-z", "zk:2181", "--execute") == 2
    assert "Z2K-2019" in capsys.readouterr().err
    assert paths.CONTROLLER in ensemble.nodes


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (
            PermissionError(13, "Permission denied", "/var/lib/none"),
            "The system refused /var/lib/none: Permission denied.",
        ),
        (OSError(28, "No space left on device"), "The system refused: No space left on device."),
        (TimeoutError(), "The system refused: TimeoutError."),
    ],
)
def test_what_the_system_refuses_is_a_finding_and_no_trace(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: OSError, said: str
) -> None:
    def refuse(*args: object, **values: object) -> None:
        raise error

    monkeypatch.setattr(cli, "app", refuse)
    with pytest.raises(SystemExit) as ended:
        cli.main(["export"])
    shown = capsys.readouterr().err
    assert ended.value.code == cli.UNEXPECTED
    assert shown.startswith(f"Z2K-4114 {said}\n")
    assert "Traceback" not in shown


def test_a_port_in_use_is_a_finding() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        settings = ServiceSettings(port=taken.getsockname()[1])
        with pytest.raises(FindingError, match=r"Z2K-4115.*Address already in use"):
            service._listen(settings)
