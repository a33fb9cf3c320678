"""A write that ZooKeeper refuses is never taken for mirrored, and nothing is sent behind it."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from migrator.driver.mirror import Shape
from migrator.model.diff import diff
from migrator.model.image import EMPTY, Position
from migrator.node.driver.mirror_node import Mirror
from migrator.zk import paths
from tests.support.builders import a_topic, an_image
from tests.support.voter_on_disk import comes_about
from tests.unit.driver.test_mirror import a_cluster
from tests.unit.node.driver.test_driver_acts import story


@pytest.mark.parametrize("refused", [True, False])
def test_only_what_zookeeper_took_is_mirrored(refused: bool) -> None:
    async def told() -> None:
        ensemble, session, claim = a_cluster()
        if refused:
            ensemble.create(paths.topic("orders"))
        applied: list[Position] = []
        claims: list[Any] = []
        broken: list[str] = []
        mirror = Mirror(
            session,
            claim,
            EMPTY,
            Shape(),
            session_id=session.session_id,
            on_applied=applied.append,
            on_broken=broken.append,
            on_claim=claims.append,
        )
        image = msgspec.structs.replace(an_image(a_topic("orders")), position=Position(5, 40))
        mirror.publish(diff(EMPTY, image))
        await comes_about(lambda: bool(applied or broken))
        await asyncio.sleep(0)
        assert (applied, len(claims), len(broken)) == (([], 0, 1) if refused else ([Position(5, 40)], 1, 0))
        assert mirror.image is (EMPTY if refused else image)
        if refused:
            assert "/brokers/topics/orders" in broken[0]
            before = ensemble.tree()
            mirror.publish(diff(image, an_image(a_topic("orders"), a_topic("new"))))
            assert ensemble.tree() == before

    story(told)
