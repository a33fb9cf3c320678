"""Reading a tree: what is odd stays odd, also when nothing moved since the reading before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import pytest

from migrator.driver.claim import Claim, plan_displace, plan_persist, plan_raise
from migrator.driver.mirror import Shape, plan
from migrator.driver.tree import Tree
from migrator.model.diff import diff
from migrator.model.image import EMPTY, Position
from migrator.node.zookeeper.claims import read_claim
from migrator.node.zookeeper.presence import Shown
from migrator.node.zookeeper.tree_reader import descendants, descendants_of, moved_since, read_guards, read_tree
from migrator.zk import paths
from migrator.zk.bulk_read import Znode
from migrator.zk.multi import Create, Delete, Multi, SetData
from migrator.zk.pipeline import UNLIMITED, ReadLimits
from migrator.zk.znodes import MigrationZnode, migration_data
from tests.support.builders import a_claim, a_topic, an_image
from tests.support.fake_zookeeper import FakeEnsemble, FakeSession


def a_tree(*topics: str, config: bytes | None = None) -> tuple[FakeEnsemble, FakeSession]:
    ensemble = FakeEnsemble()
    for path in (paths.TOPICS, paths.BROKER_IDS, paths.TOPIC_CONFIGS, paths.BROKER_CONFIGS, paths.PRODUCER_IDS):
        ensemble.create(path)
    ensemble.create(paths.CONTROLLER_EPOCH, b"1")
    ensemble.create(paths.MIGRATION, migration_data(MigrationZnode()))
    image = an_image(*(a_topic(name, 3) for name in topics))
    for multi in plan(diff(EMPTY, image), a_claim(), Position(1, 1), Shape()).multis:
        for operation in multi.operations[2:]:
            assert isinstance(operation, Create)
            ensemble.create(operation.path, operation.data)
    return ensemble, ensemble.session()


@pytest.mark.parametrize(
    ("path", "data", "code"),
    [
        (paths.state("orders", 1), None, "Z2K-1003"),
        (paths.state("orders", 1), b"{", "Z2K-1001"),
        (paths.topic_config("orders"), b"no json", "Z2K-1001"),
        (paths.topic("orders"), b'{"partitions":{"0":[1]}}', "Z2K-1002"),
    ],
)
def test_an_oddity_is_named_by_every_reading_until_it_is_gone(path: str, data: bytes | None, code: str) -> None:
    ensemble, session = a_tree("orders", "payments")
    good = dict(ensemble.nodes)
    if data is None:
        del ensemble.nodes[path]
    else:
        ensemble.create(path, data)
    first = read_tree(session)
    second = read_tree(session, before=first)
    third = read_tree(session, before=second)
    for tree in (first, second, third):
        assert [(each.code, path in each.text) for each in tree.problems] == [(code, True)]
    ensemble.nodes = good
    assert read_tree(session, before=third).problems == []


def test_a_topic_that_did_not_move_is_not_parsed_again() -> None:
    _, session = a_tree("orders")
    first = read_tree(session)
    assert read_tree(session, before=first).topics["orders"] is first.topics["orders"]


def test_a_topic_of_which_one_state_moved_is_read_again() -> None:
    ensemble, session = a_tree("orders")
    first = read_tree(session)
    path = paths.state("orders", 2)
    data = b'{"leader":2,"leader_epoch":7,"isr":[2],"controller_epoch":4,"version":1}'
    node = ensemble.nodes[path]
    node.data, node.version, node.mzxid = data, 9, 999
    again = read_tree(session, before=first).topics["orders"]
    assert again.topic.partitions[2].leader_epoch == 7
    assert again.topic.partitions[2].partition_epoch == 9
    assert again.controller_epoch_max == 9  # the claim's own epoch in the other states


class Noting(FakeSession):
    """Notes which znodes are read."""

    def get_many(self, paths: Iterable[str], limits: ReadLimits = UNLIMITED) -> Iterator[Znode | None]:
        wanted = list(paths)
        read.update(wanted)
        return super().get_many(wanted, limits)


read: set[str] = set()


def states_read_again(ensemble: FakeEnsemble, before: Tree, claimed_by: int | None = 9) -> bool:
    """Whether the next reading looks at a partition's state; what it says of topics is that of `before` if not."""
    read.clear()
    again = read_tree(Noting(ensemble, 77), before=before, claimed_by=claimed_by)
    assert set(again.topics) == set(before.topics)
    assert again.config_paths == before.config_paths
    assert again.znodes == before.znodes
    return paths.state("orders", 1) in read


def claim(ensemble: FakeEnsemble, session: FakeSession) -> Claim:
    """As the driver does it: displaced, then raised."""
    multi, displaced = plan_displace(read_claim(session), node=9, kraft_epoch=3, now_ms=1)
    assert ensemble.apply(multi, session.session_id).applied
    multi, held = plan_raise(displaced)
    assert ensemble.apply(multi, session.session_id).applied
    return held


def a_tree_with_a_controller() -> tuple[FakeEnsemble, FakeSession]:
    ensemble, session = a_tree("orders", config=b"{}")
    ensemble.create(paths.CLUSTER_ID, b'{"version":"1","id":"AAAAAAAAQAqAAAAAAAAAAA"}')
    ensemble.create(paths.CONTROLLER, b'{"version":1,"brokerid":1,"timestamp":"1"}')
    ensemble.create(paths.topic_config("orders"), b'{"version":1,"config":{"retention.ms":"5"}}')
    ensemble.create(paths.broker_config("1"), b'{"version":1,"config":{"a":"b"}}')
    return ensemble, session


def test_after_a_claim_topics_are_not_read_again_where_zookeeper_counted_no_other_transaction() -> None:
    ensemble, session = a_tree_with_a_controller()
    before = read_tree(session)
    held = claim(ensemble, session)
    assert not states_read_again(ensemble, before)
    assert states_read_again(ensemble, before, claimed_by=None)
    copied = read_tree(session, before=before, claimed_by=9)
    multi, _ = plan_persist(held, Position(3, 50), 1)
    assert ensemble.apply(multi, session.session_id).applied
    assert not states_read_again(ensemble, copied)
    Shown(session, 9).show(3)
    assert not states_read_again(ensemble, copied)
    assert states_read_again(ensemble, before), "the number of the displacement stands nowhere any more"


@pytest.mark.parametrize("when", ["before the claim", "after the claim"])
@pytest.mark.parametrize(
    "what",
    [
        lambda ensemble: ensemble.create("/somebody/elses"),
        lambda ensemble: ensemble.apply(Multi((SetData(paths.state("orders", 1), b"{}", -1),)), 5),
        lambda ensemble: ensemble.apply(Multi((Delete("/no/such/znode", 7),)), 5),
        lambda ensemble: ensemble.expire(4),
    ],
    ids=["another tree", "a state", "a write that is refused", "a session that ends"],
)
def test_one_transaction_that_is_not_the_claims_has_every_topic_read_again(
    what: Callable[[FakeEnsemble], object], when: str
) -> None:
    ensemble, session = a_tree_with_a_controller()
    before = read_tree(session)
    if when == "before the claim":
        what(ensemble)
    claim(ensemble, session)
    if when == "after the claim":
        what(ensemble)
    assert states_read_again(ensemble, before)


def test_a_tree_during_whose_reading_something_was_written_is_not_relied_on() -> None:
    ensemble, session = a_tree_with_a_controller()

    class Busy(FakeSession):
        def children(self, path: str, watch: Callable[[], None] | None = None) -> list[str] | None:
            if path == paths.TOKENS:
                ensemble.create("/somebody/elses")
            return super().children(path, watch)

    before = read_tree(Busy(ensemble, 78))
    assert before.zxid is None
    claim(ensemble, session)
    assert states_read_again(ensemble, before)


def test_a_tree_with_an_oddity_is_read_again_whatever_zookeeper_counted() -> None:
    ensemble, session = a_tree_with_a_controller()
    ensemble.create(paths.state("orders", 2), b"{")
    before = read_tree(session)
    claim(ensemble, session)
    assert states_read_again(ensemble, before)


def test_nothing_that_the_claim_does_not_fence_may_move_unseen() -> None:
    ensemble, session = a_tree("orders")
    tree = read_tree(session)
    assert moved_since(session, tree) == []
    ensemble.create(paths.topic("new"), b"{}")
    ensemble.create(paths.broker_config("1"), b'{"version":1,"config":{"a":"b"}}')
    ensemble.create("/kafka-acl/Topic/x", b'{"version":1,"acls":[]}')
    ensemble.create("/config/users/alice/clients/app", b'{"version":1,"config":{}}')
    ensemble.create("/delegation_token/tokens/t", b"")
    ensemble.create(paths.topic_config("orders"), b'{"version":1,"config":{"x":"y"}}')
    ensemble.nodes[paths.PRODUCER_IDS].version += 1
    moved = moved_since(session, tree)
    assert paths.topic("new") in moved
    assert paths.topic_config("orders") in moved
    assert paths.BROKER_CONFIGS in moved
    assert paths.PRODUCER_IDS in moved
    assert {"/kafka-acl/Topic/x", "/config/users/alice/clients/app", "/delegation_token/tokens/t"} <= set(moved)
    del ensemble.nodes[paths.topic("new")]
    again = read_tree(session)
    ensemble.nodes["/kafka-acl/Topic/x"].mzxid += 1
    del ensemble.nodes["/delegation_token/tokens/t"]
    assert moved_since(session, again) == ["/delegation_token/tokens/t", "/kafka-acl/Topic/x"]


@pytest.mark.parametrize(
    "place",
    [paths.topic("payments"), paths.topic_config("payments"), paths.state("payments", 2), paths.broker_config("1")],
)
def test_an_access_list_that_was_set_on_one_path_is_found_before_the_takeover_also_when_nothing_else_moved(
    place: str,
) -> None:
    """Setting a list does not count as a change of the znode (its mzxid stays)."""
    ensemble, session = a_tree("orders", "payments")
    ensemble.create(paths.broker_config("1"), b'{"version":1,"config":{"a":"b"}}')
    tree = read_tree(session)
    read_guards(session, tree)
    assert tree.guarded == {}
    ensemble.nodes[place].acl_changes = 1
    ensemble.guards[place] = "digest:somebody may ALL"
    again = read_tree(session, before=tree)
    read_guards(session, again)
    assert again.guarded == {place: "digest:somebody may ALL"}


def test_everything_below_a_path_is_found_parents_first() -> None:
    _, session = a_tree("orders")
    found = descendants(session, paths.partitions("orders"))
    assert found[0] == paths.partition("orders", 0)
    assert found.index(paths.partition("orders", 2)) < found.index(paths.state("orders", 2))
    assert len(found) == 6


def test_what_lies_below_many_topics_is_read_level_by_level() -> None:
    _, session = a_tree("orders", "payments", "refunds")
    asked: list[int] = []
    children_many = session.children_many

    def counted(places: list[str]) -> Iterator[list[str] | None]:
        asked.append(len(places))
        return children_many(places)

    session.children_many = counted  # type: ignore[method-assign, assignment]
    tops = [paths.topic(name) for name in ("orders", "payments", "refunds", "nobody")]
    found = descendants_of(session, tops)
    assert asked == [4, 3, 9, 9]
    assert found == {top: descendants(session, top) for top in tops}
    assert found[paths.topic("nobody")] == []
    assert found[paths.topic("orders")][0] == paths.partitions("orders")
