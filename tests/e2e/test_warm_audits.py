"""The warm audit process with real Spark: its reports are a fresh process's, and nothing of it outlives the service."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from migrator.audit.history.kept_runs import REPORT_FILE
from migrator.audit.spark.kept_session import LEFT_BEHIND
from migrator.audit.warm_process import living
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.zookeeper import ZooKeeper
from state_machine.audits.warm_audits import SCRATCH, WarmAudits
from state_machine.children.commands import Result
from tests.e2e.support import wait_for
from tests.e2e.test_audit_engines import ENCODER, ZOOKEEPER_PLANTS, Cluster, assert_nothing_secret_in, command, seeded
from tests.e2e.test_cli import a_controller_file

pytestmark = [pytest.mark.lab, pytest.mark.long]

MASTER = "local[2]"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def cluster(laboratory: Laboratory, tmp_path: Path) -> Iterator[Cluster]:
    own = ZooKeeper(laboratory)
    own.start(60)
    yield seeded(own, tmp_path, chroot="")
    own.stop()


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """Of a service; a name with a space is one."""
    directory = tmp_path / "a service"
    directory.mkdir()
    return directory


def words(cluster: Cluster, log: Path, out: Path) -> list[str]:
    secret = a_controller_file(cluster.directory, password__encoder__secret=ENCODER.secret)
    where = ["-z", cluster.connect, "--kraft", str(log), "--engine", "spark", "--master", MASTER]
    return [*where, "--out", str(out), "--controller", str(secret)]


def comparable(document: Any) -> str:
    """Two audits take other times, and hash with other keys; which steps there were is compared."""
    document = {**document, "seconds": sorted(document["seconds"]), "ended_at": None}
    return re.sub(r"hmac-sha256:[0-9a-f]+", "(a hash)", msgspec.json.encode(document).decode())


def same_as_cold(cold: Path, warm: Path, fresh: subprocess.CompletedProcess[str], result: Result) -> None:
    assert result.note is None, result.note
    assert result.exit_code == fresh.returncode
    assert comparable(result.document) == comparable(json.loads(fresh.stdout))
    assert comparable(json.loads((warm / REPORT_FILE).read_bytes())) == comparable(json.loads(fresh.stdout))
    assert [each.name for each in sorted(warm.iterdir())] == [each.name for each in sorted(cold.iterdir())]


def left_by_audits(scratch: Path) -> str | None:
    """The process clears up behind its answer."""
    return str([str(each) for pattern in LEFT_BEHIND for each in scratch.glob(pattern)] or "") or None


def test_audits_in_the_warm_process_say_what_fresh_processes_say(cluster: Cluster, home: Path, tmp_path: Path) -> None:
    """A log that is equal, one that cannot be read, and then 13 differences, one behind the other."""
    damaged = tmp_path / "damaged"
    (damaged / "__cluster_metadata-0").mkdir(parents=True)
    for each in (cluster.log / "__cluster_metadata-0").glob("*.log"):
        data = bytearray(each.read_bytes())
        data[len(data) // 2] ^= 1
        (damaged / "__cluster_metadata-0" / each.name).write_bytes(data)

    async def story() -> None:
        warm = WarmAudits(home, master=MASTER, idle_s=600)
        await warm.warm_up()
        try:
            for name, log, exit_code in (("equal", cluster.log, 0), ("damaged", damaged, 2), ("other", cluster.log, 1)):
                if name == "other":
                    await asyncio.to_thread(cluster.change, *(change for _, change in ZOOKEEPER_PLANTS))
                cold, out = home / f"cold {name}", home / f"warm {name}"
                fresh = await asyncio.to_thread(command, tmp_path, *words(cluster, log, cold))
                began = time.monotonic()
                result = await warm.run("audit", *words(cluster, log, out), limit_s=600)
                print(f"{name}: {time.monotonic() - began:.2f} s in the warm process")
                same_as_cold(cold, out, fresh, result)
                assert result.exit_code == exit_code
                assert_nothing_secret_in(out)
                processes = living(str(home / SCRATCH))
                assert len(processes) >= 3, "the process, its JVM, and the daemon that forks Python workers"
                assert {os.getpriority(os.PRIO_PROCESS, each) for each in processes} == {max(10, os.nice(0))}
            await asyncio.to_thread(wait_for, lambda: left_by_audits(home / SCRATCH), "nothing of an audit is left")
        finally:
            await warm.close()
        assert living(str(home / SCRATCH)) == []
        assert not (home / SCRATCH).exists()

    asyncio.run(story())


SERVICE = """
import asyncio, sys
from pathlib import Path
from state_machine.audits.warm_audits import WarmAudits

async def main():
    warm = WarmAudits(Path(sys.argv[1]), master=sys.argv[2], idle_s=600)
    await warm.warm_up()
    while True:
        await warm.run("audit", *sys.argv[3:], limit_s=600)

asyncio.run(main())
"""


def test_kill_9_of_the_service_in_the_middle_of_an_audit_leaves_no_jvm_no_worker_and_no_file(
    cluster: Cluster, home: Path
) -> None:
    out, mark = home / "out", str(home / SCRATCH)
    service = subprocess.Popen(
        [sys.executable, "-c", SERVICE, str(home), MASTER, *words(cluster, cluster.log, out)], cwd=ROOT
    )
    wait_for(lambda: None if (out / "look-1" / "inputs" / "_SUCCESS").exists() else "no rows yet", "an audit")
    assert len(living(mark)) >= 4, "with a Python worker"
    service.kill()
    service.wait()
    wait_for(lambda: str(living(mark)) if living(mark) else None, "all are gone")
    wait_for(lambda: None if not (home / SCRATCH).exists() else "it is there", "the scratch is gone")
    assert not (out / ".scratch").exists()
