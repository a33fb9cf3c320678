"""Audits that are kept at an address: rows written there by executors, the rest by the driver, all of it read again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import migrator
from migrator.findings.audit import ADDRESS_UNUSABLE, AUDIT_OUT_UNUSABLE
from migrator.lab.servers.artifacts import s3a_jars
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.zookeeper import ZooKeeper
from migrator.wire.messages.metadata import ConfigRecord
from tests.e2e.test_audit_engines import SECRETS, TREE, seeded
from tests.e2e.test_spark_cluster import AUDIT_DEADLINE_S, PROTECTED, a_spark_cluster, audited, may_hide
from tests.support.kept_logs import with_records
from tests.support.object_store import SECRET_KEY, an_object_store

pytestmark = pytest.mark.lab


def command(conf: Path, temporary: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """A command about audits that were kept."""
    return subprocess.run(
        [str(Path(sys.executable).with_name("zk2kraft")), "audit", *words],
        capture_output=True,
        check=False,
        text=True,
        timeout=AUDIT_DEADLINE_S,
        env={**os.environ, "SPARK_CONF_DIR": str(conf), "SPARK_LOCAL_IP": "127.0.0.1", "TMPDIR": str(temporary)},
    )


def test_a_spark_cluster_keeps_audits_in_an_object_store_and_they_are_read_from_there(
    laboratory: Laboratory, tmp_path: Path
) -> None:
    """Workers see no file of the driver. What is kept goes from them and from the driver to the store."""
    driver = tmp_path / "driver"
    temporary = driver / "temporary"
    temporary.mkdir(parents=True)
    zookeeper = ZooKeeper(laboratory)
    zookeeper.start()
    cluster = seeded(zookeeper, driver, chroot="")
    wrong = ConfigRecord(resource_type=2, resource_name=TREE.name(3), name="retention.ms", value="7")
    planted = replace(cluster, log=with_records(cluster.log, driver / "planted", [wrong]))
    hidden = [driver, Path(migrator.__file__).parent] if may_hide() else []
    with an_object_store() as store:
        store.make_bucket("audits")
        settings = {**PROTECTED, **store.settings(s3a_jars())}
        with a_spark_cluster(laboratory, tmp_path / "spark", settings, hidden=hidden) as master:
            conf = tmp_path / "spark" / "conf"
            first = audited(cluster, master, conf, "s3a://audits/runs/1", temporary)
            second = audited(planted, master, conf, "s3a://audits/runs/2", temporary)
            again = audited(cluster, master, conf, "s3a://audits/runs/2", temporary)
            nowhere = audited(cluster, master, conf, "s3a://no-such-bucket/1", temporary)
            replayed = command(conf, temporary, "replay", "s3a://audits/runs/2", "--master", master, "--json")
        kept = command(conf, temporary, "replay", "s3a://audits/runs/2", "--out", "s3a://audits/runs/3", "--json")
        diff = command(conf, temporary, "diff", "s3a://audits/runs/1", "s3a://audits/runs/3/report.json", "--json")
        page = command(conf, temporary, "report", "s3a://audits/runs/2/")
        html = store.object("audits", "runs/2/report.html").decode()
        report = json.loads(store.object("audits", "runs/2/report.json"))
        rows = b"".join(store.object("audits", f"runs/{run}/audit.json") for run in (1, 2))
    assert first.returncode == 0, first.stdout + first.stderr
    assert second.returncode == 1, second.stdout + second.stderr
    assert report == json.loads(second.stdout), "what was kept is what was said"
    for refused, code in ((again, AUDIT_OUT_UNUSABLE), (nowhere, ADDRESS_UNUSABLE)):
        assert refused.returncode == 2, refused.stdout + refused.stderr
        (told,) = json.loads(refused.stdout)["differences"]
        assert told["rule"] == code.code, told
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    assert json.loads(replayed.stdout)["second"]["engine"] == "spark"
    assert kept.returncode == 0, kept.stdout + kept.stderr
    assert diff.returncode == 1, diff.stdout + diff.stderr
    (change,) = [each for each in json.loads(diff.stdout)["differences"] if each["change"] == "new"]
    assert change["second"]["difference"]["key"] == TREE.name(3)
    assert page.stdout.strip() == "s3a://audits/runs/2/report.html", page.stderr
    assert TREE.name(3) in html
    for secret in (*SECRETS, SECRET_KEY):
        assert secret not in html + json.dumps(report) + rows.decode()
        assert all(secret not in each.stdout + each.stderr for each in (first, second, nowhere, replayed, page))
    assert sorted(each.name for each in driver.iterdir()) == ["log", "planted", "temporary"]
    zookeeper.stop()
