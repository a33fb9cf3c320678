"""A tree from the files of a server: those that a real ZooKeeper wrote, and what may be wrong with a copy."""

from __future__ import annotations

import gzip
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from migrator.findings.audit import ZOOKEEPER_FILES_UNUSABLE
from migrator.findings.finding import FindingError
from migrator.zk.files.server_files import FilesRead, SkippedFile, is_next, read_server_files
from migrator.zk.files.znode_tree import STAT, ZnodeTree
from tests.support.jute_files import (
    EPOCH,
    HEADER_BYTES,
    KEPT,
    ROOT,
    TIME_MS,
    a_create,
    a_delete,
    a_log,
    a_set,
    a_snapshot,
    a_stat,
    an_entry,
    an_error,
    as_seen,
    create,
    seen_in,
    text,
    with_checksum,
    write,
)
from tests.support.zookeeper_history import NEVER_MADE

KEPT_SNAPSHOTS = sorted(KEPT.glob("snapshot.*"), key=lambda file: int(file.suffix[1:], 16))
KEPT_LOGS = sorted(KEPT.glob("log.*"), key=lambda file: int(file.suffix[1:], 16))
KEPT_END = 259


def refused(*directories: Path) -> str:
    with pytest.raises(FindingError) as raised:
        read_server_files(directories)
    assert raised.value.code == ZOOKEEPER_FILES_UNUSABLE.code == "Z2K-5010"
    return str(raised.value)


def copied(target: Path, *files: Path) -> Path:
    target.mkdir()
    for each in files:
        shutil.copy(each, target)
    return target


def data(tree: ZnodeTree, path: str) -> bytes | None:
    node = tree.find(path)
    assert node is not None, path
    return node.data


# --- what a real server wrote -----------------------------------------------------------------------------


@pytest.mark.parametrize("count", range(1, len(KEPT_SNAPSHOTS) + 1))
def test_every_snapshot_and_the_logs_behind_it_give_what_a_client_saw_at_the_end(count: int, tmp_path: Path) -> None:
    """Each znode with all numbers of its stat, and with the digest that the server noted."""
    tree, read = read_server_files([copied(tmp_path / "copy", *KEPT_SNAPSHOTS[:count], *KEPT_LOGS)])
    assert as_seen(tree) == seen_in(KEPT)
    assert read.snapshot == KEPT_SNAPSHOTS[count - 1].name
    assert read.zxid == KEPT_END
    assert read.verified
    assert (read.skipped, read.torn) == ((), "")


def test_a_refused_multi_is_in_the_log_and_nothing_of_it_in_the_tree() -> None:
    tree, _ = read_server_files([KEPT])
    assert any(NEVER_MADE.encode() in each.read_bytes() for each in KEPT_LOGS)
    assert tree.find(f"/h/{NEVER_MADE}") is None
    assert data(tree, "/h") != b"never set"


def test_a_directory_is_named_with_or_without_its_version_and_logs_may_be_elsewhere(tmp_path: Path) -> None:
    copied(tmp_path / "copy", *KEPT_SNAPSHOTS, *KEPT_LOGS).rename(tmp_path / "version-2")
    (tmp_path / "myid").write_text("1\n")
    expected = read_server_files([KEPT])[1]
    assert read_server_files([tmp_path])[1] == read_server_files([tmp_path, tmp_path])[1] == expected
    snapshots, logs = copied(tmp_path / "data", *KEPT_SNAPSHOTS), copied(tmp_path / "logs", *KEPT_LOGS)
    assert read_server_files([snapshots, logs])[1] == read_server_files([logs, snapshots])[1] == expected


def test_the_report_says_which_files_and_up_to_when(tmp_path: Path) -> None:
    copy = copied(tmp_path / "copy", *KEPT_SNAPSHOTS[:3], *KEPT_LOGS)
    read = read_server_files([copy])[1]
    first = max(each for each in KEPT_LOGS if int(each.suffix[1:], 16) <= int(KEPT_SNAPSHOTS[2].suffix[1:], 16) + 1)
    assert read.snapshot == KEPT_SNAPSHOTS[2].name
    assert read.logs == tuple(each.name for each in KEPT_LOGS[KEPT_LOGS.index(first) :])
    assert 1_700_000_000_000 < read.at_ms < 2_000_000_000_000


# --- copies that were made while the server wrote ---------------------------------------------------------


def entries_of(log: bytes) -> list[int]:
    """Where entries begin, and where the last one ends."""
    places = [HEADER_BYTES]
    while (length := struct.unpack_from(">i", log, places[-1] + 8)[0]) > 0:
        places.append(places[-1] + 13 + length)
    return places


@pytest.mark.parametrize("padded", [True, False], ids=["zeros behind", "cut"])
def test_a_log_that_ends_anywhere_gives_the_tree_up_to_its_last_whole_entry(tmp_path: Path, padded: bool) -> None:
    """Whole entries up to the place are read; the reading says where the one begins that is not whole."""
    copy = copied(tmp_path / "copy", KEPT_SNAPSHOTS[0], *KEPT_LOGS[:2])
    newest = copy / KEPT_LOGS[1].name
    content = newest.read_bytes()
    places = entries_of(content)
    first = int(newest.suffix[1:], 16)
    for end in range(places[0], places[-1] + 1, 7):
        newest.write_bytes(content[:end] + bytes(len(content) - end) * padded)
        read = read_server_files([copy])[1]
        whole = sum(place <= end for place in places) - 1
        assert read.zxid == first - 1 + whole
        torn = end not in places and bool(content[places[whole] : end].strip(b"\0"))
        assert (read.torn, read.torn_at) == ((newest.name, places[whole]) if torn else ("", -1))


def test_a_log_that_was_just_begun_is_empty(tmp_path: Path) -> None:
    copy = write(tmp_path / "copy", snapshot_0=a_snapshot(ROOT), log_1=a_log(a_create(1, "/a")), log_2=b"")
    read = read_server_files([copy])[1]
    assert (read.zxid, read.torn, read.torn_at) == (1, "log.2", 0)


def test_a_torn_log_goes_on_in_the_next_one_as_a_server_that_was_killed_does(tmp_path: Path) -> None:
    torn = a_log(a_create(1, "/a"), a_create(2, "/lost")[:20])
    copy = write(tmp_path / "copy", snapshot_0=a_snapshot(ROOT), log_1=torn, log_2=a_log(a_create(2, "/b", cversion=2)))
    tree, read = read_server_files([copy])
    assert (read.zxid, read.torn, read.logs) == (2, "", ("log.1", "log.2"))
    assert tree.find("/lost") is None
    assert tree.find("/b") is not None


def test_zeros_in_the_middle_are_no_end(tmp_path: Path) -> None:
    log = a_log(a_create(1, "/a"), bytes(500), a_create(2, "/b"))
    copy = write(tmp_path / "copy", snapshot_0=a_snapshot(ROOT), log_1=log)
    assert "log.1 cannot be audited: at offset " in refused(copy)
    assert "more behind" in refused(copy)


def test_logs_that_were_copied_before_the_snapshot_was_finished_are_refused(tmp_path: Path) -> None:
    """The snapshot has a change of transaction 9, and perhaps not one of 8."""
    znodes = {**ROOT, "/a": (b"", a_stat(3)), "/b": (b"", a_stat(9))}
    logs = a_log(*(an_error(zxid) for zxid in range(1, 8)))
    copy = write(tmp_path / "by znode", snapshot_5=a_snapshot(znodes), log_1=logs)
    assert "it has changes up to 0x9, and the transaction logs end at 0x7" in refused(copy)
    copy = write(tmp_path / "by digest", snapshot_5=a_snapshot(ROOT, digest=(8, 1)), log_1=logs)
    assert "it has changes up to 0x8, and the transaction logs end at 0x7" in refused(copy)


def test_a_snapshot_that_is_not_whole_is_skipped_and_named(tmp_path: Path) -> None:
    copy = copied(tmp_path / "copy", *KEPT_SNAPSHOTS, *KEPT_LOGS)
    torn, damaged = KEPT_SNAPSHOTS[-1].name, KEPT_SNAPSHOTS[-2].name
    (copy / torn).write_bytes((copy / torn).read_bytes()[:-30])
    content = bytearray((copy / damaged).read_bytes())
    content[content.index(b"/h/") + 60] ^= 1
    (copy / damaged).write_bytes(content)
    tree, read = read_server_files([copy])
    assert as_seen(tree) == seen_in(KEPT)
    assert read.snapshot == KEPT_SNAPSHOTS[-3].name
    assert read.skipped == (
        SkippedFile(torn, "it ends too early"),
        SkippedFile(damaged, "its checksum is wrong"),
    )


@pytest.mark.parametrize("end", range(0, 457, 11))
def test_a_snapshot_that_is_cut_anywhere_is_never_taken_for_a_whole_one(end: int, tmp_path: Path) -> None:
    """But where all znodes are there with their checksum, and what newer servers add is not there at all."""
    content = KEPT_SNAPSHOTS[0].read_bytes()
    copy = write(tmp_path / "copy", snapshot_0=content[:end], log_1=KEPT_LOGS[0].read_bytes())
    assert "no snapshot in it is whole (snapshot.0: it ends too early)" in refused(copy)


def test_a_wrong_byte_anywhere_in_a_snapshot_is_seen(tmp_path: Path) -> None:
    content = KEPT_SNAPSHOTS[0].read_bytes()
    copy = write(tmp_path / "copy", log_1=KEPT_LOGS[0].read_bytes())
    for place, byte in enumerate(content):
        write(copy, snapshot_0=content[:place] + bytes([byte ^ 0x55]) + content[place + 1 :])
        assert "no snapshot in it is whole" in refused(copy), place


@pytest.mark.parametrize(("version", "digest"), [(1, text("1a")), (3, struct.pack(">q", 77))])
def test_a_digest_of_another_version_is_left_alone(version: int, digest: bytes, tmp_path: Path) -> None:
    snapshot = with_checksum(a_snapshot(ROOT) + struct.pack(">qi", 1, version) + digest)
    copy = write(tmp_path / "copy", snapshot_0=snapshot, log_1=a_log(an_error(1)))
    assert not read_server_files([copy])[1].verified
    write(copy, log_1=a_log())
    assert "it has changes up to 0x1" in refused(copy), "that it names a transaction counts"


def test_what_3_9_adds_behind_the_digest_is_left_alone(tmp_path: Path) -> None:
    tree = ZnodeTree()
    tree.put("", b"", STAT.pack(*a_stat()))
    snapshot = with_checksum(a_snapshot(ROOT, digest=(1, tree.digest())) + struct.pack(">q", 1))
    copy = write(tmp_path / "copy", snapshot_1=snapshot, log_1=a_log(an_error(1)))
    assert read_server_files([copy])[1].verified


# --- damage and gaps --------------------------------------------------------------------------------------


def test_a_wrong_byte_anywhere_in_an_entry_is_told_with_file_and_offset(tmp_path: Path) -> None:
    copy = copied(tmp_path / "copy", KEPT_SNAPSHOTS[0], *KEPT_LOGS)
    log = copy / KEPT_LOGS[1].name
    content = log.read_bytes()
    begin, end = entries_of(content)[3:5]
    for place in range(begin, end):
        log.write_bytes(content[:place] + bytes([content[place] ^ 0x55]) + content[place + 1 :])
        told = refused(copy)
        if (
            f"{log.name} cannot be audited: at offset {begin}: " not in told
        ):  # an entry that seems to go on in the zeros
            assert begin + 8 <= place < begin + 12, "only its length"
            assert "transactions between them are missing" in told


@pytest.mark.parametrize("missing", range(1, len(KEPT_LOGS)))
def test_a_log_that_is_missing_is_told(missing: int, tmp_path: Path) -> None:
    left = [each for place, each in enumerate(KEPT_LOGS) if place != missing]
    copy = copied(tmp_path / "copy", KEPT_SNAPSHOTS[0], *left)
    if missing == len(KEPT_LOGS) - 1:  # the newest: that is an older copy
        assert read_server_files([copy])[1].zxid < KEPT_END
    else:
        assert "transactions between them are missing" in refused(copy)


def test_a_log_that_begins_behind_the_snapshot_is_refused(tmp_path: Path) -> None:
    copy = write(tmp_path / "copy", snapshot_5=a_snapshot(ROOT), log_7=a_log(an_error(7)))
    assert "transaction 0x7 follows 0x5: transactions between them are missing" in refused(copy)


def test_transactions_that_go_back_are_refused(tmp_path: Path) -> None:
    logs = {"log_1": a_log(an_error(1), an_error(2), an_error(3)), "log_3": a_log(an_error(3))}
    copy = write(tmp_path / "copy", snapshot_0=a_snapshot(ROOT), **logs)
    assert "transaction 0x3 follows 0x3: these are not in their order" in refused(copy)


@pytest.mark.parametrize(
    ("before", "zxid", "expected"),
    [
        (5, 6, True),
        (5, 7, False),
        (5, 5, False),
        (5, EPOCH + 1, True),
        (5, EPOCH + 2, False),
        (EPOCH, EPOCH + 1, True),
        (EPOCH + 7, 3 * EPOCH + 1, True),
        (3 * EPOCH + 1, EPOCH + 1, False),
    ],
)
def test_a_new_leader_begins_its_epoch_at_one(before: int, zxid: int, expected: bool) -> None:
    assert is_next(before, zxid) is expected


def test_a_follower_that_took_a_snapshot_from_its_leader_has_no_log_before_it(tmp_path: Path) -> None:
    start = EPOCH + 100
    znodes = {**ROOT, "/a": (b"", a_stat(start))}
    files = {
        "log_50": a_log(*(an_error(zxid) for zxid in range(0x50, 0x60))),
        f"snapshot_{start:x}": a_snapshot(znodes),
        f"log_{start + 1:x}": a_log(a_create(start + 1, "/b")),
    }
    _, read = read_server_files([write(tmp_path / "copy", **files)])
    assert read == FilesRead(
        zxid=start + 1,
        at_ms=TIME_MS + start + 1,
        snapshot=f"snapshot.{start:x}",
        logs=(f"log.{start + 1:x}",),
        skipped=(),
        torn="",
        torn_at=-1,
        verified=False,
    )


def test_a_log_that_ends_before_the_snapshot_needs_a_snapshot_of_one_moment(tmp_path: Path) -> None:
    """A server that took it from its leader, and has written nothing since."""
    log = a_log(an_error(1), an_error(2))
    copy = write(tmp_path / "copy", snapshot_9=a_snapshot(ROOT), log_1=log)
    assert "the transaction logs end at 0x2, before it" in refused(copy)
    tree = ZnodeTree()
    write(copy, snapshot_9=a_snapshot(ROOT, digest=(9, 0)))
    assert "by its digest" in refused(copy)
    tree.put("", b"", STAT.pack(*a_stat()))
    write(copy, snapshot_9=a_snapshot(ROOT, digest=(9, tree.digest())))
    read = read_server_files([copy])[1]
    assert (read.zxid, read.logs, read.at_ms, read.verified) == (9, (), 0, True)


def test_a_tree_that_the_server_did_not_have_is_refused_by_its_digest(tmp_path: Path) -> None:
    """All transactions are there, and one says something else than the server applied."""
    entry = an_entry(1, 1, create("/a"), digest=12345)
    copy = write(tmp_path / "copy", snapshot_0=a_snapshot(ROOT), log_1=a_log(entry))
    assert "gives another tree at 0x1 than the server had (by its digest)" in refused(copy)
    assert "by its digest" in refused(write(copy, log_1=a_log(entry, an_error(2)))), "an error changes nothing"
    write(copy, log_1=a_log(entry, a_delete(2, "/a")))
    assert not read_server_files([copy])[1].verified, "the digest of a newer tree is not known"


# --- which files ------------------------------------------------------------------------------------------


def test_a_gzip_snapshot_is_read_and_a_torn_one_is_skipped(tmp_path: Path) -> None:
    packed = {each: gzip.compress(each.read_bytes()) for each in KEPT_SNAPSHOTS}
    copy = copied(tmp_path / "copy", *KEPT_LOGS)
    for each, content in packed.items():
        (copy / f"{each.name}.gz").write_bytes(content)
    tree, read = read_server_files([copy])
    assert as_seen(tree) == seen_in(KEPT)
    assert read.snapshot == f"{KEPT_SNAPSHOTS[-1].name}.gz"
    newest = copy / read.snapshot
    for spoiled in (
        packed[KEPT_SNAPSHOTS[-1]][:-5],
        packed[KEPT_SNAPSHOTS[-1]][:50],
        b"no gzip",
        b"\x1f\x8b" + b"x" * 50,
    ):
        newest.write_bytes(spoiled)
        read = read_server_files([copy])[1]
        assert [each.file for each in read.skipped] == [newest.name]
        assert read.snapshot == f"{KEPT_SNAPSHOTS[-2].name}.gz"


def test_a_snappy_snapshot_is_refused_by_name(tmp_path: Path) -> None:
    copy = copied(tmp_path / "copy", *KEPT_SNAPSHOTS, *KEPT_LOGS)
    (copy / "snapshot.fff.snappy").write_bytes(b"\x82SNAPPY\x00")
    assert "snapshot.fff.snappy cannot be audited: it is packed by snappy" in refused(copy)


def test_files_of_two_servers_are_refused(tmp_path: Path) -> None:
    one = write(tmp_path / "one", snapshot_0=a_snapshot(ROOT), log_1=a_log(an_error(1)))
    other = write(tmp_path / "other", snapshot_0=a_snapshot(ROOT))
    assert f"{other} cannot be audited: {one} has snapshot files, too" in refused(one, other)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda where: None, "No such file or directory"),
        (lambda where: where.mkdir(), "it has no snapshot.* and no log.*"),
        (lambda where: write(where, log_1=a_log(an_error(1))), "there is no snapshot (snapshot.*) in it"),
        (lambda where: write(where, snapshot_0=a_snapshot(ROOT)), "name the directory of dataLogDir, too"),
        (lambda where: write(where, snapshot_0=b"not one", log_1=a_log()), "no magic ZKSN at its beginning"),
        (lambda where: write(where, snapshot_0=a_snapshot(ROOT), log_1=b"x" * 90), "no magic ZKLG at its beginning"),
        (lambda where: write(where, snapshot_0=b"ZKSN\0\0\0\3" + bytes(90), log_1=a_log()), "version 3"),
        (lambda where: write(where, snapshot_0=a_snapshot(ROOT), log_1=b"ZKLG\0\0\0\3" + bytes(90)), "version 3"),
        (
            lambda where: write(where, snapshot_0=a_snapshot({**ROOT, "/a/b": ROOT[""]}), log_1=a_log()),
            "/a/b without a parent",
        ),
        (
            lambda where: write(where, snapshot_0=a_snapshot(ROOT), log_1=a_log(an_entry(1, 77, b""))),
            "log.1 cannot be audited: at offset 16: a transaction of type 77",
        ),
        (
            lambda where: write(where, snapshot_0=a_snapshot(ROOT), log_1=a_log(an_entry(1, 2, b"\0\0\0\xff/a"))),
            "an entry that is shorter than its type takes",
        ),
    ],
)
def test_what_is_no_copy_of_a_server_is_told(make: Callable[[Path], object], told: str, tmp_path: Path) -> None:
    make(tmp_path / "copy")
    assert told in refused(tmp_path / "copy")


def test_other_files_of_the_directory_are_left_alone(tmp_path: Path) -> None:
    copy = copied(tmp_path / "copy", *KEPT_SNAPSHOTS, *KEPT_LOGS)
    write(copy, acceptedEpoch=b"1", snapshot_ff_tmp=b"", log_1_bak=b"", snapshot_xyz=b"")
    assert read_server_files([copy])[1].zxid == KEPT_END


# --- what fuzzy snapshots make of the log -----------------------------------------------------------------


def test_changes_that_the_snapshot_has_already_are_left_out(tmp_path: Path) -> None:
    """It was begun at 5 and has changes up to 9. What was made and deleted meanwhile is nowhere in it."""
    znodes = {
        "": (b"", a_stat(cversion=4, pzxid=9)),
        "/kept": (b"new", a_stat(6, mzxid=8, version=2)),
        "/again": (b"", a_stat(9)),
    }
    log = a_log(
        a_create(6, "/kept", b"old", cversion=2),
        a_set(7, "/kept", b"newer", 1),
        a_set(8, "/kept", b"new", 2),
        a_create(9, "/again", cversion=4),
        a_delete(10, "/gone"),
        a_set(11, "/gone", b"", 3),
        a_create(12, "/gone/below"),
    )
    tree, read = read_server_files([write(tmp_path / "copy", snapshot_5=a_snapshot(znodes), log_6=log)])
    assert read.zxid == 12
    assert data(tree, "/kept") == b"new"
    kept, root = tree.find("/kept"), tree.find("")
    assert kept is not None
    assert root is not None
    assert (kept.stat.czxid, kept.stat.mzxid, kept.stat.version) == (6, 8, 2)
    assert (root.stat.cversion, root.stat.pzxid) == (4, 10), "a delete of what is gone is one of the children, too"
    assert sorted(root.children or ()) == ["again", "kept"]
