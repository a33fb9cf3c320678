"""Kept audits of both engines on a real ZooKeeper: a planted difference is new, then gone; a replay says what was kept.

One Spark session takes seconds to start, so that one test has the whole story of the Spark engine.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from migrator.audit.normalise import BROKER_CONFIGS, PARTITIONS, TOPICS
from migrator.lab.servers.zookeeper import ZooKeeper
from tests.e2e.support import AUDIT_DEADLINE_S
from tests.e2e.test_audit_engines import (
    ENCODER,
    OTHER_SECRET,
    PASSWORD,
    SECRETS,
    TREE,
    Cluster,
    put,
    seeded,
    state_path,
    topic_path,
)
from tests.e2e.test_cli import a_controller_file
from tests.support.passwords import encoded
from tests.support.seeded_tree import config_json, state_json, topic_json

pytestmark = pytest.mark.lab

OTHER_ID = put(topic_path(0), topic_json("another id", range(3)))
OTHER_ISR = put(state_path(3, 1), state_json(recovery=1))
OTHER_PASSWORD = put("/config/brokers/1", config_json({"log.cleaner.threads": "3", PASSWORD: encoded(OTHER_SECRET)}))


@pytest.fixture
def cluster(zookeeper: ZooKeeper, tmp_path: Path) -> Cluster:
    return seeded(zookeeper, tmp_path, chroot=f"/{tmp_path.name}")


def command(*words: str | Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("zk2kraft")
    return subprocess.run(
        [str(program), "audit", *map(str, words)], capture_output=True, check=False, text=True, timeout=AUDIT_DEADLINE_S
    )


def audit(cluster: Cluster, engine: str, out: Path) -> int:
    """By the command, as an operator does; it keeps its page beside the report."""
    file = a_controller_file(cluster.directory, password__encoder__secret=ENCODER.secret)
    words = ("-z", cluster.connect, "--kraft", cluster.log, "--engine", engine, "--master", "local[2]")
    ran = command(*words, "--controller", file, "--out", out)
    assert (out / "report.html").is_file(), ran.stdout + ran.stderr
    return ran.returncode


def changes(ran: subprocess.CompletedProcess[str]) -> set[tuple[str, str, str]]:
    return {
        (each["change"], told["difference"]["family"], told["difference"]["key"])
        for each in json.loads(ran.stdout)["differences"]
        for told in [each["second"] or each["first"]]
    }


def assert_pages_tell_no_secret(*directories: Path) -> None:
    for each in directories:
        page = (each / "report.html").read_text()
        assert not [secret for secret in SECRETS if secret in page]


def test_quick_audits_are_compared_and_not_replayed(cluster: Cluster, tmp_path: Path) -> None:
    before, planted, after = (tmp_path / name for name in ("before", "planted", "after"))
    assert audit(cluster, "quick", before) == 0
    cluster.change(OTHER_ID, OTHER_PASSWORD)
    assert audit(cluster, "quick", planted) == 1
    cluster.change(OTHER_ISR)
    assert audit(cluster, "quick", after) == 1

    same = command("diff", before, before)
    assert (same.returncode, same.stdout.splitlines()[-1]) == (0, "the two audits: nothing changed")
    found = command("diff", before, planted, "--json")
    assert found.returncode == 1
    assert changes(found) == {("new", TOPICS, TREE.name(0)), ("new", BROKER_CONFIGS, "1")}
    assert "hmac" not in found.stdout
    assert "a secret value" in found.stdout
    found = command("diff", planted, after, "--json")
    assert changes(found) == {("new", PARTITIONS, f"{TREE.name(3)}-1")}
    assert json.loads(found.stdout)["secrets"] == 1, "nobody can say whether the password changed"
    assert changes(command("diff", after, before, "--json")) == {
        ("gone", TOPICS, TREE.name(0)),
        ("gone", BROKER_CONFIGS, "1"),
        ("gone", PARTITIONS, f"{TREE.name(3)}-1"),
    }

    refused = command("replay", planted)
    assert refused.returncode == 2
    assert refused.stderr.startswith("Z2K-5009")
    shape = json.loads((planted / "report.json").read_bytes())["shape"]
    assert (shape["topics"], shape["partitions"], shape["without_leader"]) == (12, 36, 0)
    assert "Diverged." in (planted / "report.html").read_text()
    assert_pages_tell_no_secret(before, planted, after)


def test_a_spark_audit_is_replayed_without_its_cluster_and_compared_with_a_quick_one(
    cluster: Cluster, tmp_path: Path
) -> None:
    spark, quick, again = (tmp_path / name for name in ("spark", "quick", "again"))
    cluster.change(OTHER_ID, OTHER_PASSWORD)
    assert audit(cluster, "quick", quick) == 1
    assert audit(cluster, "spark", spark) == 1
    assert command("diff", quick, spark).returncode == 0, "both engines say the same"
    for each in (cluster.log / "__cluster_metadata-0").iterdir():
        each.unlink()

    replayed = command("replay", spark, "--master", "local[2]", "--out", again)
    assert (replayed.returncode, replayed.stderr) == (0, "")
    assert replayed.stdout.splitlines()[-1] == "the kept report and the replay: nothing changed"
    assert {each.name for each in again.iterdir()} == {"look-1", "look-2", "report.json", "report.html"}
    assert command("replay", again).returncode == 2, "what it read stays in the first directory"
    assert_pages_tell_no_secret(spark, quick, again)

    report = json.loads((spark / "report.json").read_bytes())
    left = [each for each in report["differences"] if each["family"] != TOPICS]
    (spark / "report.json").write_text(json.dumps({**report, "differences": left}))
    replayed = command("replay", spark, "--master", "local[2]", "--json")
    assert replayed.returncode == 1
    assert changes(replayed) == {("new", TOPICS, TREE.name(0))}
