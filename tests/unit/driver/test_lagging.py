"""State znodes whose versions are far behind their partition epochs: written once, raised later, never forgotten."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given, settings

from migrator.driver.claim import Claim
from migrator.driver.lagging import NOTHING_LAGS, RAISES_MAX, Lagging, plan_raises
from migrator.driver.mirror import MirrorPlan, Shape, plan
from migrator.driver.tree import as_image
from migrator.model.diff import diff
from migrator.model.draft import Delta
from migrator.model.image import EMPTY, Image, Position
from migrator.model.values import Topic
from migrator.node.zookeeper.tree_reader import read_tree
from migrator.zk import paths
from migrator.zk.multi import Delete, Multi, SetData
from tests.support.arbitrary_images import images
from tests.support.builders import a_partition, a_topic, an_id, an_image
from tests.support.fake_zookeeper import FakeEnsemble, FakeSession
from tests.unit.driver.test_mirror import AT, a_cluster, assert_mirrored

EPOCH = 300
PARTITIONS = 1_000


def a_worn_topic(partitions: int = PARTITIONS, epoch: int = EPOCH, isr: Sequence[int] = (1, 2, 3)) -> Topic:
    """Each of its partitions changed hundreds of times."""
    return a_topic("orders", [a_partition(each, isr=isr, partition_epoch=epoch) for each in range(partitions)])


def operations(multis: tuple[Multi, ...]) -> int:
    return sum(len(multi.operations) - 2 for multi in multis)


def applied(session: FakeSession, planned: MirrorPlan) -> tuple[Claim, Shape]:
    for multi in planned.multis:
        outcome = session.apply(multi)
        assert outcome.applied, (outcome, multi.describe()[outcome.failed_at])
    return planned.claim, Shape(planned.configs, lagging=planned.lagging)


def changed(session: FakeSession, claim: Claim, delta: Delta, shape: Shape) -> tuple[Claim, Shape]:
    return applied(session, plan(delta, claim, AT, shape))


def versions(ensemble: FakeEnsemble, partitions: int = PARTITIONS) -> list[int]:
    return [ensemble.nodes[paths.state("orders", each)].version for each in range(partitions)]


def raised(session: FakeSession, claim: Claim, lagging: Lagging, image: Image) -> tuple[Claim, int]:
    """Until nothing lags; how many rounds that took."""
    rounds = 0
    while lagging:
        found = plan_raises(lagging, image, claim)
        assert 0 < found.operations <= RAISES_MAX
        assert operations(found.multis) == found.operations == lagging.operations - found.lagging.operations
        for multi in found.multis:
            outcome = session.apply(multi)
            assert outcome.applied, (outcome, multi.describe()[outcome.failed_at])
        claim, lagging, rounds = found.claim, found.lagging, rounds + 1
    assert lagging == NOTHING_LAGS
    return claim, rounds


def written_anew(epoch: int = EPOCH, partitions: int = PARTITIONS) -> tuple[FakeEnsemble, FakeSession, Claim, Image]:
    """The log has a topic with high partition epochs, ZooKeeper has new state znodes of it with the right data."""
    ensemble, session, claim = a_cluster()
    image = an_image(a_worn_topic(partitions, epoch))
    claim, _ = changed(session, claim, diff(EMPTY, an_image(a_worn_topic(partitions, 0))), Shape())
    return ensemble, session, claim, image


def reading(session: FakeSession, image: Image) -> Image:
    return as_image(read_tree(session), image)


def there(session: FakeSession) -> Shape:
    return Shape(frozenset(read_tree(session).config_paths))


def test_a_new_topic_with_high_partition_epochs_costs_a_bounded_number_of_operations() -> None:
    ensemble, session, claim = a_cluster()
    image = an_image(a_worn_topic())
    planned = plan(diff(EMPTY, image), claim, AT, Shape())
    assert planned.writes <= 2 * PARTITIONS + 5 + RAISES_MAX
    assert planned.lagging.operations == PARTITIONS * EPOCH - RAISES_MAX
    claim, shape = applied(session, planned)
    left = [shape.lagging.left(an_id("orders"), each) for each in range(PARTITIONS)]
    assert [EPOCH - each for each in left] == versions(ensemble)
    assert sum(1 for each in left if each) == planned.lagging.partitions


def test_small_differences_are_written_at_once_and_nothing_lags() -> None:
    ensemble, session, claim = a_cluster()
    image = an_image(a_worn_topic(10, 7))
    _, shape = changed(session, claim, diff(EMPTY, image), Shape())
    assert shape.lagging == NOTHING_LAGS
    assert versions(ensemble, 10) == [7] * 10


def test_versions_are_raised_in_bounded_rounds_until_they_are_the_partition_epochs() -> None:
    _ensemble, session, claim = a_cluster()
    image = an_image(a_worn_topic(100))
    claim, shape = changed(session, claim, diff(EMPTY, image), Shape())
    at = claim.at
    claim, rounds = raised(session, claim, shape.lagging, image)
    assert rounds == (100 * EPOCH) // RAISES_MAX - 1
    assert claim.at == at
    assert_mirrored(session, image)


def test_a_reconcile_does_not_write_right_states_again_only_because_their_versions_lag() -> None:
    """The next leader learns from ZooKeeper what lags."""
    ensemble, session, claim, image = written_anew()
    planned = plan(diff(reading(session, image), image), claim, AT, there(session))
    assert planned.writes == RAISES_MAX
    assert planned.lagging.operations == PARTITIONS * EPOCH - RAISES_MAX
    _, shape = applied(session, planned)
    again = plan(diff(reading(session, image), image), planned.claim, AT, there(session))
    assert again.lagging.operations == shape.lagging.operations - RAISES_MAX
    assert sum(versions(ensemble)) == RAISES_MAX


def test_a_reconcile_writes_each_wrong_state_once_and_the_budget_is_for_versions_only() -> None:
    _ensemble, session, claim, _ = written_anew()
    image = an_image(a_worn_topic(isr=(1, 2)))
    planned = plan(diff(reading(session, image), image), claim, AT, there(session))
    assert planned.writes == PARTITIONS + RAISES_MAX
    applied(session, planned)
    assert {each.isr for each in reading(session, image).topics[an_id("orders")].partitions} == {(1, 2)}


def test_a_lagging_partition_goes_on_changing_and_each_change_is_one_write() -> None:
    _ensemble, session, claim, image = written_anew()
    claim, shape = changed(session, claim, diff(reading(session, image), image), there(session))
    before = shape.lagging
    shrunk = an_image(a_worn_topic(epoch=EPOCH + 1, isr=(1, 2)))
    planned = plan(diff(image, shrunk), claim, AT, shape)
    assert planned.writes == PARTITIONS
    assert planned.lagging == before
    claim, shape = applied(session, planned)
    whole = an_image(a_worn_topic(epoch=EPOCH + 3))
    claim, shape = changed(session, claim, diff(shrunk, whole), shape)
    assert shape.lagging.operations == before.operations
    raised(session, claim, shape.lagging, whole)
    assert_mirrored(session, whole)


def test_raising_and_changes_take_turns() -> None:
    _ensemble, session, claim, image = written_anew(partitions=30)
    claim, shape = changed(session, claim, diff(reading(session, image), image), there(session))
    lagging = shape.lagging
    for epoch in range(EPOCH + 1, EPOCH + 4):
        found = plan_raises(lagging, image, claim)
        assert all(session.apply(multi).applied for multi in found.multis)
        following = an_image(a_worn_topic(30, epoch, isr=(1, 2) if epoch % 2 else (1, 2, 3)))
        delta = diff(image, following)
        claim, shape = changed(session, found.claim, delta, Shape(shape.configs, lagging=found.lagging))
        image, lagging = following, shape.lagging
    assert lagging
    raised(session, claim, lagging, image)
    assert_mirrored(session, image)


def test_a_lagging_topic_that_is_deleted_and_made_again_does_not_lag() -> None:
    _ensemble, session, claim, image = written_anew()
    claim, shape = changed(session, claim, diff(reading(session, image), image), there(session))
    assert shape.lagging.partitions
    gone = an_image()
    claim, shape = changed(session, claim, diff(image, gone), shape)
    assert shape.lagging == NOTHING_LAGS
    again = an_image(a_topic("orders", 3, an_id("orders, the second")))
    claim, shape = changed(session, claim, diff(gone, again), shape)
    assert shape.lagging == NOTHING_LAGS
    assert_mirrored(session, again)


def test_a_lagging_topic_replaced_in_one_commit_does_not_lag() -> None:
    _ensemble, session, claim, image = written_anew()
    claim, shape = changed(session, claim, diff(reading(session, image), image), there(session))
    again = an_image(a_topic("orders", 3, an_id("orders, the second")))
    claim, shape = changed(session, claim, diff(image, again), shape)
    assert shape.lagging == NOTHING_LAGS
    assert_mirrored(session, again)


def test_a_znode_ahead_of_its_partition_epoch_is_made_again_for_two_operations_and_lags() -> None:
    ensemble, session, claim, _ = written_anew(partitions=50)
    for each in range(50):
        for _ in range(EPOCH + 5):
            ensemble.apply(Multi((SetData(paths.state("orders", each), b"{}"),)), 0)
    image = an_image(a_worn_topic(50))
    state = b'{"leader":9,"leader_epoch":9,"isr":[9],"controller_epoch":9,"version":1}'
    for each in range(50):
        ensemble.apply(Multi((SetData(paths.state("orders", each), state),)), 0)
    planned = plan(diff(reading(session, image), image), claim, AT, there(session))
    assert planned.writes == 2 * 50 + RAISES_MAX
    deletions = [each for multi in planned.multis for each in multi.operations if isinstance(each, Delete)]
    assert {each.version for each in deletions} == {EPOCH + 6}
    claim, shape = applied(session, planned)
    raised(session, claim, shape.lagging, image)
    assert_mirrored(session, image)


def test_what_cannot_be_planned_leaves_the_account_as_it_was() -> None:
    _, session, claim, image = written_anew(partitions=20)
    claim, shape = changed(session, claim, diff(reading(session, image), image), there(session))
    held = Shape(shape.configs, unmirrored=frozenset({an_id("orders")}), lagging=shape.lagging)
    planned = plan(diff(image, an_image(a_worn_topic(20, EPOCH + 1))), claim, AT, held)
    assert planned.unmirrored
    assert planned.lagging == shape.lagging
    waits = plan_raises(shape.lagging, image, claim, held.unmirrored)
    assert (waits.multis, waits.lagging, waits.claim) == ((), shape.lagging, claim)


def test_a_raise_by_a_controller_that_was_replaced_is_refused() -> None:
    ensemble, session, claim, image = written_anew(partitions=20)
    claim, shape = changed(session, claim, diff(reading(session, image), image), there(session))
    ensemble.apply(Multi((SetData(paths.CONTROLLER_EPOCH, b"99"),)), 0)
    before = versions(ensemble, 20)
    assert not any(session.apply(multi).applied for multi in plan_raises(shape.lagging, image, claim).multis)
    assert versions(ensemble, 20) == before


@settings(max_examples=60)
@given(before=images(), after=images())
def test_whatever_changes_the_account_says_how_far_each_version_is(before: Image, after: Image) -> None:
    _, session, claim = a_cluster()
    claim, shape = changed(session, claim, diff(EMPTY, before), Shape())
    claim, shape = changed(session, claim, diff(before, after), shape)
    found = as_image(read_tree(session), after)
    for topic_id, topic in after.topics.items():
        there = found.topics[topic_id]
        for left, right in zip(there.partitions, topic.partitions, strict=True):
            assert right.partition_epoch - left.partition_epoch == shape.lagging.left(topic_id, right.id)
    raised(session, claim, shape.lagging, after)


def test_the_position_of_the_mirror_is_not_moved_by_raising() -> None:
    _, session, claim, image = written_anew(partitions=20)
    planned = plan(diff(reading(session, image), image), claim, Position(7, 70), there(session))
    claim, shape = applied(session, planned)
    found = plan_raises(shape.lagging, image, claim)
    assert found.claim.at == Position(7, 70)
    assert found.claim.migration_version == claim.migration_version + len(found.multis)
