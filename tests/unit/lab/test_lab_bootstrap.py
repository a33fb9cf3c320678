"""Set-up says what it found and what it will do, and one line when it cannot."""

from __future__ import annotations

import ast
import hashlib
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import pytest

from migrator.findings.finding import FindingError
from migrator.findings.laboratory import JAVA_MISSING, PYTHON_TOO_OLD
from migrator.lab import provision
from migrator.lab.provision import Machine, Work
from migrator.lab.servers.java import Java, feature_version, find_java, require_java
from tests.support.source_trees import tree_of

BOOTSTRAP = Path(provision.__file__).with_name("bootstrap.py")

LOCK = """
version = 1
[[package]]
name = "pure"
wheels = [{ url = "https://files.example/pure-1.0-py3-none-any.whl", size = 3000000 }]
[[package]]
name = "built"
sdist = { url = "https://files.example/built-1.0.tar.gz", size = 9000000 }
wheels = [
    { url = "https://files.example/built-1.0-cp27-cp27m-win32.whl", size = 100000000 },
    { url = "https://files.example/built-1.0-cp38-abi3-manylinux_2_17_MACHINE.whl", size = 4000000 },
]
[[package]]
name = "source-only"
sdist = { url = "https://files.example/source-only-1.0.tar.gz", size = 5000000 }
[[package]]
name = "ourselves"
source = { editable = "." }
"""


def a_java(directory: Path, version: str) -> dict[str, str]:
    """An environment whose Java is a script that claims a version."""
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    java.chmod(0o755)
    return {"JAVA_HOME": str(directory), "PATH": "", "ZK2KRAFT_CACHE": str(directory / "cache")}


def a_checkout(root: Path, *, is_set_up: bool) -> Path:
    """A checkout with a lock and, if it is set up, an environment that fits it."""
    (root / ".venv" / "bin").mkdir(parents=True)
    (root / "uv.lock").write_text(LOCK)
    if is_set_up:
        (root / ".venv" / "bin" / "python").symlink_to(sys.executable)
        stamp = hashlib.sha256(LOCK.encode()).hexdigest()
        (root / ".venv" / provision.STAMP).write_text(stamp)
    return root


def test_old_pythons_can_read_the_door_and_are_told_the_findings_words() -> None:
    source = BOOTSTRAP.read_text()
    ast.parse(source, feature_version=(3, 4))
    finding = PYTHON_TOO_OLD
    words = f"{finding.code} {finding.says.replace('{found}', '%d.%d')} {finding.remedy}"
    literals = [node.value for node in ast.walk(tree_of(source)) if isinstance(node, ast.Constant)]
    assert words + "\n" in literals


def test_the_door_answers_quickly() -> None:
    began = time.monotonic()
    run = subprocess.run([sys.executable, str(BOOTSTRAP), "check"], capture_output=True, text=True, check=False)
    assert time.monotonic() - began < 20  # a fraction of a second, and what a busy machine adds
    assert run.stdout.startswith("python    3.")
    assert run.stderr == ""


@pytest.mark.parametrize(
    ("text", "version"), [("17.0.15", 17), ("1.8.0_392", 8), ("21-ea", 21), ("25", 25), ("unknown", 0)]
)
def test_java_versions_are_understood(text: str, version: int) -> None:
    assert feature_version(text) == version


def test_java_home_is_asked_before_the_path(tmp_path: Path) -> None:
    environment = a_java(tmp_path / "17", "17.0.9")
    a_java(tmp_path / "11", "11.0.2")
    found = find_java({**environment, "PATH": str(tmp_path / "11" / "bin")})
    assert found == Java(str(tmp_path / "17" / "bin" / "java"), 17, "17.0.9")


@pytest.mark.parametrize("version", [None, "11.0.2", "1.8.0_392"])
def test_a_missing_or_old_java_is_one_line(
    version: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    environment = a_java(tmp_path / "java", version) if version else {"PATH": ""}
    monkeypatch.setattr(os, "environ", environment)
    assert provision.main(["setup", "--with-java"]) == 1
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert told.err.startswith(JAVA_MISSING.code)
    assert "openjdk-17" in told.err
    assert (version or "none") in told.err


def test_a_recent_java_is_accepted(tmp_path: Path) -> None:
    assert require_java(a_java(tmp_path, "17.0.15")).version == 17


def test_nothing_is_done_and_nothing_is_said_when_all_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = a_checkout(tmp_path, is_set_up=True)
    assert provision.run("setup", with_java=False, environment={"PATH": ""}, root=root) == 0
    assert capsys.readouterr().out == ""


def test_check_downloads_nothing_and_fails_when_something_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    root = a_checkout(tmp_path, is_set_up=False)
    environment = {"PATH": "", "ZK2KRAFT_CACHE": str(tmp_path / "cache")}
    assert provision.run("check", with_java=False, environment=environment, root=root) == 1
    told = capsys.readouterr().out
    assert f"kept in {tmp_path / 'cache'}" in told
    assert "there is none yet" in told
    assert not (tmp_path / "cache").exists()


def test_a_changed_lock_makes_the_environment_stale(tmp_path: Path) -> None:
    root = a_checkout(tmp_path, is_set_up=True)
    assert provision.why_environment_is_stale(root) is None
    (root / "uv.lock").write_text(LOCK + "\n")
    assert provision.why_environment_is_stale(root) == "uv.lock has changed"


def test_jars_are_wanted_only_with_java_and_without_an_installed_kafka(tmp_path: Path) -> None:
    root = a_checkout(tmp_path, is_set_up=True)
    cache = {"PATH": "", "ZK2KRAFT_CACHE": str(tmp_path / "cache")}
    assert provision.find_work(cache, root, with_java=True).jars
    assert not provision.find_work(cache, root, with_java=False).jars
    assert not provision.find_work({**cache, "KAFKA_HOME": "/opt/kafka"}, root, with_java=True).jars


def test_spark_classes_are_archived_for_each_checkout_also_where_the_jars_are_in_the_cache(tmp_path: Path) -> None:
    root = a_checkout(tmp_path, is_set_up=True)
    environment = {"PATH": "", "ZK2KRAFT_CACHE": str(tmp_path / "cache"), "KAFKA_HOME": "/opt/kafka"}
    assert provision.find_work(environment, root, with_java=True).spark_classes
    assert not provision.find_work(environment, root, with_java=False).spark_classes
    archive = tmp_path / "archive.jsa"
    (root / ".venv" / provision.SPARK_CLASSES).write_text(str(archive))
    assert provision.find_work(environment, root, with_java=True).spark_classes
    archive.touch()
    assert provision.find_work(environment, root, with_java=True).is_done


def test_the_report_names_what_was_found_and_what_will_come() -> None:
    machine = Machine(
        python="3.11.7 (/usr/bin/python3)",
        java=None,
        memory_mb=8000,
        loopback_problem=None,
        cache=Path("/home/op/.cache/zk2kraft"),
        cache_free_mb=50_000,
    )
    work = Work(
        environment="there is none yet",
        uv=True,
        jars=True,
        spark_classes=True,
        environment_mb=600,
        environment_is_measured=True,
    )
    parts = (
        "uv (25 MB, into .uv), Python packages (600 MB as measured, into .venv: there is none yet), "
        "Kafka's jars (48 MB)"
    )
    assert provision.report(machine, work) == [
        "python    3.11.7 (/usr/bin/python3)",
        "java      none; `make test` needs 17 or later",
        "memory    8000 MB, 4000 MB wanted for the laboratory",
        "loopback  usable, ports are free",
        "disk      50000 MB free for /home/op/.cache/zk2kraft",
        "classes   Spark's are archived once for this checkout (180 MB, some 20 s)",
        "download  about 673 MB, kept in /home/op/.cache/zk2kraft: " + parts,
    ]


def test_download_sizes_are_summed_for_this_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert provision.locked_mb(LOCK.replace("MACHINE", "x86_64")) == 3 + 4 + 5


def test_a_lock_without_sizes_is_not_summed() -> None:
    assert provision.locked_mb(LOCK.replace(", size", ", length")) == 0


def test_a_mirror_is_used_for_uv_and_for_packages_and_its_password_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    root = a_checkout(tmp_path, is_set_up=False)
    ran: list[list[str]] = []

    def run(command: list[str], **settings: object) -> subprocess.CompletedProcess[bytes]:
        ran.append(command)
        return subprocess.CompletedProcess(command, 0)

    monkeypatch.setattr(subprocess, "run", run)
    mirror = "https://op:secret@mirror.example/simple"
    environment = {"PATH": "", "ZK2KRAFT_PYPI_MIRROR": mirror, "ZK2KRAFT_CACHE": str(tmp_path / "cache")}
    provision.build_environment(environment, root)
    sync = next(command for command in ran if "sync" in command)
    assert sync[-4:-1] == ["--require-hashes", "--default-index", mirror]
    told = provision.tool_environment(environment, root)
    assert told["PIP_INDEX_URL"] == mirror
    assert told["UV_CACHE_DIR"] == str(tmp_path / "cache" / "uv")
    assert "secret" not in capsys.readouterr().out
    assert provision.why_environment_is_stale(root) == "there is none yet"  # nothing real was made


def test_a_step_that_fails_is_named_and_leaves_no_stamp(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = a_checkout(tmp_path, is_set_up=True)
    monkeypatch.setattr(subprocess, "run", lambda command, **settings: subprocess.CompletedProcess(command, 2))
    with pytest.raises(FindingError) as caught:
        provision.build_environment({"PATH": ""}, root)
    assert caught.value.code == "Z2K-6005"
    assert not (root / ".venv" / provision.STAMP).exists()
