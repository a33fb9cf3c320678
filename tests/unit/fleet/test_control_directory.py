"""Sockets of shared ssh connections lie where no other user gets at them: who does, acts on every host."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from migrator.findings.finding import FindingError
from migrator.fleet.connections.control_directory import PATH_MAX, control_directory
from migrator.fleet.exec_actuator import CommandActuator
from migrator.fleet.templates import load_template
from tests.unit.fleet.test_transfer import SHIPPED


@pytest.fixture
def home() -> Iterator[Path]:
    """Short, as a socket's name has to be."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="z2k") as made:
        yield Path(made)


def test_it_is_made_for_this_user_alone_and_again_when_somebody_cleaned_up(home: Path) -> None:
    for _ in range(2):
        found = Path(control_directory({"RUNTIME_DIRECTORY": str(home), "XDG_RUNTIME_DIR": "/tmp"}))
        assert found == home / f"zk2kraft-{os.geteuid()}"
        assert found.stat().st_mode & 0o777 == 0o700
        found.rmdir()
    assert Path(control_directory({"XDG_RUNTIME_DIR": str(home)})).parent == home


@pytest.mark.parametrize("spoil", ["mode", "link", "file"])
def test_a_directory_that_others_may_enter_is_refused(home: Path, spoil: str) -> None:
    path = home / f"zk2kraft-{os.geteuid()}"
    if spoil == "mode":
        path.mkdir()
        path.chmod(0o750)
    elif spoil == "link":
        (home / "theirs").mkdir(mode=0o700)
        path.symlink_to(home / "theirs")
    else:
        path.touch()
    with pytest.raises(FindingError, match="Z2K-7020") as error:
        control_directory({"RUNTIME_DIRECTORY": str(home)})
    assert str(path) in str(error.value)


def test_a_socket_in_it_has_a_name_that_the_kernel_takes(tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 60)
    deep.mkdir()
    found = control_directory({"RUNTIME_DIRECTORY": str(deep)})
    assert not found.startswith(str(deep))
    assert len(found) <= PATH_MAX
    assert len(f"{found}/{'c' * 40}.{'r' * 16}") < 108


def test_every_ssh_command_of_the_shipped_template_shares_its_connection() -> None:
    acts = load_template("ssh-systemd.yaml", SHIPPED).acts
    assert set(acts) == {"read", "list", "read_many", "write", "stop", "start", "status", "command", "launch"}
    for act in acts.values():
        assert {"-oControlMaster=auto", "-oControlPersist=10m", "-oControlPath={control_directory}/%C"} <= {*act.argv}


def test_a_command_gets_the_directory_only_where_its_template_names_it() -> None:
    template = load_template("ssh-systemd.yaml", SHIPPED)
    said = CommandActuator(1, template, {"host": "b1", "login": "kafka", "unit": "k"}, {})
    path = control_directory()
    words: list[list[str]] = []

    def noted(given: list[str], **_: object) -> object:
        words.append(given)
        raise LookupError

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("migrator.fleet.exec_actuator.run_command", noted)
        with pytest.raises(LookupError):
            said.status()
    assert f"-oControlPath={path}/%C" in words[0]
