"""Bundles for those who act in our place, and the evidence that they leave: what is asked, believed and asked again."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from migrator.findings.finding import FindingError
from migrator.findings.fleet import COPY_WANTED, EVIDENCE_REFUSED, EXCHANGE_SHARED, FILE_ABSENT
from migrator.fleet.actuator import Done, Instruction, ProcessState
from migrator.fleet.by_others import EVIDENCE_AGE_MAX_S, STOP_AGE_MAX_S, ByOthers
from migrator.fleet.files import Present, Written, write_file
from tests.support.hands import form_of, leave, now, sha256

FILE = "/etc/kafka/server.properties"


def others(exchange: Path, **more: Any) -> ByOthers:
    made = ByOthers("external", 1, "b1", "kafka.service", exchange, cluster="orders", cluster_id="abc")
    return replace(made, **more)


def asked(answer: object) -> Instruction:
    assert isinstance(answer, Instruction), answer
    assert answer.bundle is not None
    return answer


def bundle_of(answer: object) -> Path:
    return Path(asked(answer).bundle or "")


def answer(of: Path, **more: Any) -> None:
    """Good evidence; more: what is wrong with it."""
    form = form_of(of)
    seen = {"by": "Ada", "at": now(), "cluster_id": "abc"}
    if "sha256" in form:
        seen["sha256"] = sha256(str(of / "new-file"))
    if "state" in form:
        seen["state"] = "stopped" if "stop" in of.name else "running"
    leave(of, {**seen, **more})


def copy_to(exchange: Path, path: str, content: bytes, age_s: float = 0.0) -> Path:
    copy = exchange / "1/present" / path.lstrip("/")
    copy.parent.mkdir(parents=True, exist_ok=True)
    copy.write_bytes(content)
    os.utime(copy, (time.time() - age_s,) * 2)
    return copy


def code_of(act: Any, *arguments: Any) -> str:
    with pytest.raises(FindingError) as caught:
        act(*arguments)
    return caught.value.code


def test_a_bundle_says_what_to_do_where_and_holds_the_file_for_its_owner_alone(tmp_path: Path) -> None:
    instruction = asked(others(tmp_path).write(FILE, b"a=1\n"))
    bundle = Path(instruction.bundle or "")
    assert (bundle / "new-file").read_bytes() == b"a=1\n"
    assert "b1" in instruction.text
    assert FILE in instruction.text
    assert str(bundle / "new-file") in instruction.text
    assert {each.stat().st_mode & 0o077 for each in (bundle, *bundle.iterdir())} == {0}
    assert others(tmp_path).write(FILE, b"a=1\n") == instruction  # asked again, same bundle


WRONG: dict[str, dict[str, Any]] = {
    "its sha256 is not that": {"sha256": "0" * 64},
    "it is of step 0007-stop": {"step": "0007-stop"},
    "answers another bundle": {"bundle": "0" * 64},
    "it is of node 2, not of 1": {"node": 2},
    "cluster_id is 'xyz', and the cluster's is abc": {"cluster_id": "xyz"},
    "does not say who acted": {"by": "YOUR NAME"},
    "before the step was asked for": {"at": "2020-01-01T00:00:00Z"},
    "later than it was left here": {"at": "2999-01-01T00:00:00Z"},
    "yesterday": {"at": "yesterday"},
    "unknown field": {"extra": 1},
}


@pytest.mark.parametrize("reason", WRONG)
def test_evidence_that_does_not_answer_this_very_step_is_refused_by_name(tmp_path: Path, reason: str) -> None:
    bundle = bundle_of(others(tmp_path).write(FILE, b"a=1\n"))
    answer(bundle, **WRONG[reason])
    with pytest.raises(FindingError) as caught:
        others(tmp_path).write(FILE, b"a=1\n")
    assert caught.value.code == EVIDENCE_REFUSED.code == "Z2K-7026"
    if reason not in ("yesterday", "unknown field"):
        assert reason in str(caught.value)
    assert code_of(others(tmp_path).read, FILE) == COPY_WANTED.code, "what is not believed changes no file"


def test_a_form_that_nobody_filled_in_is_no_evidence(tmp_path: Path) -> None:
    acts: list[Callable[[], object]] = [others(tmp_path).stop, lambda: others(tmp_path).write(FILE, b"a=1\n")]
    for act in acts:
        bundle = bundle_of(act())
        leave(bundle, {})
        assert code_of(act) == EVIDENCE_REFUSED.code


def test_evidence_of_a_write_is_its_end_and_the_file_has_its_new_content(tmp_path: Path) -> None:
    copy_to(tmp_path, FILE, b"old\n", age_s=60)
    assert others(tmp_path).read(FILE) == b"old\n"
    bundle = bundle_of(others(tmp_path).write(FILE, b"a=1\n"))
    assert "SHA-256" in (bundle / "README.txt").read_text()
    assert others(tmp_path).read(FILE) == b"old\n"
    answer(bundle)
    assert isinstance(others(tmp_path).write(FILE, b"a=1\n"), Done)
    assert others(tmp_path).read(FILE) == b"a=1\n"
    time.sleep(0.02)
    copy_to(tmp_path, FILE, b"changed by somebody\n")
    assert others(tmp_path).read(FILE) == b"changed by somebody\n", "a later copy says more"


def test_what_nobody_copied_is_asked_for_and_never_empty(tmp_path: Path) -> None:
    with pytest.raises(FindingError) as caught:
        others(tmp_path).read(FILE)
    copy = tmp_path / "1/present/etc/kafka/server.properties"
    assert caught.value.code == COPY_WANTED.code == "Z2K-7060"
    assert str(copy) in str(caught.value)
    assert others(tmp_path).list("/data") is None
    assert others(tmp_path).status().state is ProcessState.NOT_READ
    copy_to(tmp_path, FILE, b"a=1\n")
    assert others(tmp_path).read("/etc/kafka/../kafka/server.properties") == b"a=1\n"
    assert code_of(others(tmp_path).read, "/../../../1/present/etc/kafka/server.properties") == COPY_WANTED.code
    copy.unlink()
    copy.with_name("server.properties.absent").touch()
    assert code_of(others(tmp_path).read, FILE) == FILE_ABSENT.code


def test_a_copy_that_is_old_is_asked_for_again_except_of_a_kept_predecessor(tmp_path: Path) -> None:
    kept = f"{FILE}.zk2kraft-0123456789abcdef"
    for path in (FILE, kept):
        copy_to(tmp_path, path, b"a=1\n", age_s=EVIDENCE_AGE_MAX_S + 60)
    assert code_of(others(tmp_path).read, FILE) == COPY_WANTED.code
    assert others(tmp_path).read(kept) == b"a=1\n", "its name has its checksum"
    copy_to(tmp_path, FILE, b"a=1\n", age_s=-3600)
    assert code_of(others(tmp_path).read, FILE) == COPY_WANTED.code, "a time in the future is no time"


def test_a_file_that_kafka_writes_is_asked_for_again_after_a_start(tmp_path: Path) -> None:
    for path in ("/data/meta.properties", FILE):
        copy_to(tmp_path, path, b"version=0\n", age_s=10)
    assert others(tmp_path).read("/data/meta.properties") == b"version=0\n"
    others(tmp_path).start()
    assert code_of(others(tmp_path).read, "/data/meta.properties") == COPY_WANTED.code
    assert others(tmp_path).read(FILE) == b"version=0\n"


def test_a_node_counts_as_stopped_from_the_evidence_until_a_start_is_asked(tmp_path: Path) -> None:
    bundle = bundle_of(others(tmp_path).stop())
    assert others(tmp_path).status().state is ProcessState.NOT_READ
    answer(bundle, state="running")
    assert code_of(others(tmp_path).stop) == EVIDENCE_REFUSED.code
    answer(bundle)
    assert others(tmp_path).status().state is ProcessState.STOPPED
    assert bundle_of(others(tmp_path).stop()) == bundle, "a stop that is repeated is the same"
    started = bundle_of(others(tmp_path).start())
    assert bundle_of(others(tmp_path).start()) == started
    assert others(tmp_path).status().state is ProcessState.NOT_READ
    answer(started)
    assert bundle_of(others(tmp_path).start()) != started, "the next start is another one"
    assert bundle_of(others(tmp_path).stop()) != bundle, "and so is the next stop"


def test_an_old_stop_is_asked_for_again(tmp_path: Path) -> None:
    bundle = bundle_of(others(tmp_path).stop())
    answer(bundle)
    later = others(tmp_path, clock=lambda: time.time() + STOP_AGE_MAX_S + 1)
    assert later.status().state is ProcessState.NOT_READ
    assert bundle_of(later.stop()) != bundle


def test_what_a_later_step_makes_void_is_withdrawn(tmp_path: Path) -> None:
    first = bundle_of(others(tmp_path).write(FILE, b"a=1\n"))
    second = bundle_of(others(tmp_path).write(FILE, b"b=1\n"))
    assert not (first / "new-file").exists()
    assert (first / "README.txt").read_text().startswith("WITHDRAWN")
    assert not others(tmp_path).answered()
    others(tmp_path).stop()
    assert (second / "README.txt").read_text().startswith("WITHDRAWN"), "a stop begins anew"
    with pytest.raises(ValueError, match="substring"):
        form_of(second)


def test_nobody_is_told_to_replace_a_file_before_its_predecessor_lies_there(tmp_path: Path) -> None:
    copy_to(tmp_path, FILE, b"old\n")
    actuator, present = others(tmp_path), Present(FILE, b"old\n")
    keep = asked(write_file(actuator, 1, FILE, b"new\n", present))
    assert f"cp -p {FILE} {FILE}.zk2kraft-" in keep.text
    assert asked(write_file(actuator, 1, FILE, b"new\n", present)) == keep
    answer(Path(keep.bundle or ""))
    put = asked(write_file(actuator, 1, FILE, b"new\n", present))
    assert "put the file" in put.text
    answer(Path(put.bundle or ""))
    written = write_file(actuator, 1, FILE, b"new\n", present)
    assert isinstance(written, Written)
    assert written.verified


def test_two_clusters_in_one_exchange_are_noticed_before_anybody_acts(tmp_path: Path) -> None:
    others(tmp_path).stop()
    other = others(tmp_path, cluster="payments")
    for act in (other.stop, other.start, other.status, other.answered):
        assert code_of(act) == EXCHANGE_SHARED.code == "Z2K-7059"
