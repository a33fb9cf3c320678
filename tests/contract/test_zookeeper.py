"""One contract for the ZooKeeper in memory and a real one: what the driver relies on, asked of both.

The real one is a single server of the laboratory; what only an ensemble shows (a server that lags, for which `sync` is
there) is in tests/e2e/test_zookeeper_trouble.py. Answers of the one in memory are there at once; that they come
asynchronously is tested with the real one here, and in tests/unit/zk/test_session.py.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from itertools import count

import pytest

from migrator.lab.classes import prepared
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.zookeeper import ZooKeeper
from migrator.zk.multi import Check, Create, Delete, Multi, MultiOutcome, Operation, SetData
from migrator.zk.session import ZkSession
from tests.support.fake_zookeeper import FakeEnsemble

FIRES_S = 120.0
"""A bound for a watch that never fires; it is not waited for otherwise."""

Open = Callable[[], ZkSession]
_roots = count()


@pytest.fixture(scope="module", params=["memory", pytest.param("server", marks=pytest.mark.lab)])
def connect(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Open]:
    """Opens another session of the same ZooKeeper."""
    if request.param == "memory":
        ensemble = FakeEnsemble()
        yield ensemble.session
        return
    with Laboratory(tmp_path_factory.mktemp("contract") / "lab", prepared()) as laboratory:
        server = ZooKeeper(laboratory)
        server.start()
        yield lambda: ZkSession(server.hosts).start()


@pytest.fixture
def session(connect: Open) -> Iterator[ZkSession]:
    opened = connect()
    yield opened
    opened.close()


@pytest.fixture
def root(session: ZkSession) -> str:
    """A znode of this test alone."""
    path = f"/contract-{next(_roots)}"
    assert do(session, Create(path, b"")).applied
    return path


def do(session: ZkSession, *operations: Check | Create | SetData | Delete) -> MultiOutcome:
    return session.apply(Multi(operations))


# --- single operations ------------------------------------------------------------------------------------


def test_a_znode_begins_at_version_0_and_counts_each_write_also_of_equal_bytes(session: ZkSession, root: str) -> None:
    path = f"{root}/a"
    assert do(session, Create(path, b"x")) == MultiOutcome(versions=(0,))
    assert do(session, SetData(path, b"x"), SetData(path, b"x", 1)) == MultiOutcome(versions=(1, 2))
    found = session.get(path)
    assert found is not None
    assert (found.data, found.version, found.owner) == (b"x", 2, 0)
    assert found.mzxid > found.czxid


def test_no_data_and_a_text_of_no_bytes_are_two_things(session: ZkSession, root: str) -> None:
    """Kafka makes `/latest_producer_id_block` with the one, and throws where it finds the other."""
    none, empty = f"{root}/none", f"{root}/empty"
    assert do(session, Create(none, None), Create(empty, b"")).applied
    assert [each and each.data for each in session.get_many((none, empty))] == [None, b""]
    assert do(session, SetData(none, b""), SetData(empty, None)).applied
    assert [each and each.data for each in session.get_many((none, empty))] == [b"", None]


def test_all_operations_of_a_multi_carry_one_transaction_id(session: ZkSession, root: str) -> None:
    assert do(session, Create(f"{root}/a", b""), Create(f"{root}/b", b""), SetData(f"{root}/a", b"1")).applied
    a, b = session.get(f"{root}/a"), session.get(f"{root}/b")
    assert a is not None
    assert b is not None
    assert a.czxid == b.czxid == a.mzxid


@pytest.mark.parametrize(
    ("operation", "error"),
    [
        (lambda root: Check(f"{root}/a", 7), "bad_version"),
        (lambda root: Check(f"{root}/none", 0), "no_node"),
        (lambda root: SetData(f"{root}/a", b"", 7), "bad_version"),
        (lambda root: SetData(f"{root}/none", b""), "no_node"),
        (lambda root: Delete(f"{root}/a", 7), "bad_version"),
        (lambda root: Delete(f"{root}/none"), "no_node"),
        (lambda root: Delete(root), "not_empty"),
        (lambda root: Create(f"{root}/a", b""), "node_exists"),
        (lambda root: Create(f"{root}/none/below", b""), "no_node"),
        (lambda root: Create(f"{root}/e/below", b""), "NoChildrenForEphemeralsError"),
    ],
    ids=range(10),
)
def test_a_refused_operation_is_named_and_takes_the_whole_multi_with_it(
    session: ZkSession, root: str, operation: Callable[[str], Check | Create | SetData | Delete], error: str
) -> None:
    assert do(session, Create(f"{root}/a", b"old"), Create(f"{root}/e", b"", ephemeral=True)).applied
    outcome = do(session, SetData(f"{root}/a", b"new"), Create(f"{root}/b", b""), operation(root), Delete(f"{root}/e"))
    assert (outcome.failed_at, outcome.error) == (2, error)
    found = session.get(f"{root}/a")
    assert found is not None
    assert (found.data, found.version) == (b"old", 0)
    assert session.children(root) == ["a", "e"]


def test_a_later_operation_of_a_multi_sees_what_the_earlier_ones_did(session: ZkSession, root: str) -> None:
    path = f"{root}/a"
    assert do(session, Create(path, b""), SetData(path, b"1", 0), Check(path, 1), Delete(path, 1)).applied
    assert session.get(path) is None


def test_sequential_names_have_ten_digits_and_are_never_given_twice(session: ZkSession, root: str) -> None:
    one = Create(f"{root}/c_", b"", sequence=True)
    assert do(session, one, one).applied
    first, second = session.children(root) or []
    assert len(first) == len(second) == len("c_") + 10
    assert first < second
    assert do(session, Delete(f"{root}/{second}"), one).applied
    names = session.children(root) or []
    assert len(names) == 2
    assert names[-1] > second


# --- reading ----------------------------------------------------------------------------------------------


def test_reading_is_in_the_order_of_the_paths_and_none_where_nothing_is(session: ZkSession, root: str) -> None:
    assert do(session, *(Create(f"{root}/{name}", name.encode()) for name in "cab")).applied
    assert session.children(root) == ["a", "b", "c"]
    assert session.children(f"{root}/none") is None
    found = session.get_many([f"{root}/b", f"{root}/none", f"{root}/a"])
    assert [None if each is None else each.data for each in found] == [b"b", None, b"a"]
    below = session.children_many([root, f"{root}/a", f"{root}/none"])
    assert [None if each is None else sorted(each) for each in below] == [["a", "b", "c"], [], None]


def test_what_another_session_wrote_is_there_after_sync(connect: Open, session: ZkSession, root: str) -> None:
    other = connect()
    assert do(other, Create(f"{root}/a", b"theirs")).applied
    other.close()
    session.sync()
    found = session.get(f"{root}/a")
    assert found is not None
    assert found.data == b"theirs"


# --- sessions ---------------------------------------------------------------------------------------------


def test_an_ephemeral_znode_names_its_session_and_ends_with_it(connect: Open, session: ZkSession, root: str) -> None:
    other = connect()
    assert other.session_id != session.session_id
    assert do(other, Create(f"{root}/e", b"", ephemeral=True)).applied
    found = other.get(f"{root}/e")
    assert found is not None
    assert found.owner == other.session_id
    other.close()
    session.sync()
    assert session.get(f"{root}/e") is None


def test_multis_are_applied_in_the_order_of_sending_and_answered_each(session: ZkSession, root: str) -> None:
    done = threading.Semaphore(0)
    pending = [session.send(Multi((Create(f"{root}/{number}", b""),))) for number in range(20)]
    refused = session.send(Multi((Create(f"{root}/0", b""),)))
    for each in (*pending, refused):
        each.when_done(done.release)
    for _ in range(21):
        assert done.acquire(timeout=FIRES_S)
    assert all(each.outcome().applied for each in pending)
    assert refused.outcome() == MultiOutcome(failed_at=0, error="node_exists")
    born = [session.get(f"{root}/{number}") for number in range(20)]
    zxids = [each.czxid for each in born if each is not None]
    assert zxids == sorted(zxids)
    assert len(set(zxids)) == 20


# --- watches ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["changes", "appears", "vanishes"])
def test_a_watch_on_a_znode_is_called_once(connect: Open, session: ZkSession, root: str, what: str) -> None:
    path, other = f"{root}/a", connect()
    if what != "appears":
        assert do(session, Create(path, b"")).applied
    fired = threading.Semaphore(0)
    session.get(path, fired.release)
    change: dict[str, Operation] = {
        "changes": SetData(path, b"1"),
        "appears": Create(path, b""),
        "vanishes": Delete(path),
    }
    assert do(other, change[what]).applied
    assert fired.acquire(timeout=FIRES_S)
    again = Create(path, b"") if what == "vanishes" else SetData(path, b"2")
    assert do(other, again).applied
    other.close()
    settled(session, root)
    assert not fired.acquire(blocking=False)


def test_a_watch_on_children_hears_of_those_that_come_and_not_of_what_is_in_them(
    connect: Open, session: ZkSession, root: str
) -> None:
    other = connect()
    assert do(session, Create(f"{root}/a", b"")).applied
    fired = threading.Semaphore(0)
    assert session.children(root, fired.release) == ["a"]
    assert do(other, SetData(f"{root}/a", b"1")).applied
    settled(session, f"{root}/a")
    assert not fired.acquire(blocking=False)
    assert do(other, Create(f"{root}/b", b"")).applied
    assert fired.acquire(timeout=FIRES_S)
    other.close()


def test_a_refused_multi_wakes_nobody(session: ZkSession, root: str) -> None:
    assert do(session, Create(f"{root}/other", b"")).applied
    fired = threading.Semaphore(0)
    session.get(root, fired.release)
    assert not do(session, SetData(root, b"1"), Check(root, 77)).applied
    settled(session, f"{root}/other")
    assert not fired.acquire(blocking=False)


def settled(session: ZkSession, path: str) -> None:
    """Whatever a server has to say to this session comes before the answer to a question that is asked now; and the
    callbacks of a session run one after the other.
    """
    heard = threading.Semaphore(0)
    session.sync()
    session.get(path, heard.release)
    assert do(session, SetData(path, b"settled")).applied
    assert heard.acquire(timeout=FIRES_S)


def test_every_transaction_counts_and_no_reading_does(connect: Open, session: ZkSession, root: str) -> None:
    """What the copy relies on (`newest_zxid`): of any session, also one that fails, also the end of a session."""

    def moved_by(what: Callable[[], object]) -> int:
        began = session.newest_zxid()
        what()
        return session.newest_zxid() - began

    other = connect()
    assert moved_by(lambda: (session.get(root), session.children("/"), list(session.get_many([root, "/none"])))) == 0
    assert moved_by(lambda: other.apply(Multi((Create(f"{root}/a", b""), Create(f"{root}/b", b""))))) == 1
    assert moved_by(lambda: other.apply(Multi((SetData(f"{root}/a", b"1", 0), Check(f"{root}/b", 7))))) == 1
    assert moved_by(other.close) == 1
    found = session.get(f"{root}/a")
    assert found is not None
    do(session, SetData(f"{root}/a", b"2", -1))
    changed = session.get(f"{root}/a")
    assert changed is not None
    assert changed.mzxid == session.newest_zxid()
