"""The exports of one controller: a new file only for a tree that changed, and never a heap of them."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import pytest

from migrator.control_api.states import State
from migrator.findings.finding import FindingError
from migrator.node.driver import takeover_gate
from migrator.node.zookeeper import exports
from migrator.node.zookeeper.exports import KEPT, OWN_DIRECTORY, Exports
from migrator.zk.backup import verify
from migrator.zk.multi import Multi, SetData
from tests.support.driver_acts import gate_acts
from tests.support.fake_zookeeper import FakeEnsemble
from tests.unit.node.driver.test_driver_acts import CLUSTER_ID, a_driver, story
from tests.unit.zk.test_backup import a_cluster


@dataclass
class Clock:
    """One second later for each export."""

    second: int = 0

    def strftime(self, form: str, moment: object) -> str:
        self.second += 1
        return f"20261129T10{self.second // 60:02}{self.second % 60:02}"

    def gmtime(self) -> None: ...


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(exports, "time", clock)
    return clock


def a_keeper(directory: Path, *, node: int = 3000, cluster: str = CLUSTER_ID, shared: bool = False) -> Exports:
    return Exports.of(node, cluster, directory, directory / OWN_DIRECTORY if shared else None)


def take(keeper: Exports, ensemble: FakeEnsemble) -> Path:
    return Path(keeper.take(ensemble.session(), keeper.next_file()).info.file)


def changed(ensemble: FakeEnsemble) -> FakeEnsemble:
    assert ensemble.session().apply(Multi((SetData("/brokers/topics", b"x" * (ensemble.zxid % 50)),))).applied
    return ensemble


def files(directory: Path) -> list[str]:
    return sorted(each.name for each in (directory / OWN_DIRECTORY).iterdir())


def test_an_unchanged_tree_needs_no_second_file(tmp_path: Path) -> None:
    ensemble, keeper = a_cluster(), a_keeper(tmp_path)
    first = take(keeper, ensemble)
    before = first.read_bytes()
    assert {take(keeper, ensemble) for _ in range(20)} == {first}
    assert files(tmp_path) == [first.name]
    assert first.read_bytes() == before


def test_what_others_change_beside_kafka_is_no_change_of_the_tree(tmp_path: Path) -> None:
    ensemble, keeper = a_cluster(), a_keeper(tmp_path)
    first = take(keeper, ensemble)
    for number in range(5):
        ensemble.create(f"/hbase/region-{number}", b"theirs")
        assert take(keeper, ensemble) == first


def test_of_a_tree_that_changes_all_the_time_the_newest_exports_stay(tmp_path: Path) -> None:
    ensemble, keeper = a_cluster(), a_keeper(tmp_path)
    taken = [take(keeper, changed(ensemble)) for _ in range(20)]
    assert files(tmp_path) == [each.name for each in taken[-KEPT:]]
    assert [verify(each).znodes for each in taken[-KEPT:]]


def test_the_export_of_an_earlier_process_serves_where_nothing_changed(tmp_path: Path) -> None:
    ensemble = a_cluster()
    first = take(a_keeper(tmp_path), ensemble)
    assert take(a_keeper(tmp_path), ensemble) == first
    assert files(tmp_path) == [first.name]


@pytest.mark.parametrize("spoil", [b"", b"cut", None], ids=["empty", "cut", "altered"])
def test_an_export_that_is_not_whole_any_more_is_replaced(spoil: bytes | None, tmp_path: Path) -> None:
    ensemble, keeper = a_cluster(), a_keeper(tmp_path)
    first = take(keeper, ensemble)
    whole = first.read_bytes()
    first.write_bytes(whole[: len(whole) // 2] if spoil == b"cut" else spoil or gzip.compress(b'{"format":1}\n'))
    second = take(keeper, ensemble)
    assert second != first
    assert verify(second).znodes


def test_the_export_that_was_taken_last_stays_when_the_clock_was_set_back(tmp_path: Path, clock: Clock) -> None:
    """A takeover rests on it, and its name is the lowest."""
    ensemble, keeper = a_cluster(), a_keeper(tmp_path)
    clock.second = 100
    for _ in range(KEPT + 2):
        take(keeper, changed(ensemble))
    clock.second = 0
    last = take(keeper, changed(ensemble))
    assert last.exists()
    assert len(files(tmp_path)) == KEPT


def test_what_a_killed_process_was_writing_is_removed(tmp_path: Path) -> None:
    ensemble, keeper = a_cluster(), a_keeper(tmp_path)
    keeper.directory.mkdir()
    for name in (
        f"zookeeper-20261128T235959-3000-{CLUSTER_ID}.jsonl.gz.part",
        "zookeeper-20261128T235958.jsonl.gz.part",
    ):
        (keeper.directory / name).write_bytes(b"half")
    taken = take(keeper, ensemble)
    assert files(tmp_path) == [taken.name]


def test_exports_of_earlier_releases_in_the_metadata_directory_count_as_its_own(tmp_path: Path) -> None:
    ensemble, keeper = a_cluster(), a_keeper(tmp_path)
    keeper.directory.mkdir()
    for hour in range(24):
        (keeper.directory / f"zookeeper-20261128T{hour:02}0000.jsonl.gz").write_bytes(b"an export")
    taken = take(keeper, ensemble)
    assert files(tmp_path) == [f"zookeeper-20261128T{hour}0000.jsonl.gz" for hour in (22, 23)] + [taken.name]


NOT_OURS = {
    "another controller's": f"zookeeper-20261128T000000-3001-{CLUSTER_ID}.jsonl.gz",
    "another cluster's": f"zookeeper-20261128T000000-3000-{'c' * 22}.jsonl.gz",
    "what another controller is writing": f"zookeeper-20261128T000000-3001-{CLUSTER_ID}.jsonl.gz.part",
    "an operator's copy": "zookeeper-20261128T000000.jsonl.gz",
    "something else": "notes.txt",
}


@pytest.mark.parametrize("name", NOT_OURS.values(), ids=NOT_OURS)
def test_in_a_directory_that_others_use_too_only_its_own_files_are_removed(name: str, tmp_path: Path) -> None:
    ensemble, keeper = a_cluster(), a_keeper(tmp_path, shared=True)
    keeper.directory.mkdir()
    (keeper.directory / name).write_bytes(b"not ours")
    for _ in range(KEPT + 3):
        take(keeper, changed(ensemble))
    assert (keeper.directory / name).read_bytes() == b"not ours"
    assert len(files(tmp_path)) == KEPT + 1


@pytest.mark.parametrize("path", ["/config", "/brokers/topics", "/kafka-acl"])
def test_an_attempt_that_zookeeper_refuses_leaves_nothing_and_removes_no_export(path: str, tmp_path: Path) -> None:
    ensemble, keeper = a_cluster(), a_keeper(tmp_path)
    first = take(keeper, ensemble)
    if path not in ensemble.nodes:
        ensemble.create(path)
    ensemble.refused.add(path)
    for _ in range(5):
        with pytest.raises(FindingError, match="Z2K-2004"):
            take(keeper, ensemble)
        assert files(tmp_path) == [first.name]


def test_a_disk_that_does_not_take_the_export_is_named(tmp_path: Path) -> None:
    keeper = a_keeper(tmp_path)
    keeper.directory.write_text("a file in the way")
    with pytest.raises(FindingError) as raised:
        take(keeper, a_cluster())
    assert raised.value.code == "Z2K-2076"
    assert str(keeper.directory) in raised.value.occurrence.text


def test_old_exports_that_cannot_be_removed_are_named_and_the_new_one_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ensemble, keeper = a_cluster(), a_keeper(tmp_path)
    for _ in range(KEPT):
        take(keeper, changed(ensemble))

    def refuses(path: Path, missing_ok: bool = False) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "unlink", refuses)
    taken = keeper.take(changed(ensemble).session(), keeper.next_file())
    assert Path(taken.info.file).exists()
    assert taken.left is not None
    assert (taken.left.code, taken.left.values["count"]) == ("Z2K-2077", 1)


def test_the_gate_renews_its_export_each_hour_without_a_second_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def told() -> None:
        ensemble, now = a_cluster(), [10**9]
        config = SimpleNamespace(metadata_log_dir=tmp_path, export_dir=None)
        driver = a_driver(State.WAIT_BROKERS, config=config, session=ensemble.session(), now_ms=lambda: now[0], epoch=5)
        gate = gate_acts(driver, SimpleNamespace(ahead=lambda copy, limits: None))
        for _ in range(24):
            await gate._export()
            now[0] += takeover_gate.EXPORT_FRESH_MS + 1
        (only,) = files(tmp_path)
        assert driver.now.exported == str(tmp_path / OWN_DIRECTORY / only)

    story(told)
