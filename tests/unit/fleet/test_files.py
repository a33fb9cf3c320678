"""A file is written with its predecessor kept, read back, and later compared with what was rendered."""

from __future__ import annotations

import pytest

from migrator.findings.finding import FindingError
from migrator.fleet.files import (
    Present,
    Written,
    checksum_of,
    drift,
    journal_of,
    predecessor_path,
    read_present,
    write_file,
)
from migrator.fleet.properties_file import parse_properties
from migrator.fleet.render import FileKind, Rendered, Wanted, render
from tests.support.hosts import FakeHost

PATH = "/etc/kafka/server.properties"
BEFORE = b"broker.id=1\nzookeeper.connect=zk:2181\ninter.broker.protocol.version=3.9\nssl.key.password=hunter2\n"
WANTED = Wanted(voters="3000@c:9093", controller_listener="CONTROLLER")
KEY = b"of this service"


def rendered() -> Rendered:
    return render("broker", parse_properties(BEFORE, PATH), FileKind.MIGRATION, WANTED).require()


def test_a_written_file_keeps_its_predecessor_beside_it_under_its_checksum() -> None:
    host = FakeHost(files={PATH: BEFORE})
    written = write_file(host, 1, PATH, rendered().content, Present(PATH, BEFORE))
    assert isinstance(written, Written)
    assert written.verified
    assert written.predecessor == predecessor_path(PATH, checksum_of(BEFORE))
    assert host.files == {PATH: rendered().content, written.predecessor: BEFORE}
    assert host.acts == [("write", written.predecessor), ("write", PATH)]  # the predecessor first


def test_a_step_that_was_cut_short_is_repeated_without_a_second_write() -> None:
    host = FakeHost(files={PATH: BEFORE})
    first = write_file(host, 1, PATH, rendered().content, Present(PATH, BEFORE))
    acts = list(host.acts)
    assert write_file(host, 1, PATH, rendered().content, Present(PATH, BEFORE)) == first
    assert host.acts == acts


def test_somebody_elses_change_is_never_written_over() -> None:
    host = FakeHost(files={PATH: BEFORE + b"num.io.threads=16\n"})
    with pytest.raises(FindingError) as refused:
        write_file(host, 1, PATH, rendered().content, Present(PATH, BEFORE))
    assert refused.value.code == "Z2K-7038"
    assert host.acts == []


def test_a_write_that_reads_back_differently_is_named() -> None:
    host = FakeHost(files={PATH: BEFORE}, spoil=b"")
    with pytest.raises(FindingError) as refused:
        write_file(host, 1, PATH, rendered().content, Present(PATH, BEFORE))
    assert refused.value.code == "Z2K-7037"
    assert host.files[PATH] == BEFORE  # the predecessor was not kept, so the file was not touched


def test_drift_names_the_keys_and_never_their_values() -> None:
    journal = journal_of(1, PATH, rendered(), KEY)
    assert "hunter2" not in repr(journal)
    assert drift(journal, Present(PATH, rendered().content), KEY) is None
    changed = rendered().content.replace(b"hunter2", b"hunter3").replace(b"zk:2181", b"zk:2182") + b"new.key=1\n"
    found = drift(journal, Present(PATH, changed), KEY)
    assert found is not None
    assert found.keys == ("new.key", "ssl.key.password", "zookeeper.connect")
    assert found.occurrence.code == "Z2K-7036"
    assert "hunter" not in found.occurrence.text
    only_form = drift(journal, Present(PATH, b"# hello\n" + rendered().content), KEY)
    assert only_form is not None
    assert only_form.keys == ()


def test_a_file_that_is_not_there_is_a_finding_and_its_content_is_in_no_text() -> None:
    with pytest.raises(FindingError) as refused:
        read_present(FakeHost(), PATH)
    assert refused.value.code == "Z2K-7024"
    assert "hunter2" not in repr(Present(PATH, BEFORE))
