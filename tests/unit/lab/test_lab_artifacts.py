"""Jars are brought once, whole or not at all, whoever asks at the same time. The downloader here is a fake."""

from __future__ import annotations

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from xml.etree import ElementTree

import pytest

from migrator.findings.finding import FindingError
from migrator.lab.servers import artifacts
from migrator.lab.servers.java import Java

BROKER_JAR = "kafka_2.13-3.9.2.jar"

OTHER_RUN = """
import sys, time
from pathlib import Path
from migrator.lab.servers import artifacts
def bring(version, target):
    print("bringing", flush=True)
    sys.stdin.readline()
    (target / "kafka_2.13-3.9.2.jar").touch()
artifacts.fetch("3.9.2", cache=Path(sys.argv[1]), bring=bring)
print("done", flush=True)
"""


class FakeIvy:
    """Counts its runs; `fails` makes it leave half a download and raise."""

    def __init__(self, *, fails: bool = False) -> None:
        self.runs = 0
        self.fails = fails

    def __call__(self, version: str, target: Path) -> None:
        self.runs += 1
        (target / "zookeeper-3.8.4.jar").touch()
        if self.fails:
            raise ConnectionError("the line went dead")
        (target / BROKER_JAR).touch()


def silent(line: str) -> None:
    pass


def test_jars_are_brought_once(tmp_path: Path) -> None:
    ivy = FakeIvy()
    libs = [artifacts.fetch("3.9.2", cache=tmp_path, bring=ivy, say=silent) for _ in range(3)]
    assert libs == [tmp_path / "kafka" / "3.9.2" / "libs"] * 3
    assert ivy.runs == 1


def test_half_a_download_is_not_used_and_the_next_try_begins_clean(tmp_path: Path) -> None:
    with pytest.raises(ConnectionError):
        artifacts.fetch("3.9.2", cache=tmp_path, bring=FakeIvy(fails=True), say=silent)
    assert not (tmp_path / "kafka" / "3.9.2" / "libs").exists()
    libs = artifacts.fetch("3.9.2", cache=tmp_path, bring=FakeIvy(), say=silent)
    assert (libs / BROKER_JAR).exists()


def test_a_download_without_a_broker_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FindingError) as caught:
        artifacts.fetch("3.9.2", cache=tmp_path, bring=lambda version, target: None, say=silent)
    assert caught.value.code == "Z2K-6002"


def test_threads_that_ask_together_wait_for_one_download(tmp_path: Path) -> None:
    ivy = FakeIvy()
    barrier = threading.Barrier(4)

    def ask(_: int) -> Path:
        barrier.wait()
        return artifacts.fetch("3.9.2", cache=tmp_path, bring=ivy, say=silent)

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(ask, range(4)))) == 1
    assert ivy.runs == 1


def test_another_run_that_brings_is_waited_for(tmp_path: Path) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", OTHER_RUN, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "bringing\n"
    ivy = FakeIvy()
    with ThreadPoolExecutor(1) as pool:
        ours = pool.submit(artifacts.fetch, "3.9.2", cache=tmp_path, bring=ivy, say=silent)
        assert not ours.done()
        other.communicate("go on\n", timeout=120)
        assert (ours.result(120) / BROKER_JAR).exists()
    assert ivy.runs == 0


def test_a_run_that_was_killed_while_bringing_blocks_nobody(tmp_path: Path) -> None:
    other = subprocess.Popen(
        [sys.executable, "-c", OTHER_RUN, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert other.stdout is not None
    assert other.stdout.readline() == "bringing\n"
    other.kill()
    other.communicate()
    ivy = FakeIvy()
    artifacts.fetch("3.9.2", cache=tmp_path, bring=ivy, say=silent)
    assert ivy.runs == 1


def test_ivy_is_told_one_repository_and_nothing_of_the_users_own() -> None:
    mirror = "https://mirror.example/maven/?a=1&b=2"
    settings = ElementTree.fromstring(artifacts.ivy_settings(mirror, Path("/cache/ivy")))
    resolvers = settings.find("resolvers")
    assert resolvers is not None
    assert [resolver.get("root") for resolver in resolvers] == [mirror]


def test_ivy_is_asked_for_the_broker_the_tools_and_the_logger() -> None:
    module = ElementTree.fromstring(artifacts.ivy_module("4.0.0"))
    wanted = {(found.get("name"), found.get("rev")) for found in module.iter("dependency")}
    assert wanted == {
        ("kafka_2.13", "4.0.0"),
        ("kafka-tools", "4.0.0"),
        ("slf4j-reload4j", "1.7.36"),
    }


def test_a_server_of_another_zookeeper_comes_without_kafka_and_without_its_own_logger(tmp_path: Path) -> None:
    module = ElementTree.fromstring(artifacts.zookeeper_module("3.7.2"))
    wanted = {found.get("name"): found.get("rev") for found in module.iter("dependency")}
    assert wanted["zookeeper"] == "3.7.2"
    assert "slf4j-reload4j" in wanted
    assert not any("kafka" in str(name) for name in wanted)
    assert "logback-classic" in {found.get("name") for found in module.iter("exclude")}

    def bring(version: str, target: Path) -> None:
        (target / f"zookeeper-{version}.jar").touch()

    libs = artifacts.fetch("3.7.2", cache=tmp_path, bring=bring, say=silent, product="zookeeper")
    assert libs == tmp_path / "zookeeper" / "3.7.2" / "libs"


def test_a_mirrors_password_is_not_for_messages() -> None:
    assert artifacts.without_secrets("https://op:secret@mirror.example/m2/") == "https://***@mirror.example/m2/"


def test_proxies_of_the_environment_reach_java() -> None:
    flags = artifacts.proxy_flags({"HTTPS_PROXY": "http://proxy.example:3128", "NO_PROXY": "localhost,.corp.example"})
    assert flags == [
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=3128",
        "-Dhttp.nonProxyHosts=localhost|*.corp.example",
    ]
    assert artifacts.proxy_flags({}) == []


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """A machine with Java 21 (a script that says so) and an installed Kafka 3.9.1."""
    java = tmp_path / "java-21" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\necho 'openjdk version \"21.0.4\" 2024-07-16' >&2\n")
    java.chmod(0o755)
    libs = tmp_path / "kafka" / "libs"
    libs.mkdir(parents=True)
    for name in ("kafka_2.13-3.9.1.jar", "kafka-clients-3.9.1.jar"):
        (libs / name).touch()
    return {"JAVA_HOME": str(tmp_path / "java-21"), "KAFKA_HOME": str(tmp_path / "kafka"), "PATH": ""}


def test_an_installed_kafka_wins(environment: dict[str, str], tmp_path: Path) -> None:
    found = artifacts.kafka_artifacts(environment=environment, say=silent)
    assert (found.version, found.libs, found.java.version) == ("3.9.1", tmp_path / "kafka" / "libs", 21)
    assert found.class_path.split(":") == [
        str(tmp_path / "kafka" / "libs" / name) for name in ("kafka-clients-3.9.1.jar", "kafka_2.13-3.9.1.jar")
    ]


def test_a_kafka_home_without_kafka_is_named(environment: dict[str, str], tmp_path: Path) -> None:
    environment["KAFKA_HOME"] = str(tmp_path / "nowhere")
    with pytest.raises(FindingError, match=r"KAFKA_HOME: no broker in .*nowhere/libs") as caught:
        artifacts.kafka_artifacts(environment=environment, say=silent)
    assert caught.value.code == "Z2K-6002"


def test_a_remote_store_is_two_jars_of_kafkas_tests_which_maven_tells_apart_by_a_classifier() -> None:
    root = ElementTree.fromstring(artifacts.remote_store_module("3.9.2"))
    wanted = {each.attrib["name"]: each for each in root.iter("dependency")}
    assert sorted(wanted) == ["kafka-clients", "kafka-storage"]
    for name, each in wanted.items():
        assert (each.attrib["rev"], each.attrib["transitive"]) == ("3.9.2", "false")
        (artifact,) = each.iter("artifact")
        assert artifact.attrib["name"] == name
        assert artifact.attrib["{http://ant.apache.org/ivy/maven}classifier"] == "test"


def test_jars_beside_come_last_so_that_an_archive_of_classes_still_fits(tmp_path: Path) -> None:
    libs, beside = tmp_path / "libs", tmp_path / "a-name-before-libs"
    for directory, name in ((libs, "kafka.jar"), (beside, "a-test.jar")):
        directory.mkdir()
        (directory / name).touch()
    java = Java("java", 17, "openjdk 17")
    assert artifacts.Artifacts("3.9.2", libs, java).class_path == f"{libs}/kafka.jar"
    assert artifacts.Artifacts("3.9.2", libs, java, beside=beside).class_path == f"{libs}/kafka.jar:{beside}/a-test.jar"
