"""A real ZooKeeper whose `jute.maxbuffer` is far below the default: what is written and read in bulk has to fit."""

from __future__ import annotations

import pytest

from migrator.driver.claim import plan_claim
from migrator.driver.mirror import Shape, plan
from migrator.driver.places import plan_places
from migrator.driver.tree import as_image
from migrator.errors import FindingError
from migrator.lab.laboratory import Laboratory
from migrator.lab.zookeeper import ZooKeeper
from migrator.model.diff import diff
from migrator.model.image import EMPTY, Position
from migrator.node.claims import read_claim
from migrator.node.tree_reader import missing_places, read_tree
from migrator.zk import paths
from migrator.zk.multi import Create, Multi
from migrator.zk.session import ZkSession
from tests.support.builders import a_topic, an_image

pytestmark = pytest.mark.lab

LIMIT = 200_000


def test_a_whole_cluster_is_written_to_a_zookeeper_that_takes_small_requests_only(laboratory: Laboratory) -> None:
    zookeeper = ZooKeeper(laboratory)
    for server in zookeeper.servers:
        server.options = (*server.options, f"-Djute.maxbuffer={LIMIT}")
    zookeeper.start()
    image = an_image(*(a_topic(f"topic-{number:03}", 40) for number in range(60)), a_topic("wide", 1000))
    with ZkSession(zookeeper.hosts) as session:
        for path in (paths.CONTROLLER_EPOCH, "/cluster", "/cluster/id"):
            assert session.apply(Multi((Create(path, b"1"),))).applied
        assert session.apply(plan_places(missing_places(session), 0)).applied
        multi, claim = plan_claim(read_claim(session), node=3000, kraft_epoch=5, now_ms=0, ephemeral=False)
        assert session.apply(multi).applied

        as_ever = plan(diff(EMPTY, image), claim, Position(5, 1_000), Shape())
        with pytest.raises(FindingError, match="Z2K-2002"):
            session.apply(max(as_ever.multis, key=lambda each: each.bytes))

        small = plan(diff(EMPTY, image), claim, Position(5, 1_000), Shape(jute_maxbuffer=LIMIT))
        assert not small.unmirrored
        pending = [session.send(each) for each in small.multis]
        assert all(each.outcome().applied for each in pending)
        assert diff(as_image(read_tree(session), image), image).is_empty
