"""The export of a tree: what is restored is what was there, and a file that is not whole is not used."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from migrator.findings.finding import FindingError
from migrator.zk import paths
from migrator.zk.backup import BYTES_PER_MULTI, CREATES_PER_MULTI, export, foreign_roots, restore, verify
from migrator.zk.multi import Create, Multi, SetData
from migrator.zk.pipeline import UNLIMITED, ReadLimits
from tests.support.fake_zookeeper import FakeEnsemble, FakeSession
from tests.support.seeded_tree import SeededTree


def a_cluster() -> FakeEnsemble:
    ensemble = FakeEnsemble()
    SeededTree(topics=2, partitions=2).plant(ensemble)
    session = ensemble.session()
    session.apply(Multi((Create("/controller", b"{}", ephemeral=True), SetData("/controller_epoch", b"2"))))
    ensemble.create("/zookeeper/quota", b"ZooKeeper's own")
    return ensemble


def exported(directory: Path) -> Path:
    file = directory / "tree.gz"
    export(a_cluster().session(), file, UNLIMITED)
    return file


def refusal(file: Path, into: FakeEnsemble | None = None) -> str:
    """The reason of Z2K-2018; nothing is created."""
    ensemble = into or FakeEnsemble()
    before = ensemble.tree()
    with pytest.raises(FindingError) as raised:
        restore(ensemble.session(), file)
    assert raised.value.code == "Z2K-2018"
    assert raised.value.occurrence.values["file"] == str(file)
    assert ensemble.tree() == before
    return str(raised.value.occurrence.values["reason"])


def persistent(ensemble: FakeEnsemble) -> dict[str, bytes]:
    return {
        path: data
        for path, data in ensemble.tree().items()
        if not ensemble.nodes[path].owner and not path.startswith("/zookeeper")
    }


def test_a_tree_restored_into_an_empty_chroot_is_the_tree_but_for_ephemeral_znodes(tmp_path: Path) -> None:
    source = a_cluster()
    info = export(source.session(), tmp_path / "tree.gz", UNLIMITED)
    target = FakeEnsemble()
    assert restore(target.session(), tmp_path / "tree.gz") == info == verify(tmp_path / "tree.gz")
    assert target.tree() == persistent(source)
    assert (info.znodes, info.ephemerals) == (len(persistent(source)) + 1, 1)


def test_a_znode_without_data_is_restored_without_data_and_not_with_a_text_of_no_bytes(tmp_path: Path) -> None:
    """Kafka throws for the latter in /latest_producer_id_block, and hands out no producer ids."""
    source = FakeEnsemble()
    source.create("/latest_producer_id_block", None)
    source.create("/config/changes", b"")
    export(source.session(), tmp_path / "tree.gz", UNLIMITED)
    target = FakeEnsemble()
    restore(target.session(), tmp_path / "tree.gz")
    assert target.nodes["/latest_producer_id_block"].data is None
    assert target.nodes["/config/changes"].data == b""


names = st.text(
    st.characters(codec="utf-8", exclude_characters="/\x00", exclude_categories=["Cs"]), min_size=1, max_size=8
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    paths=st.lists(st.lists(names.filter(lambda name: name not in {".", ".."}), min_size=1, max_size=4), max_size=8),
    data=st.data(),
)
def test_any_tree_comes_back_as_it_was(paths: list[list[str]], data: st.DataObject, tmp_path: Path) -> None:
    source = FakeEnsemble()
    for parts in paths:
        source.create("/config/" + "/".join(parts), data.draw(st.binary(max_size=40)))
    export(source.session(), tmp_path / "tree.gz", UNLIMITED)
    target = FakeEnsemble()
    restore(target.session(), tmp_path / "tree.gz")
    assert target.tree() == source.tree()


def test_a_file_ends_with_the_checksum_of_every_line_before_it(tmp_path: Path) -> None:
    lines = gzip.decompress(exported(tmp_path).read_bytes()).splitlines(keepends=True)
    assert json.loads(lines[0]) == {"format": 1}
    assert json.loads(lines[1]) == {"path": "/", "data": "", "version": 0, "ephemeral": False}
    checksum = hashlib.sha256(b"".join(lines[:-1])).hexdigest()
    assert json.loads(lines[-1]) == {"end": True, "znodes": len(lines) - 2, "sha256": checksum}


def test_only_the_owner_may_read_an_export(tmp_path: Path) -> None:
    """Credentials are in it."""
    assert exported(tmp_path).stat().st_mode & 0o777 == 0o600


@dataclass
class BreaksDown(FakeSession):
    """Reads the first level, then the connection is lost."""

    reads: int = 0

    def children_many(self, paths: Iterable[str], limits: ReadLimits = UNLIMITED) -> Iterator[list[str] | None]:
        self.reads += 1
        if self.reads > 1:
            raise ConnectionError("lost")
        return super().children_many(paths, limits)


def test_an_export_that_broke_down_leaves_no_file_under_the_name(tmp_path: Path) -> None:
    file = exported(tmp_path)
    kept = file.read_bytes()
    with pytest.raises(ConnectionError):
        export(BreaksDown(a_cluster(), 1), file, UNLIMITED)
    assert file.read_bytes() == kept
    with pytest.raises(ConnectionError):
        export(BreaksDown(a_cluster(), 1), tmp_path / "other.gz", UNLIMITED)
    assert [each.name for each in tmp_path.iterdir()] == [file.name]


def test_a_chroot_that_does_not_exist_is_not_exported_as_an_empty_tree(tmp_path: Path) -> None:
    with pytest.raises(FindingError, match="no such chroot"):
        export(FakeSession(FakeEnsemble(nodes={}), 1), tmp_path / "tree.gz", UNLIMITED)
    assert not (tmp_path / "tree.gz").exists()


# --- files that are not whole -----------------------------------------------------------------------------


def test_a_file_cut_anywhere_is_refused(tmp_path: Path) -> None:
    whole = exported(tmp_path).read_bytes()
    torn = tmp_path / "torn.gz"
    for length in range(0, len(whole), 7):
        torn.write_bytes(whole[:length])
        assert refusal(torn)


def test_a_file_with_an_altered_byte_is_refused_or_says_the_same(tmp_path: Path) -> None:
    """(A few bytes of gzip's header mean nothing.)"""
    whole = exported(tmp_path).read_bytes()
    altered = tmp_path / "altered.gz"
    refused = 0
    for place in range(0, len(whole), 3):
        altered.write_bytes(whole[:place] + bytes([whole[place] ^ 0x10]) + whole[place + 1 :])
        target = FakeEnsemble()
        try:
            restore(target.session(), altered)
        except FindingError:
            refused += 1
            assert set(target.tree()) == {"/"}
        else:
            assert target.tree() == persistent(a_cluster())
    assert refused > len(whole) / 3 - 6


def rewritten(file: Path, *lines: bytes) -> Path:
    """The same file with other lines, each packed well."""
    file.write_bytes(gzip.compress(b"".join(lines)))
    return file


def test_lines_that_were_edited_are_refused_by_the_checksum(tmp_path: Path) -> None:
    file = exported(tmp_path)
    lines = gzip.decompress(file.read_bytes()).splitlines(keepends=True)
    changed = lines[3].replace(b'"version":0', b'"version":1')
    assert changed != lines[3]
    assert "checksum" in refusal(rewritten(file, *lines[:3], changed, *lines[4:]))
    assert "checksum" in refusal(rewritten(file, *lines[:3], *lines[4:]))
    assert "checksum" in refusal(rewritten(file, *lines[:3], lines[4], lines[3], *lines[5:]))
    assert "ends early" in refusal(rewritten(file, *lines[:-1]))
    assert "follows its end" in refusal(rewritten(file, *lines, lines[3]))


@pytest.mark.parametrize("header", [b'{"format":2}\n', b'{"format":0}\n', b"{}\n", b""])
def test_an_export_of_another_format_is_not_guessed_at(tmp_path: Path, header: bytes) -> None:
    file = exported(tmp_path)
    _, *lines = gzip.decompress(file.read_bytes()).splitlines(keepends=True)
    body = b"".join([header, *lines[:-1]])
    end = json.dumps({"end": True, "znodes": len(lines) - 1, "sha256": hashlib.sha256(body).hexdigest()}).encode()
    assert "format 1" in refusal(rewritten(file, body, end + b"\n"))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not gzip at all",
        gzip.compress(b""),
        gzip.compress(b"[]\n"),
        gzip.compress(b"{\n"),
        gzip.compress(b"\xff\n"),
        gzip.compress(b'{"format":1}\n{"path":7}\n'),
        gzip.compress(b'{"format":1}\n{"x":' + b"[" * 100_000 + b"\n"),
    ],
    ids=range(8),
)
def test_what_is_no_export_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "tree.gz").write_bytes(content)
    assert refusal(tmp_path / "tree.gz")


def test_a_file_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    assert "No such file" in refusal(tmp_path / "tree.gz")


# --- into what --------------------------------------------------------------------------------------------


def test_a_chroot_that_holds_anything_is_refused(tmp_path: Path) -> None:
    target = FakeEnsemble()
    target.create("/brokers")
    assert "it has /brokers" in refusal(exported(tmp_path), target)


def test_a_fresh_zookeeper_with_its_own_znodes_counts_as_empty(tmp_path: Path) -> None:
    target = FakeEnsemble()
    target.create("/zookeeper/config", b"its own")
    restore(target.session(), exported(tmp_path))
    assert target.nodes["/zookeeper/config"].data == b"its own"


def test_a_large_tree_goes_in_requests_that_a_server_takes(tmp_path: Path) -> None:
    """A topic of some thousand partitions has a znode of a hundred KB; five hundred of them are no request."""
    source = FakeEnsemble()
    for number in range(40):
        source.create(f"/config/wide/{number:02}", bytes(90_000))
    for number in range(1_200):
        source.create(f"/brokers/many/{number:04}", b"x")
    source.create("/admin/huge", bytes(900_000))
    file = tmp_path / "tree.gz"
    export(source.session(), file, UNLIMITED)
    target = FakeEnsemble()
    restore(target.session(), file)
    assert target.tree() == source.tree()
    assert max(len(multi) for multi in target.log) == CREATES_PER_MULTI
    assert {len(multi) for multi in target.log if multi.bytes > BYTES_PER_MULTI} == {1}


# --- a chroot that is shared ------------------------------------------------------------------------------


def shared(ensemble: FakeEnsemble, *znodes: str) -> FakeEnsemble:
    for path in znodes:
        ensemble.create(path, b"of others")
    return ensemble


FOREIGN = {
    "one that is protected": "/other/tokens/keys",
    "one whose name begins as Kafka's": "/brokers-of-another/ids",
    "one whose name begins as an access list of Kafka's": "/kafka-acl-backup",
    "another Kafka's chroot": "/kafka/brokers/ids/1",
    "one at whose end ZooKeeper's own name stands": "/my/zookeeper",
    "a name of Kafka's in capitals": "/Config/topics",
}


@pytest.mark.parametrize("path", FOREIGN.values(), ids=FOREIGN)
def test_what_others_keep_in_the_chroot_is_neither_read_nor_exported(path: str, tmp_path: Path) -> None:
    source = shared(a_cluster(), path)
    source.refused |= {"/" + "/".join(path.split("/")[1:depth]) for depth in range(2, 5)}
    export(source.session(), tmp_path / "tree.gz", UNLIMITED)
    target = FakeEnsemble()
    restore(target.session(), tmp_path / "tree.gz")
    assert target.tree() == persistent(a_cluster())
    assert foreign_roots(source.session()) == ("/" + path.split("/")[1],)


def test_a_root_that_refuses_to_be_read_and_listed_is_no_obstacle(tmp_path: Path) -> None:
    """Kafka asks for its own paths only, so that a root that is shared may be closed to it."""
    source = a_cluster()
    source.refused.add("/")
    export(source.session(), tmp_path / "tree.gz", UNLIMITED)
    target = FakeEnsemble()
    restore(target.session(), tmp_path / "tree.gz")
    assert target.tree() == persistent(source)
    assert foreign_roots(source.session()) == ()


@pytest.mark.parametrize("path", ["/config", "/config/users", "/brokers/topics/topic-0", "/consumers"])
def test_a_znode_of_kafkas_that_refuses_to_be_read_is_named_and_leaves_no_file(path: str, tmp_path: Path) -> None:
    source = a_cluster()
    if path not in source.nodes:
        source.create(path)
    source.refused.add(path)
    with pytest.raises(FindingError) as raised:
        export(source.session(), tmp_path / "tree.gz", UNLIMITED)
    assert (raised.value.code, raised.value.occurrence.values["path"]) == ("Z2K-2004", path)
    assert list(tmp_path.iterdir()) == []


def test_every_root_of_kafkas_is_exported(tmp_path: Path) -> None:
    source = FakeEnsemble()
    for root in paths.ROOTS:
        source.create(f"{root}/below", root.encode())
    export(source.session(), tmp_path / "tree.gz", UNLIMITED)
    target = FakeEnsemble()
    restore(target.session(), tmp_path / "tree.gz")
    assert target.tree() == source.tree()
    assert foreign_roots(source.session()) == ()


def an_earlier_export(directory: Path, source: FakeEnsemble) -> Path:
    """As earlier releases made it: with all that is in the chroot."""
    entries = [
        {"path": path, "data": base64.b64encode(node.data or b"").decode(), "version": node.version, "ephemeral": False}
        for path, node in sorted(source.nodes.items())
        if not node.owner and not path.startswith("/zookeeper")
    ]
    lines = [json.dumps(each).encode() + b"\n" for each in ({"format": 1}, *entries)]
    end = {"end": True, "znodes": len(entries), "sha256": hashlib.sha256(b"".join(lines)).hexdigest()}
    return rewritten(directory / "earlier.gz", *lines, json.dumps(end).encode() + b"\n")


def test_an_export_of_an_earlier_release_is_restored_without_what_is_not_kafkas(tmp_path: Path) -> None:
    file = an_earlier_export(tmp_path, shared(a_cluster(), "/hbase/master", "/solr"))
    target = FakeEnsemble()
    info = restore(target.session(), file)
    assert target.tree() == persistent(a_cluster())
    assert (info.foreign, info.first) == (3, "/hbase")
    assert verify(file) == info
