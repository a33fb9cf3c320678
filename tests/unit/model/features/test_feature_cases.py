"""Which case of metadata.version a node and a cluster are in (R-778-01)."""

from __future__ import annotations

import pytest

from migrator.model import levels
from migrator.model.features.cases import CASES, PRECEDENCE, Case
from migrator.model.features.matrix import NodeFeatures, NodeMode, case_of, feature_matrix, registered_nodes
from migrator.model.image import METADATA_VERSION
from migrator.model.values import FeatureRange
from tests.support.feature_clusters import BOTH, OLD, a_cluster, supports

ZOOKEEPER = NodeMode.ZOOKEEPER


@pytest.mark.parametrize(
    ("node", "level", "case"),
    [
        (supports("broker 1", 1, 1), None, Case.A),
        (NodeFeatures("broker 1", ZOOKEEPER, ibp=0), None, Case.B),
        (NodeFeatures("broker 1", ZOOKEEPER, ibp=levels.TRANSACTIONS - 1), None, Case.B),
        (NodeFeatures("broker 1", ZOOKEEPER, ibp=levels.TRANSACTIONS), None, Case.C),
        (NodeFeatures("broker 1", ZOOKEEPER), None, Case.C),
        (supports("broker 1", 1, 21), None, Case.C),
        (supports("broker 1", 21, 21), 21, Case.D),
        (supports("broker 1", 1, 20), 21, Case.E),
        (supports("broker 1", 7, 25), 6, Case.E),
        (supports("broker 1", 1, 20, is_alive=False), 21, Case.E),
        (supports("broker 1", 1, 21), 20, Case.F),
        (supports("broker 1", 1, 21, is_alive=False), 20, Case.G),
        (NodeFeatures("controller 3002"), 20, Case.G),
    ],
)
def test_each_case_of_a_node(node: NodeFeatures, level: int | None, case: Case) -> None:
    """R-778-01, R-778-05: what is not known is never taken for supported."""
    assert case_of(node, level) is case


def test_a_cluster_has_the_case_that_asks_for_most() -> None:
    """R-778-01: one node that stands in the way is enough, and a raise needs all of them."""
    newer, present, older = supports("broker 1", 1, 21), supports("broker 2", 1, 20), supports("broker 3", 1, 19)
    assert feature_matrix([newer], {METADATA_VERSION: 20}, "NONE").case is Case.F
    assert feature_matrix([newer, present], {METADATA_VERSION: 20}, "NONE").case is Case.D
    assert feature_matrix([newer, present, older], {METADATA_VERSION: 20}, "NONE").case is Case.E
    assert feature_matrix([], {}, "NONE").case is Case.C
    assert set(PRECEDENCE) == set(Case) == set(CASES)


@pytest.mark.parametrize("case", Case)
def test_a_level_is_effective_only_where_the_log_has_one(case: Case) -> None:
    """R-778-01: A to C have none."""
    assert (CASES[case].effective == "none") is (case in (Case.A, Case.B, Case.C))
    assert CASES[case].stands_in_the_way is (case in (Case.A, Case.B, Case.E, Case.G))


def test_a_log_gives_the_matrix_of_its_registrations_and_names_a_voter_that_is_not_registered() -> None:
    """R-778-01, R-778-05: a broker in ZooKeeper mode has its IBP as both ends; a disabled feature is not finalized."""
    image = a_cluster(21, migrating=True)
    matrix = feature_matrix(
        registered_nodes(image, voters=(3000, 3001, 3002)), {**image.features, "group.version": 0}, image.migration.name
    )
    assert [(each.name, each.mode, each.ibp, each.case) for each in matrix.nodes] == [
        ("controller 3000", NodeMode.KRAFT, None, Case.D),
        ("controller 3001", NodeMode.KRAFT, None, Case.D),
        ("controller 3002", NodeMode.KRAFT, None, Case.G),
        ("broker 1", ZOOKEEPER, 21, Case.D),
        ("broker 2", NodeMode.KRAFT, None, Case.D),
    ]
    assert (matrix.case, matrix.effective, matrix.finalized) == (Case.G, 21, {METADATA_VERSION: 21})
    assert matrix.features == (METADATA_VERSION, "kraft.version")


def test_ranges_of_every_feature_are_kept() -> None:
    """Of later releases as well: their brokers register what 3.9 does not know."""
    later = FeatureRange("group.version", 0, 1)
    matrix = feature_matrix(
        [NodeFeatures("broker 1", ranges=(*BOTH, later)), NodeFeatures("broker 2", ranges=OLD)], {}, "NONE"
    )
    assert matrix.features == (METADATA_VERSION, "group.version", "kraft.version")
    assert matrix.nodes[1].range_of("group.version") is None
