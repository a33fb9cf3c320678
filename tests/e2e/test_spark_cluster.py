"""Audits on a real Spark cluster: a standalone master and workers on loopback, in processes of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec
import pyspark
import pytest

import migrator
from migrator.audit.run import run_audit
from migrator.lab.cluster import LabCluster
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.ports import HOST
from migrator.lab.servers.properties import Value
from migrator.lab.servers.waiting import wait_until
from migrator.lab.servers.zookeeper import ZooKeeper
from migrator.node.tools.rehearsal import rehearse
from migrator.wire.messages.metadata import ConfigRecord
from migrator.zk.multi import Multi, SetData
from migrator.zk.pipeline import UNLIMITED
from migrator.zk.session import ZkSession
from tests.e2e.test_audit_engines import ENCODER, Cluster, seeded
from tests.e2e.test_cli import a_controller_file
from tests.e2e.test_secure_quorum import sasl_ssl
from tests.e2e.test_secure_zookeeper import LOGIN_PASSWORD, flags, login, of_a_secure_zookeeper
from tests.e2e.test_third_side import STATE, with_later_epoch
from tests.support.certificates import Authority
from tests.support.java_keytool import JavaStores
from tests.support.kept_logs import with_records
from tests.support.seeded_tree import SeededTree, config_json, state_json

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
def a_spark_cluster(
    laboratory: Laboratory, directory: Path, settings: dict[str, str], *, workers: int = 1, hidden: Sequence[Path] = ()
) -> Iterator[str]:
    """Yields its master's address. settings: of master, worker and driver, in `conf/spark-defaults.conf`.

    hidden: directories that workers find empty, as on another host.
    """
    conf = directory / "conf"
    conf.mkdir(parents=True)
    defaults = conf / "spark-defaults.conf"
    defaults.write_text("".join(f"{name} {value}\n" for name, value in settings.items()))
    port, *pages = (laboratory.ports.reserve() for _ in range(2 + workers))
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
        with ExitStack() as started:
            for number in range(workers):
                of_worker = started.enter_context(
                    a_process(
                        directory,
                        f"worker-{number}",
                        *(*elsewhere(hidden), *program, "org.apache.spark.deploy.worker.Worker", master),
                        *("--cores", str(2 // workers), "--memory", "1g"),
                        *("--work-dir", str(directory / f"work-{number}"), "--webui-port", str(pages[1 + number])),
                        *place,
                    )
                )
                why_not = partial(registered, of_worker, "Successfully registered")
                wait_until(why_not, name="worker", deadline_s=REGISTERS_IN_S)
            yield master


def elsewhere(hidden: Sequence[Path]) -> tuple[str, ...]:
    """What a command begins with whose process finds these directories empty: it has mounts of its own."""
    if not hidden:
        return ()
    covered = "".join(f"mount -t tmpfs none '{each}' && " for each in hidden)
    return ("unshare", "--mount", "--propagation", "private", "sh", "-c", covered + 'exec "$0" "$@"')


def may_hide() -> bool:
    done = subprocess.run([*elsewhere([Path("/mnt")]), "true"], capture_output=True, check=False)
    return done.returncode == 0


def registered(log: Path, words: str) -> str | None:
    text = log.read_text(errors="replace")
    return None if words in text else f"{log.name} does not say {words!r}: {text[-200:]}"


def audited(
    cluster: Cluster,
    master: str,
    conf: Path,
    out: Path | str | None,
    temporary: Path | None = None,
    *more: str,
    controller: Path | None = None,
    **environment: str,
) -> subprocess.CompletedProcess[str]:
    """temporary: of the driver. more: words of the command. controller: its file; None: one without logins.

    environment: of the driver alone.
    """
    file = controller or a_controller_file(conf.parent, password__encoder__secret=ENCODER.secret)
    words = ("audit", "-z", cluster.connect, "--kraft", str(cluster.log), "--controller", str(file), "--json", *more)
    engine = ("--engine", "spark", "--master", master, *(() if out is None else ("--out", str(out))))
    return subprocess.run(
        [str(Path(sys.executable).with_name("zk2kraft")), *words, *engine],
        capture_output=True,
        check=False,
        text=True,
        timeout=AUDIT_DEADLINE_S,
        env={
            **os.environ,
            "SPARK_CONF_DIR": str(conf),
            "SPARK_LOCAL_IP": "127.0.0.1",
            **({} if temporary is None else {"TMPDIR": str(temporary)}),
            **environment,
        },
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


def test_workers_that_see_no_file_of_the_driver_audit_as_one_process_does(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    """Neither the log, nor what the driver writes, nor the package: two workers on hosts of their own, in effect."""
    if not may_hide():
        pytest.skip("this environment lets no process have mounts of its own")
    driver = tmp_path / "driver"
    (driver / "temporary").mkdir(parents=True)
    zookeeper = ZooKeeper(laboratory)
    zookeeper.start()
    tree = SeededTree(topics=1_500, partitions=8)  # more than one task audits
    cluster = Cluster(zookeeper.hosts, driver / "log", driver)
    with ZkSession(cluster.connect) as session:
        tree.seed(session)
        rehearse(session, cluster.log, UNLIMITED)
        for operation in (
            SetData(f"/config/topics/{tree.name(8)}", config_json({"retention.ms": "5"})),
            SetData(f"/brokers/topics/{tree.name(700)}/partitions/3/state", state_json(leader=2)),
        ):
            assert session.apply(Multi((operation,))).applied
    wrong = ConfigRecord(resource_type=2, resource_name=tree.name(12), name="retention.ms", value="7")
    cluster = replace(cluster, log=with_records(cluster.log, driver / "planted", [wrong]))
    alone = run_audit(cluster.connect, str(cluster.log), engine="quick", master="", out=None, allow_moved=True)
    assert [each.key for each in alone.differences] == [tree.name(12)]
    assert len(alone.expected) == 2 + 1 + 1  # the version of the state, and producer ids, which are ahead
    package = Path(migrator.__file__).parent
    with a_spark_cluster(laboratory, tmp_path / "spark", PROTECTED, workers=2, hidden=[driver, package]) as master:
        words = (driver / "kept", driver / "temporary", "--allow-moved", "--report-only")
        ran = audited(cluster, master, tmp_path / "spark" / "conf", *words)
    assert ran.returncode == 1, ran.stdout + ran.stderr
    assert sorted(each.name for each in (driver / "kept").iterdir()) == ["report.html", "report.json"]
    report = json.loads(ran.stdout)
    told = {(each["family"], each["key"], each["field"], each["kind"]) for each in report["differences"]}
    assert told == {(each.family, each.key, each.field_, str(each.kind)) for each in alone.differences}
    assert len(report["expected"]) == len(alone.expected), "executors have what the rehearsal read"
    assert {each["family"]: each for each in report["families"]} == {
        each.family: msgspec.to_builtins(each) for each in alone.families
    }
    zookeeper.stop()


def test_executors_log_in_to_zookeeper_as_the_driver_does_and_write_nothing_of_it_down(
    laboratory: Laboratory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TLS, a certificate of this side and a login: ZooKeeper takes nobody without them. Executors see none of the
    files, and no KAFKA_OPTS.
    """
    if not may_hide():
        pytest.skip("this environment lets no process have mounts of its own")
    driver, events = tmp_path / "driver", tmp_path / "events"
    (driver / "temporary").mkdir(parents=True)
    events.mkdir()
    stores = JavaStores(driver / "stores")
    stores.pkcs12("controller")
    wanted: dict[str, Value] = {"enforce.auth.enabled": True, "enforce.auth.schemes": "sasl"}
    zookeeper = ZooKeeper(laboratory, extra=wanted, secure=of_a_secure_zookeeper(stores))
    for server in zookeeper.servers:
        server.options = (login(stores),)
    zookeeper.start()
    secured = f"127.0.0.1:{zookeeper.servers[0].spec.secure_port}"
    monkeypatch.setenv("KAFKA_OPTS", flags(stores))
    cluster = seeded(zookeeper, driver, chroot="", hosts=secured)
    monkeypatch.delenv("KAFKA_OPTS")
    told = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": events.as_uri(), "spark.eventLog.compress": "false"}
    hidden = [driver, Path(migrator.__file__).parent]
    with a_spark_cluster(laboratory, tmp_path / "spark", {**PROTECTED, **told}, hidden=hidden) as master:
        conf = tmp_path / "spark" / "conf"
        refused = audited(cluster, master, conf, None, driver / "temporary")
        ran = audited(cluster, master, conf, None, driver / "temporary", KAFKA_OPTS=flags(stores))
    assert refused.returncode == 2, "ZooKeeper wants a login"
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert next(each for each in json.loads(ran.stdout)["families"] if each["family"] == "topics")["equal"] == 12
    assert list(events.rglob("*zk2kraft*")) or list(events.iterdir()), "Spark wrote an event log"
    for secret in (LOGIN_PASSWORD, stores.password):
        assert secret not in ran.stdout + ran.stderr
        for file in (*events.rglob("*"), *(tmp_path / "spark").rglob("*")):
            assert not file.is_file() or secret.encode() not in file.read_bytes(), file
    zookeeper.stop()


def test_executors_ask_brokers_as_the_driver_does_and_write_nothing_of_the_login_down(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    """Brokers take nobody without a certificate and a password. One of them says what the two other sides do not: two
    workers that see no file of the driver's tell it in the words of the quick engine.
    """
    if not may_hide():
        pytest.skip("this environment lets no process have mounts of its own")
    driver, events = tmp_path / "driver", tmp_path / "events"
    (driver / "temporary").mkdir(parents=True)
    events.mkdir()
    authority = Authority(driver / "authority")
    inside = secured(authority, "broker")
    cluster = LabCluster(laboratory, brokers=2, extra={**inside, "auto.leader.rebalance.enable": "false"})
    addresses = []
    for broker in cluster.brokers:
        addresses.append(f"{HOST}:{laboratory.ports.reserve()}")
        listeners = f"PLAINTEXT://{HOST}:{broker.spec.port},INSIDE://{addresses[-1]}"
        extra: dict[str, Value] = {"listeners": listeners, "advertised.listeners": listeners}
        broker.spec = replace(broker.spec, extra={**broker.spec.extra, **extra})
    cluster.start()
    cluster.create_topics(["topic-1"])
    cluster.wait_isr_whole(("topic-1",))
    leader, _ = with_later_epoch(cluster, STATE)
    log = driver / "log"
    with ZkSession(cluster.zookeeper_connect) as session:
        rehearse(session, log, UNLIMITED)
    file = a_controller_file(driver)
    keys = secured(authority, "controller")
    file.write_text(file.read_text() + "".join(f"{name}={value}\n" for name, value in keys.items()))
    asked = ("--brokers", ",".join(addresses))
    words = [str(Path(sys.executable).with_name("zk2kraft")), "audit", "-z", cluster.zookeeper_connect, *asked]
    words += ["--kraft", str(log), "--controller", str(file), "--engine", "quick", "--json"]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=AUDIT_DEADLINE_S)
    quick = json.loads(done.stdout)["brokers"]
    assert {(each["broker"], each["family"], each["field"]) for each in quick["differences"]} == {
        *((each, "partitions", "leader_epoch") for each in (0, 1)),
        (leader, "logs", "leads at"),
    }
    noted = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
    }
    hidden = [driver, Path(migrator.__file__).parent]
    with a_spark_cluster(laboratory, tmp_path / "spark", {**PROTECTED, **noted}, workers=2, hidden=hidden) as master:
        conf, of_both = tmp_path / "spark" / "conf", Cluster(cluster.zookeeper_connect, log, driver)
        ran = audited(of_both, master, conf, None, driver / "temporary", *asked, controller=file)
    assert ran.returncode == done.returncode == 1, ran.stdout + ran.stderr
    told = json.loads(ran.stdout)["brokers"]
    assert "asked_here" not in told
    assert {**told, "seconds": None} == {**quick, "seconds": None}
    assert list(events.iterdir()), "Spark wrote an event log"
    for secret in ("c0ntr0ller", "PRIVATE KEY"):
        assert secret not in ran.stdout + ran.stderr
        for each in (*events.rglob("*"), *(tmp_path / "spark").rglob("*"), *(driver / "temporary").rglob("*")):
            assert not each.is_file() or secret.encode() not in each.read_bytes(), each


def secured(authority: Authority, user: str) -> dict[str, Value]:
    """Of brokers, and of the controller that asks them, whose certificate has to be shown as well (KIP-684)."""
    return {
        **sasl_ssl(authority, user, "PLAINTEXT"),
        "inter.broker.listener.name": "INSIDE",
        "listener.name.inside.ssl.client.auth": "required",
    }
