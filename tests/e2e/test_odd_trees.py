"""Stock 3.9.2 and ours copy one tree with every family and every oddity: the two logs say the same.

The tree lies twice in one ZooKeeper, below two chroots; brokers are stand-ins. Both logs are read by Kafka's own tool.
Named exceptions: ids of ACLs, which stock draws, and the next producer id, for which ours leaves a margin. (Epochs of
controllers and of brokers are in no record of a copy.)
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from migrator.driver.copy import producer_id_margin
from migrator.lab.ours import OurController
from migrator.lab.servers.controller import StockController, StockQuorum, quorum_specs
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.zookeeper import ZooKeeper
from migrator.zk.multi import Multi, SetData
from migrator.zk.session import ZkSession
from tests.e2e.support import wait_for
from tests.e2e.test_stock_equality import copied_records, differences
from tests.support.broker_stand_in import stand_in_brokers
from tests.support.odd_tree import BROKERS, OddTree, odd_tree

pytestmark = pytest.mark.lab

CLUSTER_ID = "AAAAAAAAQAqAAAAAAAAAAA"
HEEDING_ACLS = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "delegation.token.secret.key": "a secret of the laboratory",
}
OF_ZOOKEEPER = b'{"version":2,"brokerid":1,"timestamp":"1","kraftControllerEpoch":-1}'


def planted(zookeeper: ZooKeeper, chroot: str, odd: OddTree) -> str:
    """The tree below a chroot, some of its states written more than once."""
    with ZkSession(zookeeper.hosts) as root:
        root.ensure_path(chroot)
    connect = zookeeper.hosts + chroot
    with ZkSession(connect) as session:
        odd.tree.seed(session)
        session.ensure_path("/controller")
        assert session.apply(Multi((SetData("/controller", OF_ZOOKEEPER),))).applied
        for number, (path, data) in enumerate(sorted(odd.tree.security.items())):
            if path.endswith("/state"):
                again = Multi(tuple(SetData(path, data) for _ in range(number % 4)))
                assert not again.operations or session.apply(again).applied
    return connect


def stock_copies(laboratory: Laboratory, connect: str, odd: OddTree) -> dict[str, Any]:
    (spec,) = quorum_specs(laboratory, count=1, zookeeper_connect=connect, extra=HEEDING_ACLS)
    quorum = StockQuorum([StockController(laboratory, spec, CLUSTER_ID)])
    with stand_in_brokers(odd.tree, connect, CLUSTER_ID, spec.port):
        quorum.start()
        quorum.wait_dual_write()
        found = copied_records(laboratory, quorum.controllers[0].metadata_log)
        quorum.stop()
    quorum.controllers[0].directory.rename(laboratory.directory / "stock")
    return found


def zookeeper_says(connect: str, path: str) -> Any:
    with ZkSession(connect) as session:
        znode = session.get(path)
    return None if znode is None else json.loads(znode.data or b"null")


def wait_at_rest(connect: str, topic: str, replicas: list[int]) -> None:
    """ZooKeeper follows the log a moment later."""
    wanted = {"partitions": {"0": replicas}, "adding_replicas": {}, "removing_replicas": {}}

    def why_not() -> str | None:
        found = zookeeper_says(connect, f"/brokers/topics/{topic}")
        return None if {key: found[key] for key in wanted} == wanted else f"{found}"

    wait_for(why_not, f"{topic} is at {replicas}")


@pytest.mark.parametrize("seed", [1, 2])
def test_an_odd_tree_is_copied_as_stock_copies_it(seed: int, laboratory: Laboratory, tmp_path: Path) -> None:
    odd = odd_tree(seed)
    zookeeper = ZooKeeper(laboratory)
    zookeeper.start()
    theirs = stock_copies(laboratory, planted(zookeeper, "/stock", odd), odd)

    connect = planted(zookeeper, "/ours", odd)
    extra = {**HEEDING_ACLS, "zk2kraft.waive": ",".join(odd.waived)}
    (spec,) = quorum_specs(laboratory, count=1, zookeeper_connect=connect, extra=extra)
    ours = OurController(laboratory, spec, CLUSTER_ID)
    with stand_in_brokers(odd.tree, connect, CLUSTER_ID, spec.port):
        ours.start()
        ours.wait_dual_write()
        mine = copied_records(laboratory, ours.metadata_log)
        theirs["producer ids"]["data"]["nextProducerId"] += producer_id_margin(len(BROKERS))
        assert list(differences(mine, theirs)) == []
        kinds = {key.split(" ")[0] for key in mine}
        assert kinds == {"topic", "partition", "config", "quota", "credential", "ACL", "token", "producer", "migration"}

        # Moves that nobody had begun, or that had arrived, are on their way or done; the order is taken.
        def why_not() -> str | None:
            return None if zookeeper_says(connect, "/admin/reassign_partitions") is None else "it is still there"

        wait_for(why_not, "the order is taken")
        wait_at_rest(connect, "has-arrived", [4, 2])
        wait_at_rest(connect, odd.ordered, [2, 1])
        assert zookeeper_says(connect, "/brokers/topics/moves")["adding_replicas"] == {"0": [4], "1": [4, 3]}
        ours.stop()
