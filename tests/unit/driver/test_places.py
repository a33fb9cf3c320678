"""Persistent znodes that somebody deleted: named before a takeover, created again after it."""

from __future__ import annotations

import pytest

from migrator.driver.amends import amends
from migrator.driver.gate import content_findings, takeover_verdict
from migrator.driver.places import PLACE_PATHS, PLACES, PersistentZnode, plan_places
from migrator.driver.tree import Tree
from migrator.findings.content import MALFORMED_ZNODE, PRODUCER_IDS_EMPTY
from migrator.findings.finding import Occurrence, Severity
from migrator.model.image import EMPTY
from migrator.node.zookeeper.tree_reader import missing_places, read_tree
from migrator.zk import paths
from tests.support.fake_zookeeper import FakeEnsemble
from tests.unit.driver.test_gate import a_zookeeper, the_evidence

UNREADABLE = MALFORMED_ZNODE.found(path=paths.PRODUCER_IDS, reason="no JSON")


def without(path: str) -> FakeEnsemble:
    ensemble = a_zookeeper()
    remove(ensemble, path)
    return ensemble


def remove(ensemble: FakeEnsemble, path: str) -> None:
    """With everything below it, as ZooKeeper's `deleteall` does."""
    for each in [each for each in ensemble.nodes if each == path or each.startswith(f"{path}/")]:
        del ensemble.nodes[each]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.path)
def test_each_persistent_znode_that_is_missing_is_named_before_the_takeover(place: PersistentZnode) -> None:
    found = content_findings(read_tree(without(place.path).session()))
    (about,) = [each for each in found if each.values.get("path") == place.path]
    expected = ("Z2K-1111", Severity.BLOCKS) if place.lost else ("Z2K-1112", Severity.WARNS)
    assert (about.code, about.finding.severity) == expected


def test_a_lost_producer_id_block_closes_the_gate() -> None:
    """An empty one would be taken for "none was handed out", and ids would be handed out a second time."""
    verdict = takeover_verdict(the_evidence(without(paths.PRODUCER_IDS)))
    (failed,) = verdict.failed
    assert failed.codes == ("Z2K-1111",)
    assert paths.PRODUCER_IDS in failed.message


def test_a_producer_id_block_without_data_is_as_kafka_makes_it() -> None:
    ensemble = without(paths.PRODUCER_IDS)
    ensemble.create(paths.PRODUCER_IDS)
    assert takeover_verdict(the_evidence(ensemble)).holds


def test_where_none_of_them_exists_there_is_no_cluster_and_nothing_is_listed() -> None:
    assert content_findings(read_tree(FakeEnsemble().session())) == []


def test_what_is_missing_is_created_with_its_parents_while_the_epoch_stands() -> None:
    ensemble = FakeEnsemble()
    ensemble.create(paths.CONTROLLER_EPOCH, b"1")
    session = ensemble.session()
    assert not session.apply(plan_places(PLACE_PATHS, 7)).applied
    assert session.apply(plan_places(PLACE_PATHS, 0)).applied
    assert missing_places(session) == []
    assert {ensemble.nodes[path].data for path in PLACE_PATHS} == {None}, "as Kafka makes them; it tells b'' from it"


@pytest.mark.parametrize("problem", [PRODUCER_IDS_EMPTY.found(path=paths.PRODUCER_IDS), UNREADABLE])
def test_a_block_that_kafka_cannot_read_is_taken_away_where_no_producer_ids_were_handed_out(
    problem: Occurrence,
) -> None:
    """It became a text of no bytes, for which Kafka throws as well."""
    assert amends(Tree(problems=[problem]), EMPTY, 1).rewrite == {paths.PRODUCER_IDS: None}
