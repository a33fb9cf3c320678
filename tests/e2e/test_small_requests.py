"""A real ZooKeeper whose `jute.maxbuffer` is far below the default: what is written and read in bulk has to fit."""

from __future__ import annotations

import pytest

from migrator.driver.claim import plan_claim
from migrator.driver.mirror import Shape, plan
from migrator.driver.places import plan_places
from migrator.driver.tree import as_image
from migrator.driver.way_back import Left, last_steps
from migrator.findings.finding import FindingError, Occurrence
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.zookeeper import ZooKeeper
from migrator.model.diff import diff
from migrator.model.image import EMPTY, Position
from migrator.node.tools.preflight import check
from migrator.node.zookeeper.claims import read_claim
from migrator.node.zookeeper.request_limits import ServerLimit, ask_servers
from migrator.node.zookeeper.tree_reader import missing_places, read_tree
from migrator.node.zookeeper.zookeeper_orders import read_orders
from migrator.zk import paths
from migrator.zk.multi import JUTE_MAXBUFFER, Create, Multi
from migrator.zk.pipeline import UNLIMITED
from migrator.zk.session import ZkSession
from tests.e2e.support import wait_for
from tests.support.builders import a_topic, an_image

pytestmark = pytest.mark.lab

LIMIT = 200_000
LONG = ["n" * 200 + f"{number:04}" for number in range(900)]
"""Names of orders: a multi of so many is within any count, and does not pass."""


def of_small_requests(laboratory: Laboratory, *small: int, servers: int = 1) -> ZooKeeper:
    """small: which servers are set to `LIMIT`."""
    zookeeper = ZooKeeper(laboratory, servers=servers)
    for at in small:
        server = zookeeper.servers[at]
        server.options = (*server.options, f"-Djute.maxbuffer={LIMIT}")
    zookeeper.start()
    return zookeeper


def test_a_whole_cluster_is_written_to_a_zookeeper_that_takes_small_requests_only(laboratory: Laboratory) -> None:
    zookeeper = of_small_requests(laboratory, 0)
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
        wait_answered(session)

        small = plan(diff(EMPTY, image), claim, Position(5, 1_000), Shape(jute_maxbuffer=LIMIT))
        assert not small.unmirrored
        pending = [session.send(each) for each in small.multis]
        assert all(each.outcome().applied for each in pending)
        assert diff(as_image(read_tree(session), image), image).is_empty

        for name in LONG:
            session.ensure_path(f"{paths.DELETE_TOPICS}/{name}")
        orders = read_orders(session)
        with pytest.raises(FindingError, match="Z2K-2002"):
            session.apply(Multi(tuple(orders.deletions)))
        wait_answered(session)
        seen = read_claim(session)
        left = Left(0.0, claim.node, claim.kraft_epoch, claim.zk_epoch, -1)
        assert all(session.apply(each).applied for each in last_steps(seen, left, orders, LIMIT))
        assert session.children(paths.DELETE_TOPICS) == []
        assert session.get(paths.CONTROLLER) is None


def test_each_server_is_asked_what_it_takes_and_no_session_notices(laboratory: Laboratory) -> None:
    zookeeper = of_small_requests(laboratory, 1, servers=3)
    first, small, third = zookeeper.hosts.split(",")
    changes: list[str] = []
    with ZkSession(small, on_change=changes.append) as session:
        session_id = session.session_id
        assert session.apply(Multi((Create("/ours", b"", ephemeral=True),))).applied
        zxid = session.last_zxid()
        wait_limits(f"{zookeeper.hosts}/kafka", LIMIT, *(ServerLimit(each, LIMIT) for each in (first, small, third)))
        wait_limits(
            zookeeper.hosts,
            JUTE_MAXBUFFER,
            ServerLimit(first, JUTE_MAXBUFFER),
            ServerLimit(small, LIMIT),
            ServerLimit(third, JUTE_MAXBUFFER),
        )
        less: list[Occurrence] = []

        def why_not() -> str | None:
            _, found = check(session, (), UNLIMITED, ask=lambda _, wanted: ask_servers(zookeeper.hosts, wanted))
            less[:] = [each for each in found if each.code == "Z2K-1115"]
            return None if len(less) == 1 and small in less[0].text else f"{[each.text for each in found]}"

        wait_for(why_not, "the one server is named")
        assert str(LIMIT) in less[0].text
        session.sync()
        assert session.last_zxid() == zxid, "a question is no transaction"
        assert (session.session_id, changes) == (session_id, ["connected"])
        assert session.get("/ours") is not None


def wait_limits(hosts: str, wanted: int, *limits: ServerLimit) -> None:
    """A server that stands still for more than 2 s is one that does not answer."""
    wait_for(
        lambda: None if (found := ask_servers(hosts, wanted)) == limits else f"{found}",
        f"{hosts} are asked for {wanted}",
    )


def wait_answered(session: ZkSession) -> None:
    """After a request that broke the connection: on the next one."""

    def why_not() -> str | None:
        try:
            session.sync()
        except FindingError as error:
            return str(error)
        return None

    wait_for(why_not, "the session is back")
