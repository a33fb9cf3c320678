"""The commands that need a ZooKeeper and nothing else, as anybody runs them: words, exit codes, JSON.

One ZooKeeper for all tests, a chroot for each.
"""

from __future__ import annotations

import itertools
import json
import socket
import struct
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from kazoo.security import READ_ACL_UNSAFE, make_digest_acl

from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.zookeeper import ZooKeeper
from migrator.node.log.storage import LOG_NAME
from migrator.node.zookeeper.tree_reader import descendants
from migrator.zk import paths
from migrator.zk.multi import Create, Delete, Multi, Operation, SetData
from migrator.zk.session import ZkSession
from migrator.zk.znodes import MigrationZnode, controller_data, migration_data
from tests.support.offences import CLAIMED, FOR_FILES, OFFENCES, a_registration, place_of, plant_for_real, t
from tests.support.offences import TREE as OFFENDED
from tests.support.seeded_tree import SeededTree, config_json, state_json

pytestmark = pytest.mark.lab

TREE = SeededTree(topics=4, partitions=2)
CLUSTER = "AAAAAAAAQAqAAAAAAAAAAA"
Ran = subprocess.CompletedProcess[str]


@dataclass
class Place:
    """A chroot of its own, and a directory in which commands run."""

    root: str
    directory: Path
    chroot: str

    @property
    def connect(self) -> str:
        return self.root + self.chroot

    def change(self, *operations: Operation) -> None:
        with ZkSession(self.connect) as session:
            outcome = session.apply(Multi(operations))
            assert outcome.applied, outcome

    def run(self, *words: str, exit_code: int = 0) -> Ran:
        program = Path(sys.executable).with_name("zk2kraft")
        done = subprocess.run(
            [str(program), *words], capture_output=True, check=False, cwd=self.directory, text=True, timeout=120
        )
        assert done.returncode == exit_code, (done.returncode, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
        return done


numbers = itertools.count(1)


@pytest.fixture
def place(zookeeper: ZooKeeper, tmp_path: Path) -> Place:
    """An empty chroot."""
    chroot = f"/clusters/c{next(numbers)}"
    with ZkSession(zookeeper.hosts) as session:
        session.ensure_path(chroot)
    return Place(zookeeper.hosts, tmp_path, chroot)


@pytest.fixture
def cluster(place: Place) -> Place:
    with ZkSession(place.connect) as session:
        TREE.seed(session)
    return place


def tree_of(connect: str) -> dict[str, tuple[bytes, int]]:
    """Data of every znode but ZooKeeper's own, and the session of an ephemeral one."""
    with ZkSession(connect) as session:
        roots = [f"/{name}" for name in session.children("/") or [] if name != "zookeeper"]
        paths = [each for root in roots for each in (root, *descendants(session, root))]
        found = zip(paths, session.get_many(paths), strict=True)
        return {path: (znode.data or b"", znode.owner) for path, znode in found if znode is not None}


# --- check ------------------------------------------------------------------------------------------------


def a_controller_file(directory: Path, node: int = 3000, **changes: str) -> Path:
    keys = {
        "process.roles": "controller",
        "node.id": str(node),
        "controller.quorum.voters": f"{node}@127.0.0.1:19093",
        "listeners": "CONTROLLER://127.0.0.1:19093",
        "controller.listener.names": "CONTROLLER",
        "log.dirs": str(directory / f"metadata-{node}"),
        "zookeeper.metadata.migration.enable": "true",
        "zookeeper.connect": "127.0.0.1:2181",
        **{key.replace("__", "."): value for key, value in changes.items()},
    }
    file = directory / f"controller-{node}.properties"
    file.write_text("".join(f"{key}={value}\n" for key, value in keys.items()))
    return file


def test_a_clean_cluster_may_go(cluster: Place) -> None:
    file = a_controller_file(cluster.directory, zookeeper__connect=cluster.connect)
    said = cluster.run("check", "-z", cluster.connect, "--controllers", str(file)).stdout
    assert said.startswith("4 topics, 8 partitions, brokers [1, 2, 3]\nfeature levels, case C: ")
    assert "\nnot checked:\n" in said
    assert "not formatted, or on another machine" in said
    assert said.endswith("\ngo: no finding\n")
    ran = cluster.run("check", "-z", cluster.connect, "--json")
    document = json.loads(ran.stdout)
    assert "the controllers' files (--controllers FILE)" in document.pop("not_looked_at")
    features = document.pop("features")
    assert (features["case"], features["effective"]) == ("C", None)
    assert [each["name"] for each in features["nodes"]] == ["broker 1", "broker 2", "broker 3"]
    assert document == {
        "exit": 0,
        "topics": 4,
        "partitions": 8,
        "brokers": [1, 2, 3],
        "tiered_topics": 0,
        "findings": [],
    }
    assert ran.stderr == ""


STATE = "/brokers/topics/t000000/partitions/0/state"
PLANTED: dict[str, tuple[str, Operation]] = {
    STATE: ("Z2K-1001", SetData(STATE, b"{")),
    "/brokers/topics/t000001": (
        "Z2K-1002",
        SetData("/brokers/topics/t000001", json.dumps({"version": 1, "partitions": {"0": [1, 2, 3]}}).encode()),
    ),
    "/brokers/topics/t000002/partitions/1/state": (
        "Z2K-1003",
        Delete("/brokers/topics/t000002/partitions/1/state"),
    ),
    "/feature finalizes 1 features, the first at x": (
        "Z2K-1004",
        Create("/feature", b'{"version":2,"status":1,"features":{"x":{"max_version_level":1}}}'),
    ),
    "half-gone": ("Z2K-1005", Create("/admin/delete_topics/half-gone", b"")),
    "Broker 3": ("Z2K-1007", Delete("/brokers/ids/3")),
    "t000003-1": ("Z2K-1008", SetData("/brokers/topics/t000003/partitions/1/state", state_json((1, 2)))),
    "/config/brokers/2": ("Z2K-1010", Create("/config/brokers/2", config_json({"ssl.key.password": "x"}))),
    "/config/topics/nobody": ("Z2K-1011", Create("/config/topics/nobody", config_json({"a": "b"}))),
    "/migration": ("Z2K-2006", Create("/migration", migration_data(MigrationZnode(4000, 3, 7, 3)))),
}


def test_everything_that_stands_in_the_way_is_said_with_its_code_and_place(cluster: Place) -> None:
    cluster.change(*(operation for _, operation in PLANTED.values()))
    before = tree_of(cluster.connect)
    file = a_controller_file(cluster.directory, node=2, zookeeper__connect=cluster.connect)
    words = ("check", "-z", cluster.connect, "--controllers", str(file))
    text = cluster.run(*words, exit_code=2).stdout
    ran = cluster.run(*words, "--json", exit_code=2)
    document = json.loads(ran.stdout)
    assert ran.stderr == ""
    assert document["exit"] == 2
    found = [(each["code"], each["says"], each["severity"]) for each in document["findings"]]
    for named, (code, _) in {**PLANTED, str(file): ("Z2K-1014", None)}.items():
        (says,) = {says for each, says, _ in found if each == code and named in says}
        assert f"{code}  {says}" in text
    assert {code for code, _, _ in found} == {*(code for code, _ in PLANTED.values()), "Z2K-1014"}
    assert [severity for *_, severity in found] == ["blocks"] * (len(found) - 1) + ["warns"]
    assert text.endswith("\nblocked\n")
    assert all(Path(each["runbook"]).name == f"{each['code']}.md" for each in document["findings"])
    assert tree_of(cluster.connect) == before


def test_every_offence_of_the_content_is_named_with_its_exact_place(place: Place) -> None:
    """All of them at once: none hides another, and nothing that is right is named."""
    with ZkSession(place.connect) as session:
        OFFENDED.seed(session)
        plant_for_real(session, (*OFFENCES, *CLAIMED, *FOR_FILES))
        guard(session, paths.IP_CONFIGS)
    before = tree_of(place.connect)
    file = a_controller_file(place.directory, zookeeper__connect=place.root)
    ran = place.run("check", "-z", place.connect, "--controllers", str(file), "--json", exit_code=2)
    document = json.loads(ran.stdout)
    found = Counter((each["code"], place_of(each["values"])) for each in document["findings"])
    expected = Counter((each.code, each.place) for each in (*OFFENCES, *CLAIMED, *FOR_FILES))
    others = Counter({("Z2K-1045", paths.IP_CONFIGS): 1, ("Z2K-1014", str(file)): 1})  # the file has no chroot
    others["Z2K-4242", f"{t(13)}-0, {t(13)}-1"] = 1  # min.insync.replicas of Z2K-1015
    assert found == expected + others
    assert document["exit"] == 2
    assert {each["severity"] for each in document["findings"]} == {"blocks", "warns"}
    assert tree_of(place.connect) == before


def guard(session: ZkSession, path: str) -> None:
    """Everybody may read, only whoever logs in as kafka may write: what zookeeper.set.acl makes."""
    acl = [make_digest_acl("kafka", "secret", all=True), *READ_ACL_UNSAFE]
    session._client.set_acls(path, acl)


def test_another_program_with_a_session_is_told_by_its_address(cluster: Place) -> None:
    """F-57: on loopback every program has the brokers' address, so this one comes from another."""
    with ZkSession(cluster.connect) as session, socket.socket() as other:
        session.apply(Multi((Create("/brokers/ids/9", a_registration(9), ephemeral=True),)))
        assert cluster.run("check", "-z", cluster.connect, "--clients", exit_code=0).stdout.count("Z2K") == 0
        other.bind(("127.0.0.2", 0))
        host, port = cluster.root.split(":")
        other.connect((host, int(port)))
        other.sendall(struct.pack(">iiqiqi16s?", 45, 0, 0, 60_000, 0, 16, bytes(16), False))
        assert len(other.recv(64)) > 8
        said = cluster.run("check", "-z", cluster.connect, "--clients", exit_code=1).stdout
    assert "Z2K-1046  1 ZooKeeper sessions belong to no broker: 127.0.0.2 (session 0x" in said


def test_a_warning_alone_has_an_exit_code_of_its_own(cluster: Place) -> None:
    cluster.change(Create("/config/topics/nobody", config_json({"a": "b"})))
    assert cluster.run("check", "-z", cluster.connect, exit_code=1).stdout.endswith("\ngo, with warnings\n")


@pytest.mark.parametrize("chroot", ["", "/no/such/chroot"])
def test_a_chroot_without_a_cluster_is_not_said_to_be_fit(place: Place, chroot: str) -> None:
    (found,) = json.loads(place.run("check", "-z", place.connect + chroot, "--json", exit_code=2).stdout)["findings"]
    assert (found["code"], found["values"]["path"]) == ("Z2K-1001", "/cluster/id")


def test_an_address_that_is_none_could_not_be_checked(place: Place) -> None:
    assert "Z2K-2001" in place.run("check", "-z", "h:port", exit_code=3).stderr
    document = json.loads(place.run("check", "-z", "h:port", "--json", exit_code=3).stdout)
    assert (document["exit"], document["findings"][0]["code"]) == (3, "Z2K-2001")


# --- export and import ------------------------------------------------------------------------------------


def test_what_was_exported_is_imported_into_an_empty_chroot_and_nowhere_else(cluster: Place) -> None:
    source = tree_of(cluster.connect)
    assert len(source) > 40
    file = cluster.directory / "exports" / "tree.gz"
    with ZkSession(cluster.connect) as session:  # an ephemeral znode belongs to its session: counted, not restored
        session.apply(Multi((Create("/controller", controller_data(1, -1, 1), ephemeral=True),)))
        said = cluster.run("export", "-z", cluster.connect, "--out", str(file)).stdout
    assert f"{len(source) + 2} znodes (1 ephemeral) in {file}, sha256 " in said
    target = cluster.connect + "-restored"
    assert "znodes restored to " in cluster.run("import", str(file), "-z", target).stdout
    assert tree_of(target) == source

    refused = cluster.run("import", str(file), "-z", target, exit_code=1)
    assert "Z2K-2018" in refused.stderr
    assert "the target is not empty" in refused.stderr
    assert tree_of(target) == source


def test_a_damaged_export_is_refused_and_nothing_is_created(cluster: Place) -> None:
    file = cluster.directory / "tree.gz"
    cluster.run("export", "-z", cluster.connect, "--out", str(file))
    whole = file.read_bytes()
    target = cluster.chroot + "-damaged"
    for damaged in (whole[:-30], whole[:400] + bytes([whole[400] ^ 1]) + whole[401:]):
        file.write_bytes(damaged)
        refused = cluster.run("import", str(file), "-z", cluster.root + target, exit_code=1)
        assert "Z2K-2018" in refused.stderr
    with ZkSession(cluster.root) as session:
        assert session.get(target) is None


def test_an_export_goes_back_into_a_fresh_zookeeper_without_a_chroot(cluster: Place, laboratory: Laboratory) -> None:
    file = cluster.directory / "tree.gz"
    cluster.run("export", "-z", cluster.connect, "--out", str(file))
    fresh = ZooKeeper(laboratory)
    fresh.start()
    cluster.run("import", str(file), "-z", fresh.hosts)
    assert tree_of(fresh.hosts) == tree_of(cluster.connect)


# --- rehearse, log dump -----------------------------------------------------------------------------------


def test_a_rehearsal_is_a_log_that_can_be_dumped_and_needs_an_empty_directory(cluster: Place) -> None:
    out = cluster.directory / "rehearsal"
    result = json.loads(cluster.run("rehearse", "-z", cluster.connect, "--out", str(out), "--json").stdout)
    assert {key: result[key] for key in ("topics", "partitions", "records")} == {
        "topics": 4,
        "partitions": 8,
        "records": 19,
    }
    assert out.stat().st_mode & 0o777 == 0o700

    documents = json.loads(cluster.run("log", "dump", str(out), "--json").stdout)
    assert [each["offset"] for each in documents] == list(range(len(documents)))
    kinds = [each["type"] for each in documents]
    assert [kinds.count(kind) for kind in ("TopicRecord", "PartitionRecord", "ConfigRecord", "ProducerIdsRecord")] == [
        4,
        8,
        6,
        1,
    ]
    assert kinds[0] == "LeaderChangeMessage"
    assert kinds[-2:] == ["ZkMigrationStateRecord", "EndTransactionRecord"]
    (segment,) = (out / LOG_NAME).glob("*.log")
    assert json.loads(cluster.run("log", "dump", str(segment), "--json").stdout) == documents
    lines = cluster.run("log", "dump", str(segment)).stdout.splitlines()
    assert [line.split()[:3] for line in lines] == [
        [str(each["offset"]), str(each["epoch"]), each["type"]] for each in documents
    ]

    a_file = cluster.run("rehearse", "-z", cluster.connect, "--out", str(segment), exit_code=1)
    assert "it is not a directory" in a_file.stderr
    before = {path: path.stat().st_mtime_ns for path in out.rglob("*")}
    refused = cluster.run("rehearse", "-z", cluster.connect, "--out", str(out), exit_code=1)
    assert "Z2K-6019" in refused.stderr
    assert "it is not empty" in refused.stderr
    assert {path: path.stat().st_mtime_ns for path in out.rglob("*")} == before


def test_a_chroot_without_a_cluster_is_not_rehearsed(cluster: Place) -> None:
    """It ended with 0 and a copy of nothing."""
    wrong = cluster.connect.partition("/")[0] + "/no/such"
    ran = cluster.run("rehearse", "-z", wrong, "--out", str(cluster.directory / "copy"), exit_code=1)
    assert "Z2K-1001" in ran.stderr
    assert "is the chroot right?" in ran.stderr
    assert not (cluster.directory / "copy").exists()


def test_a_tree_that_cannot_be_read_is_not_rehearsed_in_part(cluster: Place) -> None:
    cluster.change(SetData(STATE, b"{"))
    out = cluster.directory / "rehearsal"
    refused = cluster.run("rehearse", "-z", cluster.connect, "--out", str(out), exit_code=1)
    assert "Z2K-1001" in refused.stderr
    assert STATE in refused.stderr
    assert list(out.iterdir()) == []


def test_a_damaged_segment_is_not_dumped_as_if_it_were_whole(cluster: Place) -> None:
    out = cluster.directory / "rehearsal"
    cluster.run("rehearse", "-z", cluster.connect, "--out", str(out))
    (segment,) = (out / LOG_NAME).glob("*.log")
    data = bytearray(segment.read_bytes())
    data[len(data) // 2] ^= 1
    segment.write_bytes(data)
    refused = cluster.run("log", "dump", str(out), "--json", exit_code=1)
    assert "Z2K-3001" in refused.stderr
    assert refused.stdout == ""


# --- storage ----------------------------------------------------------------------------------------------


def test_directories_are_formatted_once_and_say_whose_they_are(place: Place) -> None:
    file = a_controller_file(place.directory)
    directory = place.directory / "metadata-3000"
    refused = place.run("storage", "info", "-c", str(file), exit_code=1)
    assert f"Z2K-3012 {directory} cannot be used: no meta.properties in it" in refused.stdout
    words = ("storage", "format", "-t", CLUSTER, "-c", str(file))
    formatted = place.run(*words, "-r", "3.9").stdout
    assert formatted == f"Formatting metadata directory {directory} with metadata.version 3.9-IV0.\n"
    info = place.run("storage", "info", "-c", str(file)).stdout
    assert info.startswith(f"{directory}: cluster.id={CLUSTER} node.id=3000 directory.id=")
    before = (directory / "meta.properties").read_bytes()
    assert "already formatted" in place.run(*words, exit_code=1).stderr
    assert place.run(*words, "--ignore-formatted").stdout == "All of the log directories are already formatted.\n"
    other = ("storage", "format", "-t", "AAAAAAAAQAqAAAAAAAAAAB", "-c", str(file), "-g")
    assert f"formatted for cluster {CLUSTER}" in place.run(*other, exit_code=1).stderr
    assert (directory / "meta.properties").read_bytes() == before
    dumped = json.loads(place.run("log", "dump", str(directory / "bootstrap.checkpoint"), "--json").stdout)
    assert [each["type"] for each in dumped] == ["SnapshotHeaderRecord", "FeatureLevelRecord", "SnapshotFooterRecord"]
    assert dumped[1]["data"] == {"name": "metadata.version", "feature_level": 21}


@pytest.mark.parametrize(
    ("change", "code"),
    [({"process__roles": "broker,controller"}, "Z2K-3010"), ({"controller__quorum__voters": ""}, "Z2K-3011")],
)
def test_a_file_that_cannot_be_honoured_formats_nothing(place: Place, change: dict[str, Any], code: str) -> None:
    file = a_controller_file(place.directory, **change)
    assert code in place.run("storage", "format", "-t", CLUSTER, "-c", str(file), exit_code=1).stderr
    assert list(place.directory.iterdir()) == [file]


# --- release ----------------------------------------------------------------------------------------------


def test_a_release_is_shown_first_and_done_only_on_request(cluster: Place) -> None:
    refused = cluster.run("rollback", "--without-controllers", "-z", cluster.connect, exit_code=2)
    assert "Z2K-2019" in refused.stderr
    assert "nothing is claimed" in refused.stderr
    cluster.change(
        Create("/controller", controller_data(3000, 5, 1)),
        Create("/migration", migration_data(MigrationZnode(3000, 5, 1200, 5))),
        SetData("/controller_epoch", b"9"),
    )
    before = tree_of(cluster.connect)
    shown = cluster.run("rollback", "--without-controllers", "-z", cluster.connect).stdout
    assert "brokers in ZooKeeper mode: [1, 2, 3]" in shown
    assert "delete /controller at version 0" in shown
    assert shown.endswith("nothing was changed; --execute applies it\n")
    assert tree_of(cluster.connect) == before
    done = cluster.run("rollback", "--without-controllers", "-z", cluster.connect, "--execute").stdout
    assert done.endswith("after\n  /controller: absent\n  /controller_epoch: 9 (version 2)\n  /migration: absent\n")
    assert set(before) - set(tree_of(cluster.connect)) == {"/controller", "/migration"}
