"""The session without a server: the bytes of its bulk reads, its fallback, and what it makes of kazoo's answers."""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from kazoo.exceptions import (
    BadVersionError,
    ConnectionLoss,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
    UnimplementedError,
    ZookeeperError,
)
from kazoo.protocol.states import KeeperState
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, make_acl, make_digest_acl

from migrator.findings.finding import FindingError
from migrator.model.jaas import KerberosLogin
from migrator.zk.bulk_read import ChildrenMany, GetMany, ReadRefusal, Znode
from migrator.zk.login import DigestLogin
from migrator.zk.logins import BROKEN_OFF, WhoAmI
from migrator.zk.multi import JUTE_MAXBUFFER_MIN, Check, Create, Delete, Multi, MultiOutcome, SetData, describe
from migrator.zk.pipeline import READS_PER_REQUEST, ReadLimits, ReadPipeline
from migrator.zk.session import PendingMulti, ZkSession, _outcome

HEADER = struct.Struct(">i?i")
STAT = struct.Struct(">qqqqiiiqiiq")
DONE = HEADER.pack(-1, True, -1)


def text(value: str) -> bytes:
    return struct.pack(">i", len(value.encode())) + value.encode()


def a_stat(version: int = 3, mzxid: int = 20, czxid: int = 10, owner: int = 0, acl_changes: int = 0) -> bytes:
    return STAT.pack(czxid, mzxid, 1, 2, version, 0, acl_changes, owner, 5, 0, 30)


# --- bytes ------------------------------------------------------------------------------------------------


def test_a_bulk_read_is_a_multi_of_single_reads_without_watches() -> None:
    """Operation 22: per path a header and an ordinary GetData request."""
    assert GetMany.type == 22
    assert GetMany(["/a", "/bc"]).serialize() == b"".join(
        (HEADER.pack(4, False, -1), text("/a"), b"\0", HEADER.pack(4, False, -1), text("/bc"), b"\0", DONE)
    )
    assert ChildrenMany(["/a"]).serialize() == HEADER.pack(8, False, -1) + text("/a") + b"\0" + DONE


@pytest.mark.parametrize("path", ["/\u00e9", "/\u0416/\U0001f600", "/" + "a" * 127, "/" + "\u00e9" * 9_000])
def test_a_path_is_sent_as_utf_8_with_its_length_in_bytes(path: str) -> None:
    one = HEADER.pack(4, False, -1)
    assert GetMany(["/a", path]).serialize() == b"".join((one, text("/a"), b"\0", one, text(path), b"\0", DONE))


def test_the_answers_of_a_bulk_read_are_in_the_order_of_the_paths() -> None:
    found = GetMany(["/a", "/b", "/c", "/d"]).deserialize(
        b"before"
        + HEADER.pack(4, False, 0) + struct.pack(">i", 2) + b"hi" + a_stat(owner=77, acl_changes=4)
        + HEADER.pack(-1, False, -101) + struct.pack(">i", -101)
        + HEADER.pack(4, False, 0) + struct.pack(">i", -1) + a_stat(0, 21, 11)
        + HEADER.pack(4, False, 0) + struct.pack(">i", 0) + a_stat(0, 22, 12)
        + DONE,
        6,
    )  # fmt: skip
    assert found == [
        Znode(b"hi", version=3, mzxid=20, czxid=10, owner=77, acl_changes=4),
        None,
        Znode(None, version=0, mzxid=21, czxid=11, owner=0),
        Znode(b"", version=0, mzxid=22, czxid=12, owner=0),
    ]


def test_children_of_many_are_told_apart_from_a_missing_parent() -> None:
    found = ChildrenMany.deserialize(
        HEADER.pack(8, False, 0) + struct.pack(">i", 2) + text("b") + text("\u00e9")
        + HEADER.pack(8, False, 0) + struct.pack(">i", 0)
        + HEADER.pack(-1, False, -101) + struct.pack(">i", -101)
        + DONE,
        0,
    )  # fmt: skip
    assert found == [["b", "\u00e9"], [], None]


def test_another_error_of_one_path_is_not_a_missing_znode() -> None:
    (found,) = GetMany(["/a"]).deserialize(HEADER.pack(-1, False, -102) + struct.pack(">i", -102) + DONE, 0)
    assert found == ReadRefusal(-102)


# --- a session on a client that is not connected -----------------------------------------------------------


@dataclass
class Result:
    """kazoo's result: there, or an error that is raised when it is taken."""

    value: Any = None
    error: Exception | None = None

    def get(self, timeout: float | None = None) -> Any:
        if self.error is not None:
            raise self.error
        return self.value


@dataclass
class Client:
    """A kazoo client over a dictionary. multi_read: whether the server knows operation 22.

    closes: how often it closes the connection after one. dead: how many requests after that find it closed.
    """

    nodes: dict[str, bytes]
    chroot: str = ""
    multi_read: bool = True
    closes: int = 0
    dead: int = 0
    probes: int = 0
    refuses: dict[str, ZookeeperError] = field(default_factory=dict)
    bulk: list[list[str]] = field(default_factory=list)
    singles: list[str] = field(default_factory=list)
    acls: dict[str, list[Any]] = field(default_factory=dict)
    client_state: str = KeeperState.CONNECTED
    handler: Any = field(default_factory=lambda: SimpleNamespace(async_result=Result))
    client_id: tuple[int, bytes] = (77, b"")
    known_as: frozenset[tuple[str, str]] | None = None
    """None: a server that does not know the question."""

    def _call(self, request: Any, result: Result) -> None:
        if isinstance(request, WhoAmI):
            result.value, result.error = self.known_as, None if self.known_as else UnimplementedError()
            return
        if list(request._paths) == [self.chroot or "/"]:
            self.probes += 1
        else:
            self.bulk.append(list(request._paths))
        if self.closes:
            self.closes, self.dead = self.closes - 1, 2
            result.error = ConnectionLoss()
            return
        if not self.multi_read:
            result.error = UnimplementedError()
            return
        result.value = [
            ReadRefusal(self.refuses[path].code)
            if path in self.refuses
            else self._znode(path.removeprefix(self.chroot))
            for path in request._paths
        ]

    def _znode(self, path: str) -> Znode | None:
        data = self.nodes.get(path or "/")
        return None if data is None else Znode(data, 0, 1, 1, 0)

    def get_acls_async(self, path: str) -> Result:
        return Result((self.acls[path], None)) if path in self.acls else Result(error=NoNodeError())

    def get_async(self, path: str) -> Result:
        if self.dead:
            self.dead -= 1
            return Result(error=ConnectionLoss())
        self.singles.append(path)
        if path in self.refuses:
            return Result(error=self.refuses[path])
        if path not in self.nodes:
            return Result(error=NoNodeError())
        stat = SimpleNamespace(version=0, mzxid=1, czxid=1, ephemeralOwner=0, aversion=0, numChildren=0)
        return Result((self.nodes[path], stat))

    exists_async = get_children_async = sync_async = ensure_path_async = get_async


def a_session(client: Client) -> ZkSession:
    session = ZkSession("127.0.0.1:1")
    session._client = client
    session._reads = ReadPipeline(client)
    return session


NODES = {f"/n{number:04}": str(number).encode() for number in range(3 * READS_PER_REQUEST)}
WANTED = [*NODES, "/absent"]


def data_of(found: list[Znode | None]) -> list[bytes | None]:
    return [None if znode is None else znode.data for znode in found]


@pytest.mark.parametrize("in_flight", [1, 2, 8])
def test_a_bulk_read_is_cut_into_requests_and_answered_in_order(in_flight: int) -> None:
    client = Client(NODES)
    found = list(a_session(client).get_many(WANTED, ReadLimits(in_flight=in_flight)))
    assert data_of(found) == [*NODES.values(), None]
    assert [len(paths) for paths in client.bulk] == [READS_PER_REQUEST] * 3 + [1]
    assert client.singles == []


def test_long_names_are_read_in_requests_that_every_server_takes() -> None:
    nodes = {f"/kafka-acl/Group/{'é' * 900}{number:04}": b"" for number in range(READS_PER_REQUEST)}
    client = Client(nodes)
    assert data_of(list(a_session(client).get_many([*nodes, "/x" * 50_000]))) == [*nodes.values(), None]
    assert max(len(GetMany(paths).serialize()) for paths in client.bulk[:-1]) < JUTE_MAXBUFFER_MIN
    assert [path for paths in client.bulk for path in paths][:-1] == list(nodes)


def test_a_reader_is_no_more_requests_ahead_than_it_may_be() -> None:
    client = Client(NODES)
    reads = a_session(client).get_many(WANTED, ReadLimits(in_flight=2))
    next(reads)
    assert len(client.bulk) == 2


@pytest.mark.parametrize("in_flight", [1, 3])
def test_a_server_without_multi_read_is_read_one_by_one_with_the_same_result(in_flight: int) -> None:
    client = Client(NODES, multi_read=False)
    session = a_session(client)
    assert data_of(list(session.get_many(WANTED, ReadLimits(in_flight=in_flight)))) == [*NODES.values(), None]
    assert data_of(list(session.get_many(["/n0001", "/absent"]))) == [b"1", None]
    assert (client.probes, client.bulk) == (1, [])  # asked once, with nothing else on its way


def test_a_server_that_closes_the_connection_on_a_multi_read_is_read_one_by_one() -> None:
    """ZooKeeper up to 3.5. kazoo connects again; what was in flight is lost, so nothing else may be."""
    client = Client(NODES, closes=1_000)
    session = a_session(client)
    assert data_of(list(session.get_many(WANTED))) == [*NODES.values(), None]
    assert data_of(list(session.get_many(["/n0001", "/absent"]))) == [b"1", None]
    assert (client.probes, client.bulk) == (2, [])  # twice: once it may have been an accident


def test_a_connection_that_was_lost_by_accident_leaves_the_multi_read_in_use() -> None:
    client = Client(NODES, closes=1)
    assert data_of(list(a_session(client).get_many(WANTED))) == [*NODES.values(), None]
    assert client.probes == 2
    assert len(client.bulk) == 4


def test_a_session_that_moved_to_an_older_server_asks_again_after_some_lost_reads() -> None:
    client = Client(NODES)
    session = a_session(client)
    list(session.get_many(["/n0001"]))
    client.closes = 1_000
    for _ in range(3):
        with pytest.raises(FindingError, match="Z2K-2002"):
            list(session.get_many(["/n0001"]))
    assert data_of(list(session.get_many(["/n0001"]))) == [b"1"]
    assert client.probes == 1 + 2


def test_paths_of_a_bulk_read_are_below_the_chroot() -> None:
    client = Client({"/": b"root", "/a": b"x"}, chroot="/kafka")
    assert data_of(list(a_session(client).get_many(["/", "/a"]))) == [b"root", b"x"]
    assert client.bulk == [["/kafka", "/kafka/a"]]


@pytest.mark.parametrize("multi_read", [True, False])
def test_one_znode_that_may_not_be_read_stops_the_read_with_its_path(multi_read: bool) -> None:
    """F-18."""
    client = Client(NODES, multi_read=multi_read, refuses={"/n0003": NoAuthError()})
    with pytest.raises(FindingError) as raised:
        list(a_session(client).get_many(WANTED))
    assert raised.value.code == "Z2K-2004"
    assert raised.value.occurrence.values["path"] == "/n0003"


@pytest.mark.parametrize(
    ("acl", "text"),
    [
        (OPEN_ACL_UNSAFE, None),
        ([*CREATOR_ALL_ACL, *READ_ACL_UNSAFE], "auth: may ALL; world:anyone may READ"),
        ([make_digest_acl("kafka", "secret", read=True)], "digest:kafka may READ"),
        ([], ""),
    ],
)
def test_an_access_list_is_told_without_the_hash_of_a_password(acl: list[Any], text: str | None) -> None:
    """F-18."""
    client = Client({"/a": b""}, acls={"/a": acl})
    assert a_session(client).guarded_by("/a") == text
    assert a_session(client).guarded_by("/absent") is None


@pytest.mark.parametrize("error", [ConnectionLoss(), SessionExpiredError()])
def test_a_lost_connection_says_that_the_outcome_is_not_known(error: Exception) -> None:
    with pytest.raises(FindingError) as raised:
        PendingMulti(Result(error=error), 1).outcome()
    assert raised.value.code == "Z2K-2002"


@pytest.mark.parametrize("state", [KeeperState.CONNECTING, KeeperState.CONNECTED_RO, KeeperState.EXPIRED_SESSION])
def test_nothing_is_kept_for_a_connection_that_may_come_back(state: str) -> None:
    """kazoo would send it whenever it is connected again, also in another session."""
    client = Client(NODES, client_state=state)
    session = a_session(client)
    questions: list[Callable[[], object]] = [
        lambda: session.get("/n0001"),
        lambda: session.children("/"),
        lambda: session.sync(),
        lambda: session.guarded_by("/n0001"),
        lambda: list(session.get_many(["/n0001"])),
        lambda: list(session.children_many(["/n0001"])),
        lambda: session.send(Multi((Create("/a", b""),))),
        lambda: session.ensure_path("/a"),
    ]
    for question in questions:
        with pytest.raises(FindingError, match=r"Z2K-2002.*takes writes"):
            question()
    assert not session.connected
    assert client.bulk == []
    assert client.singles == []


@pytest.mark.parametrize("connect", ["", "/kafka", "h:port", "h:99999", ",", "h:1/../x"])
def test_what_is_no_address_is_refused_before_anybody_is_asked(connect: str) -> None:
    with pytest.raises(FindingError) as raised:
        ZkSession(connect)
    assert raised.value.code == "Z2K-2001"
    assert "HOST:PORT" in raised.value.occurrence.values["reason"]


# --- multis -----------------------------------------------------------------------------------------------


def after_failure(place: int, error: Exception, count: int = 4) -> list[Any]:
    """As the server answers: what came before is rolled back, what comes behind was not tried."""
    return [RolledBackError()] * place + [error] + [RuntimeInconsistency()] * (count - place - 1)


@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize(
    ("error", "name"),
    [
        (BadVersionError(), "bad_version"),
        (NoNodeError(), "no_node"),
        (NodeExistsError(), "node_exists"),
        (NotEmptyError(), "not_empty"),
        (NoAuthError(), "no_auth"),
        (SessionExpiredError(), "SessionExpiredError"),
    ],
)
def test_a_refused_multi_names_the_operation_that_was_refused(place: int, error: Exception, name: str) -> None:
    outcome = _outcome(after_failure(place, error))
    assert outcome == MultiOutcome(failed_at=place, error=name)
    assert not outcome.applied


def test_an_applied_multi_tells_the_new_version_of_each_write() -> None:
    outcome = _outcome([True, "/created", SimpleNamespace(version=8), True])
    assert outcome == MultiOutcome(versions=(-1, 0, 8, -1))
    assert outcome.applied


def test_an_answer_without_a_cause_is_not_taken_for_success() -> None:
    assert not _outcome([RolledBackError(), RuntimeInconsistency()]).applied


def test_znodes_are_made_with_the_lists_that_brokers_would_give_them() -> None:
    """K-14: what holds secrets is known by its full path; old consumers share their znode."""
    session = ZkSession("127.0.0.1:1", set_acl=True)
    readable = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]
    wanted = {
        "/controller": readable,
        "/brokers/topics/t/partitions/0/state": readable,
        "/config/topics/t": readable,
        "/config/users/alice": CREATOR_ALL_ACL,
        "/config/brokers/1": CREATOR_ALL_ACL,
        "/delegation_token/tokens/t": CREATOR_ALL_ACL,
        "/consumers": None,
    }
    assert {path: session._acl(path) for path in wanted} == wanted
    assert all(ZkSession("127.0.0.1:1")._acl(path) is None for path in wanted)


@pytest.mark.parametrize(
    ("entries", "guarded"),
    [
        (OPEN_ACL_UNSAFE, False),
        ([make_acl("sasl", "kafka", all=True), *READ_ACL_UNSAFE], False),
        ([make_acl("sasl", "kafka", read=True, write=True)], True),
        ([make_acl("sasl", "another", all=True)], True),
        ([make_acl("digest", "kafka", all=True)], True),
    ],
)
def test_a_znode_whose_list_lets_our_login_do_everything_is_not_guarded_from_us(
    entries: list[Any], *, guarded: bool
) -> None:
    session = a_session(Client({}, acls={"/x": entries}))
    session._login = DigestLogin("kafka", "p")
    assert (session.guarded_by("/x") is not None) == guarded


@pytest.mark.parametrize(
    ("entries", "login", "named"),
    [
        (READ_ACL_UNSAFE, None, True),
        (READ_ACL_UNSAFE, "kafka", True),
        ([make_acl("sasl", "kafka", all=True), *READ_ACL_UNSAFE], None, False),
        ([make_acl("sasl", "kafka", all=True), *READ_ACL_UNSAFE], "another", True),
        ([make_acl("sasl", "kafka", all=True), *READ_ACL_UNSAFE], "kafka", False),
        (OPEN_ACL_UNSAFE, None, False),
    ],
)
def test_a_znode_is_unwritable_where_nobody_may_write_it_or_not_who_is_logged_in(
    entries: list[Any], login: str | None, *, named: bool
) -> None:
    """Who audits without a login would else find every znode of a secured ensemble wrong."""
    session = a_session(Client({}, acls={"/x": entries}))
    session._login = None if login is None else DigestLogin(login, "p")
    assert (session.unwritable("/x") is not None) == named
    assert session.unwritable("/absent") is None


def test_a_server_that_tells_who_we_are_is_believed() -> None:
    """A Kerberos principal is known by one of four names, as the server is set."""
    name = "kafka/broker-1.example.com@EXAMPLE.COM"
    client = Client({}, acls={"/x": [make_acl("sasl", "kafka", all=True)], "/y": [make_acl("sasl", name, all=True)]})
    session = a_session(client)
    session._login = KerberosLogin(name)
    assert (session.guarded_by("/x"), session.guarded_by("/y")) == (None, None), "nobody tells"
    client.client_id, client.known_as = (78, b""), frozenset({("sasl", name)})
    assert session.guarded_by("/x") is not None
    assert session.guarded_by("/y") is None


def test_who_we_are_is_read_as_the_server_writes_it() -> None:
    answer = b"head" + struct.pack(">i", 2) + b"".join(map(text, ("ip", "10.0.0.1", "sasl", "kafka")))
    assert WhoAmI.deserialize(answer, 4) == {("ip", "10.0.0.1"), ("sasl", "kafka")}


def test_the_operations_of_a_multi_are_sent_in_their_order_with_their_versions() -> None:
    sent: list[tuple[Any, ...]] = []

    class Transaction:
        def __getattr__(self, name: str) -> Callable[..., Any]:
            def noted(*given: Any, **options: Any) -> Result:
                sent.append((name, *given, options))
                return Result([])

            return noted

    session = a_session(Client({}))
    session._client.transaction = Transaction
    multi = Multi(
        (
            Check("/e", 4),
            Create("/c", b"x", ephemeral=True),
            Create("/s", b"", sequence=True),
            SetData("/m", b"y", 7),
            Delete("/d"),
        )
    )
    session.send(multi)
    assert sent == [
        ("check", "/e", 4, {}),
        ("create", "/c", b"x", {"acl": None, "ephemeral": True, "sequence": False}),
        ("create", "/s", b"", {"acl": None, "ephemeral": False, "sequence": True}),
        ("set_data", "/m", b"y", 7, {}),
        ("delete", "/d", -1, {}),
        ("commit_async", {}),
    ]
    assert [describe(each).split(" ")[0] for each in multi.operations] == ["check", "create", "create", "set", "delete"]


# --- a life after kazoo's -------------------------------------------------------------------------------------


class TroubledServer:
    """Gives each connection a session, and `answer` to its login; nothing where that is empty: it goes away then."""

    def __init__(self, answer: bytes) -> None:
        self._answer = answer
        self.taken = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                self.taken += 1
                with client, suppress(OSError):
                    for answer in (A_SESSION, self._answer):
                        client.recv(65_536)
                        client.sendall(struct.pack(">i", len(answer)) + answer if answer else b"")


A_SESSION = struct.pack(">iiqi", 0, 10_000, 77, 16) + b"p" * 16 + b"\0"
TO_ANOTHER_REQUEST = struct.pack(">iqi", 99, 0, 0)


def a_login(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    jaas = tmp_path / "jaas.conf"
    module = "org.apache.zookeeper.server.auth.DigestLoginModule"
    jaas.write_text(f'Client {{ {module} required username="u" password="p"; }};')
    monkeypatch.setenv("KAFKA_OPTS", f"-Djava.security.auth.login.config={jaas}")


def wait_until(holds: Callable[[], bool], what: str) -> None:
    ends = time.monotonic() + 60.0
    while not holds():
        assert time.monotonic() < ends, what
        time.sleep(0.01)


def refused(session: ZkSession) -> str:
    """Why a read is refused: in the moment between two logins, because the connection broke under it."""
    with pytest.raises(FindingError) as raised:
        session.get("/x")
    assert raised.value.code == "Z2K-2002"
    return str(raised.value)


@pytest.mark.parametrize("answer", [b"", TO_ANOTHER_REQUEST])
def test_a_login_that_breaks_off_is_tried_again_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: bytes
) -> None:
    """kazoo alone would never connect again, after either of these answers."""
    a_login(tmp_path, monkeypatch)
    server, changes = TroubledServer(answer), list[str]()
    session = ZkSession(server.address, on_change=changes.append)
    session.start_in_background()
    try:
        wait_until(lambda: server.taken > 2, "it is tried again")
        assert "lost" not in changes, "the session is the same"
        wait_until(lambda: not session.connected and bool(session._logins.fault), "the fault is known")
        wait_until(lambda: "login" in refused(session), "it is refused, with the login as the reason")
    finally:
        session.close()
        server.close()
    taken = server.taken
    time.sleep(0.2)
    assert server.taken <= taken + 1, "who closed a session connects no more"


@pytest.mark.parametrize("chroot", ["", "/kafka"])
def test_a_command_whose_login_fails_ends_with_the_reason_and_connects_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, chroot: str
) -> None:
    a_login(tmp_path, monkeypatch)
    server = TroubledServer(b"")
    with pytest.raises(FindingError, match=BROKEN_OFF) as raised, ZkSession(server.address + chroot):
        raise AssertionError("nobody was logged in")
    assert raised.value.code == "Z2K-2001"
    taken = server.taken
    time.sleep(0.2)
    assert server.taken == taken
    server.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # kazoo's thread ends by it
def test_a_session_begins_again_where_kazoo_gives_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its thread ends by an error that it does not know, as of a host without a free file."""
    monkeypatch.setattr("migrator.zk.session.GIVEN_UP_S", 0.05)
    server = TroubledServer(b"")
    session = ZkSession(server.address)
    resolved = session._client._connection._expand_client_hosts
    failures = [OSError("too many open files"), OSError("too many open files")]

    def resolve() -> Any:
        if failures:
            raise failures.pop()
        return resolved()

    session._client._connection._expand_client_hosts = resolve
    session.start_in_background()
    try:
        wait_until(lambda: server.taken > 0, "it connects")
        session.renew()
        assert not session._has_given_up
    finally:
        session.close()
        server.close()
    session.renew()
    assert session._client._connection._connection_routine is None, "a session that was closed stays so"
