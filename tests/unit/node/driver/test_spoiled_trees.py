"""ZooKeeper spoiled after the takeover, then a fail-over: the log is the truth, and nobody is kept waiting.

The same on real processes: tests/e2e/test_spoiled_trees.py.
"""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.exceptions import NodeExistsError

from migrator.control_api.states import State
from migrator.driver.guard import Survey
from migrator.driver.machine import Happened
from migrator.driver.mirror import Shape, plan
from migrator.driver.tree import as_image
from migrator.findings.finding import FindingError
from migrator.model.diff import diff
from migrator.model.image import EMPTY
from migrator.model.values import (
    Acl,
    AclEntry,
    AclOperation,
    AclPattern,
    AclPermission,
    AclResource,
    AclResourceType,
    Mark,
    QuotaEntity,
    ScramCredential,
    ScramKey,
    ScramMechanism,
    Topic,
)
from migrator.node.driver import rollback
from migrator.node.zookeeper.tree_reader import read_tree
from migrator.zk import paths
from migrator.zk.multi import Multi, MultiOutcome
from migrator.zk.znodes import state_data, topic_data
from tests.adversarial.poison_znodes import Gardener
from tests.support.builders import a_partition, a_topic, an_id, an_image
from tests.support.driver_acts import done, reconcile_acts, rollback_acts, with_parts
from tests.support.fake_zookeeper import FakeEnsemble, FakeSession
from tests.unit.driver.test_mirror import AT, a_cluster
from tests.unit.node.driver.test_driver_acts import story
from tests.unit.node.driver.test_leaderships import a_voters_driver

ALICE = QuotaEntity((("user", "alice"),))
READERS = AclResource(AclResourceType.TOPIC, AclPattern.LITERAL, "orders")
IMAGE = an_image(
    a_topic("orders", 3),
    a_topic("payments", 1),
    topic_configs={"orders": {"retention.ms": "1000"}},
    broker_configs={"1": {"log.cleaner.threads": "2"}},
    quotas={ALICE: {"request_percentage": 50.0}},
    scram={ScramKey("alice", ScramMechanism.SHA_256): ScramCredential(b"salt", b"stored", b"server", 4096)},
    acls=[Acl(READERS, AclEntry("User:a", "*", AclOperation.READ, AclPermission.ALLOW))],
    next_producer_id=5_000,
)
BAD = b"\xff{not JSON"
CONFIG = b'{"version":1,"config":{"odd":"1"}}'
FOREIGN = b'{"version":3,"partitions":{"0":[1]},"topic_id":"AAAAAAAAQAqAAAAAAAAAAA"}'


def topic_with(name: str, topic: Topic) -> dict[str, bytes]:
    """Another topic with the znodes of this one."""
    found = {paths.topic(name): topic_data(topic), paths.partitions(name): b""}
    for each in topic.partitions:
        found |= {paths.partition(name, each.id): b"", paths.state(name, each.id): state_data(each, 9)}
    return found


ORDERS = paths.topic("orders")
MENDED: dict[str, dict[str, bytes | None]] = {
    "a topic without topic_id": {ORDERS: b'{"version":1,"partitions":{"0":[1,2,3],"1":[1,2,3],"2":[1,2,3]}}'},
    "a topic that is no JSON": {ORDERS: BAD},
    "a topic without data": {ORDERS: b""},
    "a topic of bytes and one without": {ORDERS: BAD, paths.topic("payments"): None},
    "odd partition ids": {ORDERS: FOREIGN.replace(b'"0"', b'"01"')},
    "a partition too many": {
        ORDERS: topic_data(a_topic("orders", 4)),
        paths.partition("orders", 3): b"",
    },
    "a partition too many, with a bad state": {
        ORDERS: topic_data(a_topic("orders", 4)),
        paths.partition("orders", 3): b"",
        paths.state("orders", 3): BAD,
    },
    "the id of another topic": {ORDERS: topic_data(a_topic("orders", 3, an_id("another")))},
    "a foreign topic that is no JSON": {paths.topic("foreign"): BAD, paths.topic_config("foreign"): CONFIG},
    "a foreign topic without id": {paths.topic("foreign"): b'{"version":1,"partitions":{"0":[1]}}'},
    "a foreign topic": {**topic_with("foreign", a_topic("foreign", 2)), f"{paths.topic('foreign')}/odd": b"x"},
    "a foreign topic without states": {paths.topic("foreign"): FOREIGN},
    "two topics with one id": {**topic_with("twin", a_topic("orders", 3))},
    "a topic under another name": {**topic_with("twin", a_topic("orders", 3)), ORDERS: None},
    "a topic under the name of another": {paths.topic("payments"): topic_data(a_topic("orders", 1)), ORDERS: None},
    "two topics with each other's ids": {
        paths.topic("payments"): topic_data(a_topic("orders", 1)),
        ORDERS: topic_data(a_topic("payments", 3)),
    },
    "two foreign topics with one id": {**topic_with("x", a_topic("z")), **topic_with("y", a_topic("z"))},
    "a state that is no JSON": {paths.state("orders", 1): BAD},
    "a state that is gone": {paths.state("orders", 1): None},
    "a state of large numbers": {
        paths.state("orders", 1): b'{"leader":9999999999,"leader_epoch":1,"isr":[],"controller_epoch":1}'
    },
    "a configuration that is no JSON": {paths.topic_config("orders"): BAD},
    "a configuration of a later version": {paths.topic_config("orders"): b'{"version":9,"config":{}}'},
    "an empty configuration spoiled": {paths.topic_config("payments"): BAD},
    "a configuration of no topic spoiled": {
        paths.topic_config("nobody"): BAD,
        f"{paths.topic_config('nobody')}/a": b"",
    },
    "a broker's configuration": {paths.broker_config("1"): BAD},
    "a broker's that the log does not have": {paths.broker_config("77"): BAD, paths.broker_config(""): BAD},
    "an empty one of a broker that is no number": {paths.broker_config("zero"): b'{"version":1,"config":{}}'},
    "one without data of a broker that is no number": {paths.broker_config("zero"): b""},
    "a bad one of a broker that is no number": {paths.broker_config("zero"): BAD},
    "a broker that is no number": {paths.broker_config("seven"): CONFIG},
    "a user with an unknown key": {"/config/users/alice": CONFIG},
    "a user that is no JSON": {"/config/users/alice": BAD},
    "a user's unknown key": {"/config/users/bob": CONFIG},
    "a user that Kafka writes in another way": {"/config/users/a b": CONFIG, "/config/users/a b/clients/c": CONFIG},
    "a client": {"/config/clients/c": b'{"version":1,"config":{"request_percentage":"Infinity"}}'},
    "an address": {"/config/ips/1.2.3.4": BAD},
    "ACLs": {"/kafka-acl/Topic/orders": BAD},
    "ACLs of nobody": {"/kafka-acl/Group/g": b'{"version":1,"acls":7}', "/kafka-acl-extended/prefixed/Topic/p": BAD},
    "ACLs of an odd kind": {"/kafka-acl/Odd/o": b'{"version":1,"acls":[]}'},
    "a token": {"/delegation_token/tokens/t": BAD},
    "producer ids": {paths.PRODUCER_IDS: BAD},
    "producer ids gone back": {paths.PRODUCER_IDS: b'{"version":1,"broker":1,"block_start":"0","block_end":"999"}'},
    "orders": {paths.REASSIGN_PARTITIONS: BAD, f"{paths.DELETE_TOPICS}/orders": b""},
    "znodes below a configuration that goes": {
        f"{paths.broker_config('5')}": CONFIG,
        f"{paths.broker_config('5')}/x/y": b"",
    },
}
LEFT: dict[str, dict[str, bytes | None]] = {
    "a broker's registration": {f"{paths.BROKER_IDS}/77": BAD},
    "a broker that is no number": {f"{paths.BROKER_IDS}/seven": b"{}"},
    "the features": {paths.FEATURE: BAD},
    "the cluster id": {paths.CLUSTER_ID: BAD},
}


async def nobody_to_heal() -> int:
    return 0


def a_successor(marks: dict[str, str] | None = None) -> tuple[Any, FakeEnsemble]:
    """A leader after a fail-over, in SYNCING, of a cluster that was mirrored."""
    ensemble, session, claim = a_cluster()
    image = IMAGE if marks is None else an_image(*IMAGE.topics.values(), marks=marks)
    ensemble.create(paths.PRODUCER_IDS)
    planned = plan(diff(EMPTY, image), claim, AT, Shape())
    assert not planned.unmirrored
    for multi in planned.multis:
        assert session.apply(multi).applied
    driver = a_voters_driver(State.SYNCING, session=session)
    driver.parts.controller.image = driver.parts.controller.newest = image
    driver.parts.controller.heal = nobody_to_heal  # type: ignore[method-assign]
    driver.now.claim = planned.claim
    sent: list[Any] = []
    channels: Any = SimpleNamespace(
        send=sent.extend, sent=sent, follow=lambda brokers: None, states=list, waiting=lambda: 0
    )
    driver.propagator.channels = channels
    driver.now.surveys = {broker: Survey(broker) for broker in image.brokers}
    return driver, ensemble


def spoiled(ensemble: FakeEnsemble, oddities: dict[str, bytes | None]) -> None:
    for path, data in oddities.items():
        if data is None:
            for each in [each for each in ensemble.nodes if each == path or each.startswith(f"{path}/")]:
                del ensemble.nodes[each]
        elif path in ensemble.nodes:
            ensemble.nodes[path].data = data
            ensemble.nodes[path].version += 1
        else:
            ensemble.create(path, data)


async def reconciled(driver: Any) -> Happened:
    """As the driver's loop does: what is found in the way is put right, and the next try goes on."""
    acts = reconcile_acts(driver)
    for _ in range(2):
        try:
            return await done(driver, acts.reconcile())
        except FindingError:
            continue
    return await done(driver, acts.reconcile())


@pytest.mark.parametrize("oddities", MENDED.values(), ids=MENDED.keys())
def test_after_a_fail_over_zookeeper_says_what_the_log_says(oddities: dict[str, bytes | None]) -> None:
    async def told() -> None:
        driver, ensemble = a_successor()
        spoiled(ensemble, oddities)
        assert await reconciled(driver) is Happened.RECONCILED
        tree = read_tree(driver.parts.session)
        assert tree.problems == []
        assert diff(as_image(tree, IMAGE), IMAGE).is_empty
        for name in ("foreign", "twin", "x", "y", "nobody", "zero", "seven"):
            assert not [each for each in ensemble.nodes if name in each.split("/")]
        for topic in IMAGE.topics.values():
            for each in topic.partitions:
                assert ensemble.nodes[paths.state(topic.name, each.id)].version == each.partition_epoch
        assert "Z2K-2107" not in driver.now.alarms
        assert driver.now.unmirrored == ()

    story(told)


@pytest.mark.parametrize("oddities", LEFT.values(), ids=LEFT.keys())
def test_what_is_not_mirrored_stays_with_an_alarm_and_bars_the_way_back(
    oddities: dict[str, bytes | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollback, "read_directory", lambda directory, records: ())

    async def told() -> None:
        driver, ensemble = a_successor()
        spoiled(ensemble, oddities)
        before = ensemble.tree()
        assert await reconciled(driver) is Happened.RECONCILED
        assert next(iter(oddities)) in driver.now.alarms["Z2K-2107"].text
        changed = {path for path, data in ensemble.tree().items() if before.get(path) != data}
        assert changed <= {paths.MIGRATION, paths.PRODUCER_IDS}

        async def quiet() -> None: ...

        acts = rollback_acts(driver)
        acts._quiet = quiet  # type: ignore[method-assign]
        acts._refuse_missing_places = lambda: None  # type: ignore[method-assign]
        driver.parts.config.metadata_log_dir = None
        assert await done(driver, acts.rollback()) is Happened.ROLLBACK_REFUSED
        assert next(iter(oddities)) in driver.now.finding.text

    story(told)


def test_every_oddity_at_once() -> None:
    async def told() -> None:
        driver, ensemble = a_successor()
        for oddities in (*MENDED.values(), *LEFT.values()):
            spoiled(ensemble, oddities)
        assert await reconciled(driver) is Happened.RECONCILED
        assert diff(as_image(read_tree(driver.parts.session), IMAGE), IMAGE).is_empty

    story(told)


@pytest.mark.parametrize(
    "name", ["a foreign topic", "a foreign topic that is no JSON", "two foreign topics with one id"]
)
def test_before_dual_write_was_ever_entered_no_topic_of_zookeeper_alone_is_removed(name: str) -> None:
    async def told() -> None:
        driver, ensemble = a_successor({Mark.TAKEOVER: "epoch 4"})
        spoiled(ensemble, MENDED[name])
        before = ensemble.tree()
        with pytest.raises(FindingError) as raised:
            await done(driver, reconcile_acts(driver).reconcile())
        assert raised.value.code == "Z2K-2013"
        assert driver.now.finding.code == "Z2K-2013"
        assert ensemble.tree() == before

    story(told)


class Unwritable(FakeSession):
    """Takes no write below `/brokers/topics`."""

    def apply(self, multi: Multi) -> MultiOutcome:
        for at, each in enumerate(multi.operations):
            if each.path.startswith(paths.TOPICS):
                return MultiOutcome(failed_at=at, error="no_auth")
        return super().apply(multi)


def test_brokers_are_told_though_zookeeper_cannot_be_brought_to_the_log() -> None:
    async def told() -> None:
        driver, ensemble = a_successor()
        session = driver.parts.session
        with_parts(driver, session=Unwritable(ensemble, session.session_id))
        sent = driver.propagator.channels.sent

        async def ask(broker: int) -> tuple[dict[int, Survey], dict[int, str]]:
            return {broker: Survey(broker)}, {}

        driver.propagator.full_sends._ask = ask
        spoiled(ensemble, {ORDERS: BAD})
        acts = reconcile_acts(driver)
        with pytest.raises(FindingError):
            await done(driver, acts.reconcile())
        assert driver.propagator.broker_updates is None, "ZooKeeper comes first"
        with pytest.raises(FindingError):
            await done(driver, acts.reconcile())
        while {order.broker for order in sent} != {1, 2, 3}:
            await driver.parts.events.changed(0.1)
        assert "Z2K-2108" in driver.now.alarms
        told_once = len(sent)
        with pytest.raises(FindingError):
            await done(driver, acts.reconcile())
        assert len(sent) == told_once
        acts.parts = with_parts(driver, session=session).parts
        assert await done(driver, acts.reconcile()) is Happened.RECONCILED
        assert "Z2K-2108" not in driver.now.alarms
        assert driver.propagator.not_updated() == [1, 2, 3], "their answers are still awaited"
        await driver.propagator.full_sends.stop()

    story(told)


def test_nobody_is_told_first_while_the_copy_is_ours_alone() -> None:
    async def told() -> None:
        driver, _ = a_successor()
        driver.now.fresh_copy = True
        acts = reconcile_acts(driver)
        await acts.updates.update_first(FindingError.__new__(FindingError))
        assert driver.propagator.broker_updates is None

    story(told)


def test_a_partition_of_a_moved_epoch_keeps_its_version() -> None:
    """Rewritten states are one write ahead; the difference brings them back to the partition epoch."""

    async def told() -> None:
        driver, ensemble = a_successor()
        moved = an_image(a_topic("orders", [a_partition(0, partition_epoch=2)]), brokers=(1, 2, 3))
        driver.parts.controller.image = driver.parts.controller.newest = moved
        spoiled(ensemble, {paths.state("orders", 0): BAD})
        assert await reconciled(driver) is Happened.RECONCILED
        assert ensemble.nodes[paths.state("orders", 0)].version == 2

    story(told)


# --- what the poison run plants ---------------------------------------------------------------------------


class Planted:
    """As much of a ZooKeeper client as the poison run's gardener needs."""

    def __init__(self, ensemble: FakeEnsemble) -> None:
        self._ensemble = ensemble

    def create(self, path: str, data: bytes, *, makepath: bool) -> None:
        if path in self._ensemble.nodes:
            raise NodeExistsError
        self._ensemble.create(path, data)

    def set(self, path: str, data: bytes) -> None:
        spoiled(self._ensemble, {path: data})

    def get(self, path: str) -> tuple[bytes, None]:
        return self._ensemble.nodes[path].data, None

    def delete(self, path: str, *, recursive: bool) -> None:
        spoiled(self._ensemble, {path: None})


def a_cluster_of_orders() -> FakeEnsemble:
    ensemble = FakeEnsemble()
    spoiled(ensemble, dict(topic_with("orders", a_topic("orders", 3))))
    return ensemble


def plants(ensemble: FakeEnsemble) -> dict[str, Callable[[], None]]:
    client: Any = Planted(ensemble)
    return {each.what: each.act for each in Gardener(client, "orders").plants()}


@pytest.mark.parametrize("what", plants(a_cluster_of_orders()))
def test_what_the_poison_run_plants_holds_up_no_fail_over(what: str) -> None:
    async def told() -> None:
        driver, ensemble = a_successor()
        plants(ensemble)[what]()
        assert await reconciled(driver) is Happened.RECONCILED
        assert diff(as_image(read_tree(driver.parts.session), IMAGE), IMAGE).is_empty
        assert "Z2K-2105" not in driver.now.alarms

    story(told)
