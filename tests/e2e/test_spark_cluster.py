"""Audits on a real Spark cluster: a standalone master and one worker on loopback, in processes of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.waiting import wait_until
from migrator.lab.servers.zookeeper import ZooKeeper
from tests.e2e.test_audit_engines import ENCODER, Cluster, seeded
from tests.e2e.test_cli import a_controller_file

PROTECTED = {
    "spark.authenticate": "true",
    "spark.authenticate.secret": "of this test",
    "spark.network.crypto.enabled": "true",
    "spark.io.encryption.enabled": "true",
}
JARS = Path(pyspark.__file__).parent / "jars"
AUDIT_DEADLINE_S = 240.0
ENDS_IN_S = 20.0
REGISTERS_IN_S = 60.0


def java() -> str:
    home = os.environ.get("JAVA_HOME")
    found = str(Path(home) / "bin" / "java") if home else shutil.which("java")
    assert found is not None, "a Spark cluster needs Java"
    return found


@contextmanager
def a_process(directory: Path, name: str, *words: str) -> Iterator[Path]:
    """Ended by its pid. Yields its log."""
    log = directory / f"{name}.log"
    of_spark = {"SPARK_HOME": str(JARS.parent), "SPARK_SCALA_VERSION": "2.13", "SPARK_LOCAL_IP": "127.0.0.1"}
    with log.open("wb") as file:
        process = subprocess.Popen(words, stdout=file, stderr=file, cwd=directory, env={**os.environ, **of_spark})
    try:
        yield log
    finally:
        process.terminate()
        try:
            process.wait(ENDS_IN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(ENDS_IN_S)


@contextmanager
def a_spark_cluster(laboratory: Laboratory, directory: Path, settings: dict[str, str]) -> Iterator[str]:
    """Yields its master's address. settings: of master, worker and driver, in `conf/spark-defaults.conf`."""
    conf = directory / "conf"
    conf.mkdir(parents=True)
    defaults = conf / "spark-defaults.conf"
    defaults.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    port, *pages = (laboratory.ports.reserve() for _ in range(3))
    program = (java(), "-Xmx256m", "-cp", f"{JARS}/*")
    master = f"spark://127.0.0.1:{port}"
    place = ("--host", "127.0.0.1", "--properties-file", str(defaults))
    with a_process(
        directory,
        "master",
        *(*program, "org.apache.spark.deploy.master.Master", "--port", str(port), "--webui-port", str(pages[0])),
        *place,
    ) as of_master:
        wait_until(lambda: registered(of_master, "Starting Spark master"), name="master", deadline_s=REGISTERS_IN_S)
        with a_process(
            directory,
            "worker",
            *(*program, "org.apache.spark.deploy.worker.Worker", master, "--cores", "2", "--memory", "1g"),
            *("--work-dir", str(directory / "work"), "--webui-port", str(pages[1]), *place),
        ) as of_worker:
            wait_until(
                lambda: registered(of_worker, "Successfully registered"), name="worker", deadline_s=REGISTERS_IN_S
            )
            yield master


def registered(log: Path, words: str) -> str | None:
    text = log.read_text(errors="replace")
    return None if words in text else f"{log.name} does not say {words!r}: {text[-200:]}"


def audited(cluster: Cluster, master: str, conf: Path, out: Path) -> subprocess.CompletedProcess[str]:
    file = a_controller_file(out.parent, password__encoder__secret=ENCODER.secret)
    words = ("audit", "-z", cluster.connect, "--kraft", str(cluster.log), "--controller", str(file), "--json")
    engine = ("--engine", "spark", "--master", master, "--out", str(out))
    return subprocess.run(
        [str(Path(sys.executable).with_name("zk2kraft")), *words, *engine],
        capture_output=True,
        check=False,
        text=True,
        timeout=AUDIT_DEADLINE_S,
        env={**os.environ, "SPARK_CONF_DIR": str(conf), "SPARK_LOCAL_IP": "127.0.0.1"},
    )


def test_an_audit_sends_nothing_to_a_spark_cluster_in_clear_and_runs_on_one_that_is_protected(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    zookeeper = ZooKeeper(laboratory)
    zookeeper.start()
    cluster = seeded(zookeeper, tmp_path, chroot="")
    with a_spark_cluster(laboratory, tmp_path / "clear", {}) as master:
        ran = audited(cluster, master, tmp_path / "clear" / "conf", tmp_path / "out-1")
        assert ran.returncode == 2, ran.stdout + ran.stderr
        (told,) = json.loads(ran.stdout)["differences"]
        assert told["rule"] == "Z2K-5007", told
        for name in ("spark.authenticate", "spark.network.crypto.enabled", "spark.io.encryption.enabled"):
            assert name in told["key"]
    with a_spark_cluster(laboratory, tmp_path / "protected", PROTECTED) as master:
        ran = audited(cluster, master, tmp_path / "protected" / "conf", tmp_path / "out-2")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert next(each for each in json.loads(ran.stdout)["families"] if each["family"] == "topics")["equal"] == 12
    zookeeper.stop()
