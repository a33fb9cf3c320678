"""What Kafka's own parser says is understood; the parser itself runs in tests/e2e/test_rendered_files.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.findings.finding import FindingError
from migrator.fleet.kafka_parser import require_kafka_accepts
from migrator.fleet.properties_file import parse_properties

REFUSED = (
    'Exception in thread "main" org.apache.kafka.common.config.ConfigException: Invalid value hunter2 for x\\n\\tat y'
)


def a_java(directory: Path, script: str) -> str:
    java = directory / "java"
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return str(java)


def test_a_refused_file_is_a_finding_with_kafkas_reason_and_no_secret(tmp_path: Path) -> None:
    document = parse_properties(b"ssl.key.password=hunter2\n", "f")
    for script in (f"printf '{REFUSED}' >&2; exit 1", "exit 1", "exit 3"):
        with pytest.raises(FindingError) as error:
            require_kafka_accepts(document, "/libs/*", a_java(tmp_path, script))
        assert error.value.code == "Z2K-7035"
        assert "hunter2" not in str(error.value)


def test_a_file_is_accepted_when_only_its_directories_are_missing_here(tmp_path: Path) -> None:
    java = a_java(tmp_path, "echo Found problem:; exit 1")
    assert require_kafka_accepts(parse_properties(b"a=1\n", "f"), "/libs/*", java) is None
    elsewhere = parse_properties(b"config.providers=file\n", "f")
    assert (require_kafka_accepts(elsewhere, "/libs/*", java) or "").startswith("not tried")
