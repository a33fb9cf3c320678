"""Raises of features by the command line: the list of a release, the approval, the raise."""

from __future__ import annotations

import getpass
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from api import client
from api.client import Client
from tests.unit.api.service import BASE, Served
from tests.unit.api.test_client import Wire, document, run
from tests.unit.state_machine.finish.test_feature_raises import GROUP, OnKafka44

DIGEST = re.compile(r"--digest ([0-9a-f]{16})")


@pytest.fixture
def on_later(tmp_path: Path) -> Iterator[Served]:
    world = OnKafka44(tmp_path)
    made = Served(tmp_path, world=world)
    made.run(world.to_completed())
    yield made
    world.store.close()


@pytest.fixture
def runner(on_later: Served, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    real = client.Client

    def wired(url: str, *, as_json: bool) -> Client:
        return real(url, as_json=as_json, transport=Wire(on_later))

    monkeypatch.setattr(client, "Client", wired)
    return CliRunner(env={"ZK2KRAFT_URL": BASE})


def test_a_release_is_listed_as_decisions_and_raises_nothing(runner: CliRunner, on_later: Served) -> None:
    code, said = run(runner, "finalize-version", "--release-version", "4.4")
    assert code == 5
    assert "Kafka 4.4 stands for 7 raises, 6 of them not done." in said
    assert "1. metadata.version: done, 4.4-IV2 (33)" in said
    assert "2. group.version: 0 to 1" in said
    assert "   undo     kafka-features.sh downgrade --feature group.version=0; " in said
    assert "--to COMPLETED --feature group.version=1" in said
    assert "   here     topics that set none: min.insync.replicas 2 before, not known after (not read)" in said
    assert "every topic keeps its min.insync.replicas: it is not set for all brokers" in said
    assert "   undo     none: it cannot be undone" in said
    assert on_later.world.log.raised == []
    assert on_later.world.store.operations(1, 5)[0].name != "RAISE_VERSION"
    code, found = document(runner, "finalize-version", "--release-version", "4.4")
    assert [each["feature"] for each in found["items"]][-1] == "kraft.version"


def test_a_feature_is_approved_by_its_digest_and_raised(
    runner: CliRunner, on_later: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(getpass, "getuser", lambda: "bo")
    code, shown = run(runner, "approve", "--feature", GROUP)
    assert code == 5
    assert "group.version, from and to: 0, 1" in shown
    assert f"--to COMPLETED --feature {GROUP} --digest" in shown
    digest = DIGEST.findall(shown)[0]
    assert run(runner, "approve", "--feature", "share.version=2", "--digest", digest)[0] == 4
    code, said = run(runner, "approve", "--feature", GROUP, "--digest", digest)
    assert code == 0, said
    assert "bo approved the raise of group.version to 1" in said
    view = on_later.http.get(f"{BASE}/api/v1/migrations/1").json()
    assert (view["road"]["approval"]["raises"], view["road"]["approval"]["counts"]) == (GROUP, True)
    monkeypatch.setattr(getpass, "getuser", lambda: "ada")
    code, said = run(runner, "finalize-version", "--feature", GROUP)
    assert code == 0, said
    assert "ada raised group.version from 0 to 1" in said
    assert on_later.world.log.raised == [GROUP]


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (("--feature", "group.version=9"), 1, "Z2K-4250 group.version=9 is no raise of a feature"),
        (("--release-version", "3.9"), 1, "Z2K-4250 3.9 is no raise of a feature: releases with features are 4.0"),
        (("--release-version", "4.4", "--feature", GROUP), 2, "only lists"),
    ],
)
def test_what_is_no_raise_is_refused(runner: CliRunner, words: tuple[str, ...], code: int, says: str) -> None:
    ended, said = run(runner, "finalize-version", *words)
    assert ended == code
    assert says in re.sub(r"[\s│]+", " ", said)


def test_a_release_is_listed_in_completed_alone(served: Served) -> None:
    found = served.http.get(f"{BASE}/api/v1/migrations/1/raises", params={"release": "4.4"})
    assert (found.status_code, found.json()["code"]) == (409, "Z2K-4003")
