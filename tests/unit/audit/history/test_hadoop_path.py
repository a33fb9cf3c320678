"""Which names of kept audits are addresses, and what of an address is refused. No Java is started here."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.audit.history.hadoop_path import HadoopPath
from migrator.audit.spark import addresses
from migrator.audit.spark.addresses import kept_path
from migrator.findings.audit import ADDRESS_UNUSABLE
from migrator.findings.finding import FindingError


def no_java() -> None:
    raise AssertionError("nobody asked for a JVM")


@pytest.mark.parametrize("text", ["/audits/1", "audits", "audits:1", "c:/odd", "s3a", "./s3a://bucket"])
def test_what_is_no_address_is_a_directory(text: str) -> None:
    assert kept_path(text) == Path(text)


@pytest.mark.parametrize(
    ("text", "path"),
    [("file:///audits/1", "/audits/1"), ("file:/audits/1", "/audits/1"), ("file://localhost/a%20b/", "/a b")],
)
def test_an_address_of_this_machines_files_is_a_directory_and_needs_no_spark(text: str, path: str) -> None:
    assert kept_path(text) == Path(path)


@pytest.mark.parametrize(
    "text", ["s3a://bucket/audits/1", "hdfs://name:8020/a", "hdfs:/a", "abfss://box@account/a", "S3A://b/a"]
)
def test_an_address_stays_as_it_was_written(text: str) -> None:
    """As a path, two slashes would be one."""
    assert kept_path(f"{text}/") == HadoopPath(text, no_java)
    assert str(kept_path(text) / "report.json") == f"{text}/report.json"


def test_names_and_parents_are_those_of_a_path() -> None:
    report = HadoopPath("s3a://bucket/audits/1", no_java) / "report.json"
    assert (report.name, report.parent) == ("report.json", HadoopPath("s3a://bucket/audits/1", no_java))
    assert report.parent.absolute() == report.parent


@pytest.mark.parametrize(
    ("text", "reason", "never"),
    [
        ("s3a://key:s3cret@bucket/audits", "it has a password in it", "s3cret"),
        ("file://elsewhere/audits", "it names the host elsewhere", "s3cret"),
        ("s3a://bucket/audits?x=1", "it has a ? or a # in it", "s3cret"),
    ],
)
def test_an_address_that_would_not_mean_what_it_says_is_refused(text: str, reason: str, never: str) -> None:
    with pytest.raises(FindingError, match=reason.replace("?", r"\?")) as refused:
        kept_path(text)
    assert refused.value.code == ADDRESS_UNUSABLE.code == "Z2K-5016"
    assert never not in str(refused.value)


def test_an_address_needs_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "spark_is_installed", lambda: False)
    with pytest.raises(FindingError, match="PySpark is not installed") as refused:
        kept_path("s3a://bucket/audits").exists()
    assert refused.value.code == ADDRESS_UNUSABLE.code
