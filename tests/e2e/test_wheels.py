"""The wheel of zk2kraft, installed where nothing else is: `check`, `serve` and a controller run without the laboratory.

Built and installed as anybody would: wheels of the versions in uv.lock are put into a directory, and pip installs from
there with no index. Spark is in an extra of its own, and its absence is said by name.
"""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from migrator.findings.audit import AUDIT_CANNOT_READ
from migrator.findings.laboratory import DEMO_NOT_POSSIBLE
from migrator.lab import provision
from migrator.lab.classes import prepared
from migrator.lab.ours import IN_THE_LABORATORY
from migrator.lab.provision import ROOT, tool_environment
from migrator.lab.servers.laboratory import Laboratory
from tests.e2e.support import controller_of, ready_cluster, wait_for

pytestmark = pytest.mark.lab

BUILD_S = 300
CORE_MB_MOST = 150
"""What the whole of it takes on disk without an extra; with Spark it is 1.2 GB."""


@dataclass(frozen=True)
class Installed:
    """bin: of the environment. wheels: where it was installed from."""

    home: Path
    wheels: Path

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """The command, away from the checkout."""
        command = [str(self.home / "bin" / "zk2kraft"), *words]
        return subprocess.run(command, cwd=self.home, env=clean(), capture_output=True, text=True, timeout=BUILD_S)


def clean() -> dict[str, str]:
    return {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "VIRTUAL_ENV"))}


def step(*command: str | Path) -> None:
    told = tool_environment(os.environ, ROOT)
    if mirror := os.environ.get("ZK2KRAFT_PYPI_MIRROR"):
        told.setdefault("UV_DEFAULT_INDEX", mirror)
    done = subprocess.run(command, cwd=ROOT, env=told, capture_output=True, text=True, timeout=BUILD_S)
    assert done.returncode == 0, f"{command}: {done.stdout[-2000:]}{done.stderr[-2000:]}"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installed:
    place = tmp_path_factory.mktemp("wheels")
    wheels, wanted, home = place / "wheels", place / "requirements.txt", place / "home"
    uv = provision._find_uv(os.environ, ROOT)
    assert uv is not None, "the set-up brings it"
    venv.create(home, with_pip=True)
    pip = (home / "bin" / "python", "-m", "pip")
    for source in (ROOT, ROOT / "packages" / "lab"):
        step(uv, "build", "--quiet", "--wheel", "--python", sys.executable, "--out-dir", wheels, source)
    step(uv, "export", "--quiet", "--frozen", "--no-default-groups", "--no-emit-project", "--output-file", wanted)
    step(*pip, "wheel", "--quiet", "--no-deps", "--wheel-dir", wheels, "--requirement", wanted)
    offline = ("--no-index", "--find-links", wheels)
    step(*pip, "install", "--quiet", *offline, "zk2kraft")
    return Installed(home, wheels)


def test_the_wheel_has_neither_the_laboratory_nor_its_runbooks(installed: Installed) -> None:
    of = {
        wheel.name.partition("-")[0]: set(zipfile.ZipFile(wheel).namelist()) for wheel in installed.wheels.glob("zk2*")
    }
    core, laboratory = of["zk2kraft"], of["zk2kraft_lab"]
    assert not any(name.startswith("migrator/lab/") for name in core)
    assert "zk2kraft_runbooks/Z2K-4003.md" in core
    assert "zk2kraft_guard/zk2kraft-guard" in core
    assert {name for name in core if name.startswith("zk2kraft_runbooks/Z2K-60")} == {"zk2kraft_runbooks/Z2K-6017.md"}
    modules = {path.name for path in (ROOT / "migrator" / "lab").rglob("*.py")}
    assert {name.rpartition("/")[2] for name in laboratory if name.startswith("migrator/lab/")} >= modules
    assert not (core & laboratory), "two distributions own one file"
    pages = {f"zk2kraft_runbooks/{page.name}" for page in (ROOT / "runbooks").glob("*.md")}
    assert {name for name in core | laboratory if name.startswith("zk2kraft_runbooks/")} == pages


def test_it_is_small_and_says_what_is_missing(installed: Installed) -> None:
    used = sum(path.stat().st_size for path in installed.home.rglob("*") if path.is_file() and not path.is_symlink())
    assert used / 1e6 < CORE_MB_MOST, f"{used / 1e6:.0f} MB"
    demo = installed.run("demo")
    assert demo.returncode != 0
    assert DEMO_NOT_POSSIBLE.code in demo.stderr
    assert "pip install 'zk2kraft[lab]'" in demo.stderr
    audit = installed.run("audit", "--zookeeper", "127.0.0.1:1", "--kraft", str(installed.home), "--engine", "spark")
    assert audit.returncode != 0
    assert AUDIT_CANNOT_READ.code in audit.stdout + audit.stderr
    assert "pip install 'zk2kraft[spark]'" in audit.stdout + audit.stderr
    assert "[default: (quick)]" in installed.run("audit", "--help").stdout


def test_check_serve_and_a_controller_run_from_it(installed: Installed, tmp_path: Path) -> None:
    program = str(installed.home / "bin" / "zk2kraft")
    with (
        Laboratory(tmp_path / "lab", prepared()) as laboratory,
        ready_cluster(laboratory, brokers=1, partitions=1) as (cluster, controller),
    ):
        checked = installed.run("check", "--zookeeper", cluster.zookeeper_connect)
        assert "3 topics, 3 partitions" in checked.stdout, checked.stdout + checked.stderr
        port = laboratory.ports.reserve()
        settings = tmp_path / "serve.toml"
        settings.write_text(f'port = {port}\ndirectory = "{tmp_path / "service"}"\n')
        command = [program, "serve", "--config", str(settings)]
        serving = laboratory.processes.start("serve", command, environment=clean())
        wait_for(lambda: why_not_ready(port), "the service")
        controller.prepare()
        command = [program, "controller", str(controller.properties_file)]
        leading = laboratory.processes.start(
            "controller", command, environment=clean() | IN_THE_LABORATORY | controller.environment
        )
        wait_for(lambda: None if claimed(controller_of(cluster)) else "nobody claimed", "the claim")
        leading.stop()
        serving.stop()


def claimed(found: dict[str, Any] | None) -> bool:
    return found is not None and found.get("kraftControllerEpoch", -1) > 0


def why_not_ready(port: int) -> str | None:
    try:
        answer = httpx.get(f"http://127.0.0.1:{port}/readyz", trust_env=False)
    except httpx.HTTPError as error:
        return type(error).__name__
    return None if answer.status_code == 200 else answer.text
