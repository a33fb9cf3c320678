"""A unit that was stopped is held back until `start`: also one in /etc/systemd/system, which cannot be masked.

The shipped templates' own commands, and systemd's own systemctl on a directory that stands for a host's root. Only what
needs a manager that runs (stop, start, daemon-reload, show) is noted in its place.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from migrator.fleet.strict_yaml import load_yaml

ACTUATORS: Final = Path(__file__).resolve().parents[3] / "docker/actuators"
SYSTEMCTL: Final = shutil.which("systemctl")
UNIT: Final = "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"
HELD: Final = "run/systemd/system/kafka.service.d/zz-zk2kraft-hold.conf"
pytestmark = pytest.mark.skipif(SYSTEMCTL is None, reason="this machine has no systemctl")

WRAPPER: Final = """#!/bin/sh
for word; do case $word in
mask|unmask|is-enabled) exec {systemctl} --root={root} "$@" ;;
daemon-reload) touch {root}/reloaded; echo daemon-reload >> {root}/acts; exit 0 ;;
show) test -e {root}/reloaded && find {root}/run/systemd/system/*.d -type f -printf 'DropInPaths=/run/%P\\n' |
  sed 's,/run/,{root}/run/systemd/system/kafka.service.d/,'; exit 0 ;;
stop|start) echo "$*" >> {root}/acts; exit 0 ;;
esac; done; exit 99
"""


class Host:
    """root: of its file system. acts: what a manager was asked."""

    def __init__(self, root: Path, place: str) -> None:
        self.root = root
        for each in ("etc/systemd/system", "usr/lib/systemd/system", "run/systemd/system", "bin"):
            (root / each).mkdir(parents=True)
        (root / place / "kafka.service").write_text(UNIT)
        self.tool("systemctl", WRAPPER.format(systemctl=SYSTEMCTL, root=root))
        self.tool("sudo", '#!/bin/sh\ntest "$1" = -n && shift\nexec "$@"\n')

    def tool(self, name: str, text: str) -> None:
        (self.root / "bin" / name).write_text(text)
        (self.root / "bin" / name).chmod(0o755)

    def run(self, template: str, act: str, unit: str = "kafka.service") -> subprocess.CompletedProcess[str]:
        document: Any = load_yaml((ACTUATORS / template).read_bytes())
        argv = list(document["acts"][act]["argv"])
        here = str(self.root / "run/systemd/system")
        if argv[0] == "ssh":
            words = ["/bin/sh", "-c", argv[-1].replace("{unit:q}", shlex.quote(unit))]
        else:
            words = [unit if word == "{unit}" else word for word in argv]
        words[2] = words[2].replace("/run/systemd/system", here)
        environment = {"PATH": f"{self.root / 'bin'}:/usr/bin:/bin"}
        return subprocess.run(words, capture_output=True, text=True, env=environment, check=False, timeout=60)

    def is_masked(self) -> bool:
        words = [str(SYSTEMCTL), f"--root={self.root}", "is-enabled", "kafka.service"]
        return subprocess.run(words, capture_output=True, text=True, check=False).stdout.startswith("masked")

    @property
    def acts(self) -> list[str]:
        file = self.root / "acts"
        return file.read_text().splitlines() if file.exists() else []


@pytest.mark.parametrize("template", ["local-systemd.yaml", "ssh-systemd.yaml"])
@pytest.mark.parametrize("unit", ["kafka.service", "kafka"])
def test_a_unit_of_a_package_is_masked_until_it_is_started(tmp_path: Path, template: str, unit: str) -> None:
    host = Host(tmp_path, "usr/lib/systemd/system")
    done = host.run(template, "stop", unit)
    assert done.returncode == 0, done.stderr
    assert host.is_masked()
    assert host.acts == ["stop -- kafka.service"]
    assert not (tmp_path / HELD).exists()
    done = host.run(template, "start", unit)
    assert done.returncode == 0, done.stderr
    assert not host.is_masked()
    assert host.acts == ["stop -- kafka.service", "start -- kafka.service"]


@pytest.mark.parametrize("template", ["local-systemd.yaml", "ssh-systemd.yaml"])
@pytest.mark.parametrize("unit", ["kafka.service", "kafka"])
def test_a_unit_in_etc_gets_a_condition_that_never_holds_until_it_is_started(
    tmp_path: Path, template: str, unit: str
) -> None:
    host = Host(tmp_path, "etc/systemd/system")
    for _ in range(2):  # an act may be repeated
        done = host.run(template, "stop", unit)
        assert done.returncode == 0, done.stderr
    assert not host.is_masked()
    assert (tmp_path / HELD).read_text() == "[Unit]\nConditionPathExists=!/\n"
    assert host.acts == ["daemon-reload", "stop -- kafka.service"] * 2
    for _ in range(2):
        done = host.run(template, "start", unit)
        assert done.returncode == 0, done.stderr
    assert not (tmp_path / HELD).exists()
    assert host.acts[4:] == ["daemon-reload", "start -- kafka.service", "start -- kafka.service"]


@pytest.mark.parametrize("template", ["local-systemd.yaml", "ssh-systemd.yaml"])
def test_a_unit_that_cannot_be_held_back_is_not_stopped(tmp_path: Path, template: str) -> None:
    host = Host(tmp_path, "etc/systemd/system")
    host.tool("mkdir", "#!/bin/sh\nexit 0\n")
    host.tool("tee", "#!/bin/sh\ncat >/dev/null\n")
    (tmp_path / HELD).parent.mkdir(parents=True)
    if template == "local-systemd.yaml":
        (tmp_path / HELD).mkdir()  # nothing can be written there
    done = host.run(template, "stop")
    assert done.returncode != 0
    assert "stop -- kafka.service" not in host.acts


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="this machine has no systemd-analyze")
def test_the_condition_never_holds_for_systemd_itself() -> None:
    words = ["systemd-analyze", "condition", "ConditionPathExists=!/"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert "failed" in done.stdout + done.stderr
