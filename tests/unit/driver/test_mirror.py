"""What dual-write leaves in ZooKeeper, seen by applying the planned multis to a ZooKeeper in memory."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
from hypothesis import given, settings

from migrator.driver.chained import BYTES_MAX
from migrator.driver.claim import Claim, plan_claim
from migrator.driver.mirror import (
    Shape,
    needs_zookeeper_first,
    plan,
    state_creation,
)
from migrator.driver.paths_set import PathsSet
from migrator.driver.tree import as_image, changed_since, clear_broker_configs, missing_states
from migrator.model.diff import diff
from migrator.model.draft import Delta
from migrator.model.image import EMPTY, Image, Position
from migrator.model.values import (
    Acl,
    AclEntry,
    AclPattern,
    AclResource,
    AclResourceType,
    ConfigKey,
    ConfigType,
    DelegationToken,
    QuotaEntity,
    ScramCredential,
    ScramKey,
    ScramMechanism,
)
from migrator.node.zookeeper.claims import read_claim
from migrator.node.zookeeper.tree_reader import descendants, read_tree
from migrator.zk import paths
from migrator.zk.acl_znodes import acl_data, token_data
from migrator.zk.entity_znodes import entity_data
from migrator.zk.multi import HEADROOM_BYTES, Check, Multi, SetData
from migrator.zk.znodes import config_data, parse_migration
from tests.support.arbitrary_images import images
from tests.support.builders import a_claim, a_partition, a_topic, an_id, an_image
from tests.support.fake_zookeeper import FakeEnsemble, FakeSession
from tests.support.passwords import CLEAR, an_encoder, encoded
from tests.support.passwords import KEY as KEY_PASSWORD

AT = Position(epoch=5, offset=2000)


def a_cluster() -> tuple[FakeEnsemble, FakeSession, Claim]:
    """An ensemble with Kafka's top-level paths, claimed by our node 3000."""
    ensemble = FakeEnsemble()
    for path in (
        paths.TOPICS, paths.BROKER_IDS, paths.CONFIG_CHANGES, paths.TOPIC_CONFIGS, paths.BROKER_CONFIGS,
        paths.DELETE_TOPICS, paths.PRODUCER_IDS, paths.USER_CONFIGS, paths.CLIENT_CONFIGS, paths.IP_CONFIGS,
    ):  # fmt: skip
        ensemble.create(path)
    ensemble.create(paths.CONTROLLER_EPOCH, b"1")
    session = ensemble.session()
    multi, claim = plan_claim(read_claim(session), node=3000, kraft_epoch=5, now_ms=0, ephemeral=False)
    assert session.apply(multi).applied
    return ensemble, session, claim


def mirror(session: FakeSession, claim: Claim, delta: Delta, shape: Shape) -> tuple[Claim, Shape]:
    planned = plan(delta, claim, AT, shape)
    for multi in planned.multis:
        outcome = session.apply(multi)
        assert outcome.applied, (outcome, multi.describe()[outcome.failed_at])
    return planned.claim, Shape(planned.configs, lagging=planned.lagging)


def what_zookeeper_says(session: FakeSession, base: Image) -> Image:
    return as_image(read_tree(session), base)


def assert_mirrored(session: FakeSession, image: Image) -> None:
    assert diff(what_zookeeper_says(session, image), image).is_empty


class NeverReadThrough(PathsSet):
    """As of a hundred thousand topics: whoever goes through all of it does so at every commit."""

    def __iter__(self) -> Iterator[str]:
        raise AssertionError("every path was looked at")


def test_a_commit_costs_what_it_changes_and_not_what_there_is() -> None:
    """26 ms for one ISR change at 100,000 topics."""
    before = an_image(a_topic("orders"), a_topic("payments"))
    shape = Shape(NeverReadThrough(map(paths.topic_config, ("orders", "payments"))))
    changed = an_image(a_topic("orders", [a_partition(isr=(1,), partition_epoch=1)]), a_topic("payments"))
    planned = plan(diff(before, changed), a_claim(), AT, shape)
    assert planned.writes == 1
    created = plan(diff(changed, an_image(*changed.topics.values(), a_topic("new"))), a_claim(), AT, shape)
    assert set(created.configs) == {paths.topic_config(name) for name in ("orders", "payments", "new")}
    deleted = plan(diff(changed, an_image(a_topic("payments"))), a_claim(), AT, Shape(created.configs))
    assert set(deleted.configs) == {paths.topic_config(name) for name in ("payments", "new")}
    assert paths.topic_config("orders") in created.configs


def test_a_new_topic_appears_with_its_configuration_in_one_multi() -> None:
    ensemble, session, claim = a_cluster()
    image = an_image(a_topic("orders", 3), topic_configs={"orders": {"retention.ms": "1000"}})
    planned = plan(diff(EMPTY, image), claim, AT, Shape())
    assert len(planned.multis) == 1
    mirror(session, claim, diff(EMPTY, image), Shape())
    assert_mirrored(session, image)
    assert ensemble.nodes[paths.topic_config("orders")].data == b'{"version":1,"config":{"retention.ms":"1000"}}'
    assert told(ensemble, paths.CONFIG_CHANGES) == [b'{"version":2,"entity_path":"topics/orders"}']


def test_nobody_is_notified_of_a_new_topic_without_configuration() -> None:
    ensemble, session, claim = a_cluster()
    mirror(session, claim, diff(EMPTY, an_image(a_topic("orders", 3))), Shape())
    assert told(ensemble, paths.CONFIG_CHANGES) == []


def test_the_version_of_a_state_znode_follows_the_partition_epoch() -> None:
    ensemble, session, claim = a_cluster()
    before = an_image(a_topic("orders", [a_partition(0)]))
    claim, shape = mirror(session, claim, diff(EMPTY, before), Shape())
    after = an_image(a_topic("orders", [a_partition(0, isr=(1, 2), leader_epoch=2, partition_epoch=3)]))
    mirror(session, claim, diff(before, after), shape)
    assert ensemble.nodes[paths.state("orders", 0)].version == 3
    assert_mirrored(session, after)


def test_a_state_znode_that_somebody_wrote_is_brought_back_to_its_partition_epoch() -> None:
    ensemble, session, claim = a_cluster()
    image = an_image(a_topic("orders", [a_partition(0, partition_epoch=2)]))
    claim, shape = mirror(session, claim, diff(EMPTY, image), Shape())
    for _ in range(4):
        ensemble.apply(Multi((SetData(paths.state("orders", 0), b'{"leader":9,"leader_epoch":9,"isr":[9],'
                                      b'"controller_epoch":9,"version":1}'),)), 0)  # fmt: skip
    found = what_zookeeper_says(session, image)
    mirror(session, claim, diff(found, image), shape)
    assert ensemble.nodes[paths.state("orders", 0)].version == 2
    assert_mirrored(session, image)


def test_a_topic_deleted_and_created_again_under_its_name_is_replaced() -> None:
    _, session, claim = a_cluster()
    before = an_image(a_topic("orders", 2), topic_configs={"orders": {"retention.ms": "1"}})
    claim, shape = mirror(session, claim, diff(EMPTY, before), Shape())
    after = an_image(a_topic("orders", 1, topic_id=an_id("orders, the second")))
    mirror(session, claim, diff(before, after), shape)
    assert_mirrored(session, after)


def test_znodes_that_no_assignment_names_do_not_stop_a_deletion() -> None:
    ensemble, session, claim = a_cluster()
    before = an_image(a_topic("orders", 1))
    claim, shape = mirror(session, claim, diff(EMPTY, before), Shape())
    ensemble.create("/brokers/topics/orders/partitions/7/state", b"old")
    below = {"orders": descendants(session, "/brokers/topics/orders")}
    mirror(session, claim, diff(before, an_image()), Shape(shape.configs, below))
    assert not [path for path in ensemble.nodes if "orders" in path]


def test_configuration_left_by_an_earlier_topic_is_taken_over() -> None:
    ensemble, session, claim = a_cluster()
    ensemble.create(paths.topic_config("orders"), b'{"version":1,"config":{"flush.ms":"7"}}')
    image = an_image(a_topic("orders", 1), topic_configs={"orders": {"retention.ms": "1"}})
    mirror(session, claim, diff(EMPTY, image), Shape(frozenset({paths.topic_config("orders")})))
    assert_mirrored(session, image)


def test_brokers_are_notified_of_a_changed_configuration_and_of_a_removed_one() -> None:
    ensemble, session, claim = a_cluster()
    before = an_image(broker_configs={"1": {"log.cleaner.threads": "2"}, "": {"x": "1"}})
    claim, shape = mirror(session, claim, diff(EMPTY, before), Shape())
    mirror(session, claim, diff(before, an_image()), shape)
    told = [node.data for path, node in sorted(ensemble.nodes.items()) if path.startswith(paths.CONFIG_CHANGE_PREFIX)]
    entities = sorted(msgspec.json.decode(data)["entity_path"] for data in told)
    assert entities == ["brokers/1", "brokers/1", "brokers/<default>", "brokers/<default>"]
    assert paths.broker_config("1") not in ensemble.nodes


def test_a_broker_configuration_set_again_is_written_again_so_that_brokers_reload_it() -> None:
    _, _, claim = a_cluster()
    image = an_image(broker_configs={"1": {"ssl.keystore.location": "/a"}})
    key = ConfigKey(ConfigType.BROKER, "1")
    again = Delta(before=image, after=image, configs=frozenset({key}))
    planned = plan(again, claim, AT, Shape(frozenset({paths.broker_config("1")})))
    assert planned.writes == 2


def test_producer_ids_go_on_exactly_where_the_log_stopped() -> None:
    _, session, claim = a_cluster()
    image = an_image(next_producer_id=7000)
    mirror(session, claim, diff(EMPTY, image), Shape())
    tree = read_tree(session)
    assert tree.next_producer_id() == 7000
    assert tree.producer_ids is not None
    assert tree.producer_ids.broker == claim.node, "an audit tells it from what stock mirrors"


def test_a_change_that_zookeeper_has_no_form_of_needs_no_multi() -> None:
    _, _, claim = a_cluster()
    image = an_image()
    planned = plan(Delta(before=image, after=image, brokers=frozenset({1})), claim, AT, Shape())
    assert planned.multis == ()
    assert planned.claim == claim


def test_every_multi_is_guarded_and_only_the_last_moves_the_migration_znode() -> None:
    _, session, claim = a_cluster()
    image = an_image(*(a_topic(f"topic-{number:03}", 40) for number in range(60)))
    planned = plan(diff(EMPTY, image), claim, AT, Shape())
    assert len(planned.multis) > 2
    for multi in planned.multis:
        assert multi.operations[0] == Check(paths.CONTROLLER_EPOCH, claim.epoch_version)
        assert multi.bytes <= BYTES_MAX * 1.1
    marks = [multi.operations[1] for multi in planned.multis]
    assert all(isinstance(each, SetData) and each.path == paths.MIGRATION for each in marks)
    says = [parse_migration(each.path, each.data) for each in marks if isinstance(each, SetData)]
    assert [each.kraft_metadata_offset for each in says if each] == [claim.at.offset] * (len(says) - 1) + [AT.offset]
    mirror(session, claim, diff(EMPTY, image), Shape())
    assert_mirrored(session, image)


def test_servers_that_take_less_get_smaller_multis() -> None:
    _, session, claim = a_cluster()
    image = an_image(*(a_topic(f"topic-{number:03}", 40) for number in range(60)), a_topic("wide", 1000))
    shape = Shape(jute_maxbuffer=200_000)
    planned = plan(diff(EMPTY, image), claim, AT, shape)
    assert not planned.unmirrored
    assert max(multi.bytes for multi in planned.multis) < 200_000 - HEADROOM_BYTES // 2
    assert len(planned.multis) > len(plan(diff(EMPTY, image), claim, AT, Shape()).multis)
    mirror(session, claim, diff(EMPTY, image), shape)
    assert_mirrored(session, image)


def test_a_znode_that_these_servers_do_not_take_is_named_and_all_the_rest_is_written() -> None:
    _, _, claim = a_cluster()
    image = an_image(a_topic("orders", 1), a_topic("wide", 9_000))
    planned = plan(diff(EMPTY, image), claim, AT, Shape(jute_maxbuffer=120_000))
    (left_out,) = planned.unmirrored
    assert ("wide" in left_out.key, "71425" in left_out.reason) == (True, True)
    assert any(each.path == paths.topic("orders") for multi in planned.multis for each in multi.operations)


def test_a_topic_too_large_for_one_request_is_cut() -> None:
    _, session, claim = a_cluster()
    image = an_image(a_topic("wide", 4000))
    planned = plan(diff(EMPTY, image), claim, AT, Shape())
    assert len(planned.multis) > 1
    mirror(session, claim, diff(EMPTY, image), Shape())
    assert_mirrored(session, image)


def test_brokers_wait_for_zookeeper_only_where_a_replica_comes_or_goes() -> None:
    before = an_image(a_topic("isr", 1), a_topic("gone", 1), a_topic("grows", 1))
    after = an_image(
        a_topic("isr", [a_partition(0, isr=(1, 2), partition_epoch=1)]),
        a_topic("grows", 2),
        a_topic("new", 1),
    )
    delta = diff(before, after)
    assert delta.topics == {an_id(name) for name in ("isr", "gone", "grows", "new")}
    assert needs_zookeeper_first(delta) == {an_id(name) for name in ("gone", "grows", "new")}


# --- quotas, credentials, ACLs, tokens --------------------------------------------------------------------

ALICE, HER_APP = QuotaEntity((("user", "alice"),)), QuotaEntity((("user", "alice"), ("client-id", "app")))
KEY, KEPT = ScramKey("alice", ScramMechanism.SHA_512), ScramCredential(b"s", b"k", b"v", 4096)
OTHER = ScramCredential(b"other", b"k", b"v", 4096)
READ = Acl(AclResource(AclResourceType.TOPIC, AclPattern.LITERAL, "orders"), AclEntry("User:alice", "*", 3, 3))
TOKEN = DelegationToken("t", "User:a", "User:a", (), 1, 3, 2)
RATE = {"producer_byte_rate": 1024.0}


def told(ensemble: FakeEnsemble, root: str) -> list[bytes]:
    """The notifications below `root`, in order."""
    return [data for path, data in ensemble.tree().items() if path.startswith(f"{root}/")]


def test_each_family_is_written_with_what_tells_brokers_of_it() -> None:
    image = an_image(quotas={HER_APP: RATE}, scram={KEY: KEPT}, acls=[READ], tokens=[TOKEN])
    ensemble, session, claim = a_cluster()
    mirror(session, claim, diff(an_image(), image), Shape())
    assert_mirrored(session, image)
    tree = ensemble.tree()
    assert tree["/config/users/alice/clients/app"] == b'{"version":1,"config":{"producer_byte_rate":"1024"}}'
    assert tree["/config/users/alice/clients"] == b""
    assert told(ensemble, paths.CONFIG_CHANGES) == [
        b'{"version":2,"entity_path":"users/alice/clients/app"}',
        b'{"version":2,"entity_path":"users/alice"}',
    ]
    assert told(ensemble, paths.ACL_CHANGES) == [b"TOPIC:orders"]
    assert told(ensemble, paths.TOKEN_CHANGES) == [b"t"]


def test_what_loses_its_last_value_loses_its_znode_and_those_above_that_hold_nothing_else() -> None:
    """K-10: stock meets a null pointer here, and the whole change is lost."""
    ensemble, session, claim = a_cluster()
    full = an_image(quotas={HER_APP: RATE, ALICE: RATE}, acls=[READ], tokens=[TOKEN])
    claim, shape = mirror(session, claim, diff(an_image(), full), Shape())
    her_app = an_image(quotas={HER_APP: RATE}, acls=[READ], tokens=[TOKEN])
    claim, shape = mirror(session, claim, diff(full, her_app), shape)
    assert ensemble.tree()["/config/users/alice"] == b'{"version":1,"config":{}}'  # her app's znode is below it
    claim, shape = mirror(session, claim, diff(her_app, an_image()), shape)
    assert [path for path in ensemble.nodes if path.startswith("/config/users/")] == []
    assert "/kafka-acl/Topic/orders" not in ensemble.nodes
    assert paths.token("t") not in ensemble.nodes
    assert told(ensemble, paths.CONFIG_CHANGES)[-2:] == [
        b'{"version":2,"entity_path":"users/alice"}',
        b'{"version":2,"entity_path":"users/alice/clients/app"}',
    ]
    assert told(ensemble, paths.ACL_CHANGES) == [b"TOPIC:orders"] * 2
    assert told(ensemble, paths.TOKEN_CHANGES) == [b"t"] * 2


def test_a_user_and_her_client_that_go_together_are_both_told() -> None:
    ensemble, session, claim = a_cluster()
    full = an_image(quotas={HER_APP: RATE}, scram={KEY: KEPT})
    claim, shape = mirror(session, claim, diff(an_image(), full), Shape())
    mirror(session, claim, diff(full, an_image()), shape)
    assert [path for path in ensemble.nodes if path.startswith("/config/users/")] == []
    assert told(ensemble, paths.CONFIG_CHANGES)[2:] == told(ensemble, paths.CONFIG_CHANGES)[:2]


def test_quotas_stay_when_a_credential_of_the_same_user_goes() -> None:
    ensemble, session, claim = a_cluster()
    before = an_image(quotas={ALICE: RATE}, scram={KEY: KEPT})
    claim, shape = mirror(session, claim, diff(an_image(), before), Shape())
    assert b"SCRAM-SHA-512" in ensemble.tree()["/config/users/alice"]
    mirror(session, claim, diff(before, an_image(quotas={ALICE: RATE})), shape)
    assert ensemble.tree()["/config/users/alice"] == b'{"version":1,"config":{"producer_byte_rate":"1024"}}'


def test_what_has_no_form_in_zookeeper_stops_nothing() -> None:
    """The controller refuses names with a slash; a log of stock's may hold one."""
    ensemble, session, claim = a_cluster()
    slash = Acl(AclResource(AclResourceType.TOPIC, AclPattern.LITERAL, "a/b"), READ.entry)
    strange = QuotaEntity((("client-id", "x"), ("ip", "y")))
    mirror(session, claim, diff(an_image(), an_image(acls=[slash, READ], quotas={strange: RATE})), Shape())
    assert told(ensemble, paths.ACL_CHANGES) == [b"TOPIC:orders"]


def test_a_brokers_configuration_that_holds_passwords_stays_in_zookeeper_as_it_is() -> None:
    """A stock controller's log has them in clear: neither do they get into ZooKeeper, nor does it lose its own."""
    key = "listener.name.external.ssl.key.password"
    encrypted = b'{"version":1,"config":{"' + key.encode() + b'":"keyLength:128,..."}}'
    ensemble, session, claim = a_cluster()
    ensemble.create("/config/brokers/1", encrypted)
    in_log = an_image(broker_configs={"1": {key: "hunter2", "log.cleaner.threads": "2"}, "2": {key: "hunter2"}})
    in_zookeeper = what_zookeeper_says(session, in_log)
    there = Shape(frozenset({"/config/brokers/1"}))
    for delta in (diff(in_zookeeper, in_log), diff(in_zookeeper, an_image())):
        assert plan(delta, claim, AT, there).multis == ()
    both = an_image(broker_configs={"1": {key: "hunter2"}, "": {"log.cleaner.threads": "2"}})
    mirror(session, claim, diff(an_image(), both), there)
    assert ensemble.tree()["/config/brokers/1"] == encrypted
    assert b"hunter2" not in b"".join(ensemble.tree().values())
    assert "/config/brokers/<default>" in ensemble.nodes


def test_a_brokers_passwords_are_mirrored_encrypted_and_equal_ones_are_not_written_again() -> None:
    image = an_image(broker_configs={"1": {KEY_PASSWORD: CLEAR, "log.cleaner.threads": "2"}})
    ensemble, session, claim = a_cluster()
    planned = plan(diff(EMPTY, image), claim, AT, Shape(), an_encoder())
    for multi in planned.multis:
        assert session.apply(multi).applied
        assert CLEAR not in str(multi.describe())
    assert CLEAR.encode() not in b"".join(data for data in ensemble.tree().values())
    tree = read_tree(session)
    assert diff(as_image(tree, image, passwords=an_encoder(seed=2)), image).is_empty  # another salt is no difference
    changed = an_image(broker_configs={"1": {KEY_PASSWORD: "another", "log.cleaner.threads": "2"}})
    delta = diff(as_image(tree, changed, passwords=an_encoder()), changed)
    assert delta.configs == {ConfigKey(ConfigType.BROKER, "1")}


def test_a_broker_whose_password_cannot_be_decoded_keeps_what_zookeeper_has_whatever_changes() -> None:
    """It was restarted with another secret: what we would write it could not read."""
    ensemble, session, claim = a_cluster()
    ensemble.create("/config/brokers/1", config_data({KEY_PASSWORD: encoded(secret="another")}))
    in_log = an_image(broker_configs={"1": {"log.cleaner.threads": "2"}, "2": {KEY_PASSWORD: CLEAR}})
    tree = read_tree(session)
    found = clear_broker_configs(tree, an_encoder())
    assert ([each.code for each in found.problems], set(found.unreadable)) == (["Z2K-1070"], {"1"})
    shape = Shape(frozenset(tree.config_paths), unreadable=frozenset(found.unreadable))
    delta = diff(as_image(tree, in_log, passwords=an_encoder()), in_log)
    written = [each for multi in plan(delta, claim, AT, shape, an_encoder()).multis for each in multi.describe()]
    assert not [each for each in written if "/config/brokers/1" in each]
    assert [each for each in written if "/config/brokers/2" in each]


def test_no_secret_is_in_what_a_log_says_of_an_operation() -> None:
    _, _, claim = a_cluster()
    image = an_image(scram={KEY: KEPT}, tokens=[TOKEN])
    for multi in plan(diff(an_image(), image), claim, AT, Shape()).multis:
        lines = "\n".join(multi.describe())
        assert "stored_key" not in lines
        assert "User%3Aa" not in lines
        assert "create /config/users/alice (" in lines


# --- any change at all ------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(before=images(), after=images())
def test_any_image_can_become_any_other_in_zookeeper(before: Image, after: Image) -> None:
    ensemble, session, claim = a_cluster()
    claim, shape = mirror(session, claim, diff(EMPTY, before), Shape())
    mirror(session, claim, diff(before, after), shape)
    left = diff(what_zookeeper_says(session, after), after)
    assert msgspec.structs.replace(left, producer_ids=left.producer_ids and after.next_producer_id > 0).is_empty
    fresh, session, claim = a_cluster()
    mirror(session, claim, diff(EMPTY, after), Shape())
    assert entities(ensemble) == entities(fresh)


def entities(ensemble: FakeEnsemble) -> dict[str, bytes]:
    """Znodes of users, clients, addresses, ACLs and tokens that say something: nothing is left behind."""
    roots = ("/config/users/", "/config/clients/", "/config/ips/", "/kafka-acl", "/delegation_token/tokens/")
    found = {path: node.data for path, node in ensemble.nodes.items() if path.startswith(roots) and node.data}
    above = b'{"version":1,"config":{}}'  # of a user whose clients have quotas
    return {path: data for path, data in found.items() if data != above and "acl_changes_" not in path}


@settings(max_examples=50, deadline=None)
@given(before=images(), after=images())
def test_the_same_change_gives_the_same_multis(before: Image, after: Image) -> None:
    _, _, claim = a_cluster()
    shape = Shape(frozenset(paths.topic_config(name) for name in before.topic_ids))
    assert plan(diff(before, after), claim, AT, shape) == plan(diff(before, after), claim, AT, shape)


def test_a_state_that_somebody_wrote_meanwhile_is_neither_replaced_nor_deleted() -> None:
    """Each change names the version that it changes, also where the znode has to be made anew."""
    before = an_image(a_topic("orders", [a_partition(0, partition_epoch=3)]))
    for after in (
        an_image(a_topic("orders", [a_partition(0, leader=2, leader_epoch=1, partition_epoch=4)])),
        an_image(a_topic("orders", [a_partition(0, leader=2, leader_epoch=1, partition_epoch=1)])),
    ):
        ensemble, session, claim = a_cluster()
        claim, shape = mirror(session, claim, diff(EMPTY, before), Shape())
        path = paths.state("orders", 0)
        session.apply(Multi((SetData(path, b"by somebody else"),)))
        (multi,) = plan(diff(before, after), claim, AT, shape).multis
        assert session.apply(multi).error == "bad_version"
        assert ensemble.nodes[path].data == b"by somebody else"


def test_a_creation_of_which_only_the_first_multi_arrived_is_completed_by_the_reconcile() -> None:
    """A topic too large for one multi: its znode names partitions whose states never came."""
    ensemble, session, claim = a_cluster()
    big = an_image(a_topic("big", 3_000))
    planned = plan(diff(an_image(), big), claim, AT, Shape())
    assert len(planned.multis) > 1
    assert session.apply(planned.multis[0]).applied
    tree = read_tree(session)
    missing = missing_states(tree, big)
    assert len(missing) == len(tree.problems) > 0
    existing = frozenset(ensemble.nodes)
    for multi in state_creation(missing, existing, claim):
        assert session.apply(multi).applied
    healed = read_tree(session, before=tree)
    assert healed.problems == []
    assert not diff(as_image(healed, big), big).topics


def test_a_state_that_is_missing_of_a_topic_that_the_log_does_not_have_is_not_invented() -> None:
    ensemble, session, _ = a_cluster()
    ensemble.create(paths.topic("foreign"), b'{"version":3,"topic_id":"AAAAAAAAQAqAAAAAAAAAAA","partitions":{"0":[1]}}')
    assert missing_states(read_tree(session), an_image(a_topic("orders"))) == []


def test_what_somebody_else_changed_after_the_copy_is_named_and_what_we_changed_is_not() -> None:
    """An acknowledged change of a configuration must not be set back by the first reconcile."""
    image = an_image(
        a_topic("orders"),
        a_topic("payments"),
        topic_configs={"orders": {"retention.ms": "1"}},
        broker_configs={"1": {"a": "1"}},
    )
    ensemble, session, claim = a_cluster()
    claim, shape = mirror(session, claim, diff(an_image(), image), Shape())
    copied = read_tree(session)
    assert changed_since(copied, read_tree(session)) == []

    healed = an_image(
        a_topic("orders", [a_partition(leader=2, leader_epoch=1, partition_epoch=1)]),
        a_topic("payments"),
        topic_configs={"orders": {"retention.ms": "1"}},
        broker_configs={"1": {"a": "1"}},
    )
    claim, shape = mirror(session, claim, diff(image, healed), shape)
    assert changed_since(copied, read_tree(session)) == []

    moved = an_image(
        a_topic("orders", [a_partition(replicas=(2, 1), leader=2, leader_epoch=1, partition_epoch=1)]),
        a_topic("payments"),
        topic_configs={"orders": {"retention.ms": "1"}},
        broker_configs={"1": {"a": "1"}},
    )
    claim, shape = mirror(session, claim, diff(healed, moved), shape)
    assert changed_since(copied, read_tree(session), moved) == []
    assert changed_since(copied, read_tree(session), healed) == ["/brokers/topics/orders"]
    claim, shape = mirror(session, claim, diff(moved, healed), shape)

    with_ours = an_image(scram={KEY: KEPT})  # put into the log by Kafka's format tool, before any copy
    claim, shape = mirror(session, claim, diff(an_image(), with_ours), shape)
    assert changed_since(copied, read_tree(session), with_ours) == []
    assert changed_since(copied, read_tree(session)) == ["SCRAM credential 2 of alice"]

    for path, data in (
        ("/config/users/alice", entity_data({"request_percentage": 5.0}, {ScramMechanism.SHA_512: OTHER})),
        ("/kafka-acl/Topic/orders", acl_data([READ.entry])),
        (paths.token("t"), token_data(TOKEN)),
        (paths.topic_config("orders"), b'{"version":1,"config":{"retention.ms":"99"}}'),
        ("/config/brokers/1", b'{"version":1,"config":{}}'),
        (paths.topic("new"), b'{"version":3,"topic_id":"AAAAAAAAQAqAAAAAAAAAAA","partitions":{"0":[1]}}'),
    ):
        ensemble.create(path, data)
    del ensemble.nodes[paths.topic("payments")]
    assert changed_since(copied, read_tree(session), with_ours) == [
        "/brokers/topics/new",
        "/brokers/topics/orders",
        "/brokers/topics/payments",
        "/config/brokers/1",
        "/delegation_token/tokens/t",
        f"ACLs of {READ.resource}",
        "SCRAM credential 2 of alice",
        "quotas of user alice",
    ]


def test_a_replica_that_is_said_to_lie_in_a_directory_moves_the_version_of_its_state_znode() -> None:
    """ZooKeeper has no directories; the partition epoch that such a change costs has to be there all the same."""
    ensemble, session, claim = a_cluster()
    partition = a_partition(0, partition_epoch=2)
    before = an_image(a_topic("orders", [partition]))
    claim, shape = mirror(session, claim, diff(EMPTY, before), Shape())
    data = ensemble.nodes[paths.state("orders", 0)].data
    placed = msgspec.structs.replace(
        partition, partition_epoch=3, directories=(an_id("one"), an_id("two"), an_id("three"))
    )
    after = an_image(a_topic("orders", [placed]))
    mirror(session, claim, diff(before, after), shape)
    assert ensemble.nodes[paths.state("orders", 0)].version == 3
    assert ensemble.nodes[paths.state("orders", 0)].data == data
