"""Which release a node runs, by its command line and the jars that it names."""

from __future__ import annotations

import pytest

from migrator.findings.fleet import FILE_ABSENT
from migrator.fleet.actuator import ProcessState, ProcessStatus
from migrator.fleet.releases.running import release_of_jar, running_release


@pytest.mark.parametrize(
    ("jar", "release"),
    [
        ("kafka_2.13-2.8.2.jar", "2.8.2"),
        ("kafka_2.12-3.9.2.jar", "3.9.2"),
        ("kafka-server-4.4.0.jar", "4.4.0"),
        ("kafka_2.13-6.2.1-ccs.jar", "2.8.1"),
        ("kafka_2.13-7.9.0-ce.jar", "3.9.0"),
        ("kafka-server-8.0.1-ccs.jar", "4.0.1"),
        ("kafka-clients-3.9.2.jar", ""),
        ("kafka-server-common-3.9.2.jar", ""),
    ],
)
def test_a_jar_names_the_release_of_kafka(jar: str, release: str) -> None:
    assert release_of_jar(jar) == release


class Host:
    """A host with one process and directories of jars."""

    def __init__(self, command: tuple[str, ...], jars: dict[str, tuple[str, ...]]) -> None:
        self._command, self._jars = command, jars

    def status(self) -> ProcessStatus:
        return ProcessStatus(ProcessState.RUNNING, 1, self._command, "")

    def list(self, path: str) -> tuple[str, ...]:
        if path not in self._jars:
            raise FILE_ABSENT.error(path=path, node=1)
        return self._jars[path]


def test_single_jars_on_a_class_path_and_a_directory_of_them_both_tell_it() -> None:
    words = ("java", "-cp", "/opt/kafka/libs/a.jar:/opt/kafka/libs/kafka_2.13-2.8.2.jar", "kafka.Kafka", "/etc/s")
    libs = {"/opt/kafka/libs": ("a.jar", "kafka_2.13-2.8.2.jar")}
    assert running_release(Host(words, libs)).release == "2.8.2"  # type: ignore[arg-type]
    star = ("java", "-cp", "/opt/kafka/libs/*", "kafka.Kafka", "/etc/s")
    assert running_release(Host(star, libs)).release == "2.8.2"  # type: ignore[arg-type]


def test_what_is_not_known_says_why() -> None:
    star = ("java", "-cp", "/opt/kafka/libs/*", "kafka.Kafka")
    two = {"/opt/kafka/libs": ("kafka_2.13-2.8.2.jar", "kafka_2.13-3.9.2.jar")}
    assert "jars of 2.8.2, 3.9.2" in running_release(Host(star, two)).reason  # type: ignore[arg-type]
    assert "no jar" in running_release(Host(star, {"/opt/kafka/libs": ()})).reason  # type: ignore[arg-type]
    assert "does not run" in running_release(Host((), {})).reason  # type: ignore[arg-type]
    assert running_release(Host(star, {})).release == ""  # type: ignore[arg-type]
