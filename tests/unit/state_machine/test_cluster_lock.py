"""Two services, two databases, one cluster: one of them stops nodes."""

from __future__ import annotations

from typing import Any

import pytest

from migrator.findings.finding import FindingError
from migrator.findings.zookeeper import ZOOKEEPER_UNREACHABLE
from migrator.zk import paths
from migrator.zk.multi import Create, Multi
from state_machine.road.cluster_lock import ClusterLocks
from tests.support.fake_zookeeper import FakeEnsemble, FakeSession


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
    one, other = ClusterLocks("one", sessions), ClusterLocks("other", sessions)
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
    one = ClusterLocks("one", sessions)
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
        ClusterLocks("one", sessions).hold(1, "zk:2181")
    assert caught.value.code == "Z2K-4220"
    sessions.away = False
    ClusterLocks("one", sessions).hold(1, "zk:2181")


def test_a_service_follows_the_dead_one_of_its_own_directory_at_once() -> None:
    sessions = Sessions()
    ClusterLocks("/srv/one", sessions).hold(1, "zk:2181")  # and is killed: its session lives on for a while
    with pytest.raises(FindingError):
        ClusterLocks("/srv/one-more", sessions).hold(1, "zk:2181")
    again = ClusterLocks("/srv/one", sessions)
    again.hold(1, "zk:2181")
    again.hold(1, "zk:2181")
