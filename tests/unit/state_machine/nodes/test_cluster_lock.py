"""Two services, two databases, one cluster: one of them stops nodes."""

from __future__ import annotations

import socket
import stat
from pathlib import Path
from typing import Any, Final

import pytest

from migrator.findings.finding import FindingError
from migrator.findings.road import SERVICE_COPIED
from migrator.findings.zookeeper import ZOOKEEPER_UNREACHABLE
from migrator.zk import paths
from migrator.zk.multi import Create, Multi
from state_machine.nodes.cluster_lock import ClusterLocks
from state_machine.nodes.service_identity import identity_of
from tests.support.fake_zookeeper import FakeEnsemble, FakeSession

ONE: Final = "1" * 32
OTHER: Final = "2" * 32


class Sessions:
    """Sessions of one ensemble; `away` refuses new ones and spoils those that are open."""

    def __init__(self) -> None:
        self.ensemble = FakeEnsemble()
        self.ensemble.create("/cluster", b"")
        self.open: list[Any] = []
        self.away = False

    def __call__(self, connect: str) -> Any:
        if self.away:
            raise ZOOKEEPER_UNREACHABLE.error(connect=connect, reason="nobody answers")
        found = Closing(self.ensemble)
        self.open.append(found)
        return found


class Closing:
    def __init__(self, ensemble: FakeEnsemble) -> None:
        self.ensemble = ensemble
        self.session: FakeSession = ensemble.session()

    @property
    def session_id(self) -> int:
        return self.session.session_id

    def get(self, path: str) -> Any:
        return self.session.get(path)

    def apply(self, multi: Multi) -> Any:
        return self.session.apply(multi)

    def close(self) -> None:
        self.ensemble.expire(self.session.session_id)


def test_the_second_service_stops_no_node_until_the_first_one_ends() -> None:
    sessions = Sessions()
    one, other = ClusterLocks("one", ONE, sessions), ClusterLocks("other", OTHER, sessions)
    one.hold(1, "zk:2181")
    one.hold(1, "zk:2181")  # before each act
    with pytest.raises(FindingError, match="one") as caught:
        other.hold(7, "zk:2181")
    assert caught.value.code == "Z2K-4219"
    assert len(sessions.open) == 2
    one.close()
    other.hold(7, "zk:2181")
    with pytest.raises(FindingError):
        one.hold(1, "zk:2181")


def test_a_lock_that_was_lost_with_its_session_is_not_taken_for_held() -> None:
    sessions = Sessions()
    one = ClusterLocks("one", ONE, sessions)
    one.hold(1, "zk:2181")
    sessions.open[0].close()  # expired, and the other service was quicker
    rival = sessions("zk:2181")
    rival.apply(Multi((Create(paths.ROAD_LOCK, b"rival", ephemeral=True),)))
    with pytest.raises(FindingError, match="rival"):
        one.hold(1, "zk:2181")


def test_without_zookeeper_nobody_knows_who_has_the_lock() -> None:
    sessions = Sessions()
    sessions.away = True
    with pytest.raises(FindingError) as caught:
        ClusterLocks("one", ONE, sessions).hold(1, "zk:2181")
    assert caught.value.code == "Z2K-4220"
    sessions.away = False
    ClusterLocks("one", ONE, sessions).hold(1, "zk:2181")


def test_a_service_follows_the_dead_one_of_its_own_directory_when_its_session_has_ended() -> None:
    sessions = Sessions()
    ClusterLocks("/srv/one", ONE, sessions).hold(1, "zk:2181")  # and is killed: its session lives on for a while
    with pytest.raises(FindingError, match="Z2K-4219"):
        ClusterLocks("/srv/one-more", OTHER, sessions).hold(1, "zk:2181")
    again = ClusterLocks("/srv/one", ONE, sessions)
    with pytest.raises(FindingError, match="this service before; its session ends soon"):
        again.hold(1, "zk:2181")
    sessions.open[0].close()
    again.hold(1, "zk:2181")
    again.hold(1, "zk:2181")


def test_of_a_directory_and_its_copy_only_one_restarts_nodes_and_the_other_one_says_so() -> None:
    """Two pods of one name, a cloned machine, a standby: the same path and the same name of the host."""
    sessions, clock = Sessions(), [0.0]
    one = ClusterLocks("/var/lib/zk2kraft", ONE, sessions, lambda: clock[0])
    copy = ClusterLocks("/var/lib/zk2kraft", ONE, sessions, lambda: clock[0])
    one.hold(1, "zk:2181")
    for seconds in (0.0, 30.0, 59.0):
        clock[0] = seconds
        with pytest.raises(FindingError) as caught:
            copy.hold(1, "zk:2181")
        assert caught.value.code == "Z2K-4219"
        one.hold(1, "zk:2181")
    clock[0] = 61.0
    with pytest.raises(FindingError) as caught:
        copy.hold(1, "zk:2181")
    assert caught.value.code == SERVICE_COPIED.code == "Z2K-4243"
    one.hold(1, "zk:2181")
    one.close()
    copy.hold(1, "zk:2181")


def test_a_service_that_lost_its_session_waits_for_the_end_of_it_and_takes_itself_for_no_copy() -> None:
    sessions, clock = Sessions(), [0.0]
    one = ClusterLocks("one", ONE, sessions, lambda: clock[0])
    one.hold(1, "zk:2181")
    one._sessions.clear()  # its connection is gone, and ZooKeeper has not noticed yet
    for seconds in (0.0, 100.0):
        clock[0] = seconds
        with pytest.raises(FindingError, match="its session ends soon"):
            one.hold(1, "zk:2181")
    sessions.open[0].close()
    one.hold(1, "zk:2181")


@pytest.mark.parametrize("host", [socket.gethostname(), "another"])
def test_a_lock_of_an_earlier_release_is_somebodys_until_its_session_ends(host: str) -> None:
    sessions = Sessions()
    earlier = sessions("zk:2181")
    text = f"service of /srv/one on {host}, process 17"
    earlier.apply(Multi((Create(paths.ROAD_LOCK, text.encode(), ephemeral=True),)))
    one = ClusterLocks("/srv/one", ONE, sessions)
    with pytest.raises(FindingError, match=f"{text}") as caught:
        one.hold(1, "zk:2181")
    assert caught.value.code == "Z2K-4219"
    earlier.close()
    one.hold(1, "zk:2181")


def test_the_identity_of_a_directory_is_made_once_and_is_private(tmp_path: Path) -> None:
    one = identity_of(tmp_path)
    assert identity_of(tmp_path) == one
    assert stat.S_IMODE((tmp_path / "identity").stat().st_mode) == 0o600
    (tmp_path / "other").mkdir()
    assert identity_of(tmp_path / "other") != one
    (tmp_path / "identity").write_text("half")
    assert len(identity_of(tmp_path)) == 32
