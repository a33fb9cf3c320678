"""Acts on hosts: commands of templates, bounded and without a shell; bundles for those who act in our place."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

import msgspec
import pytest

from migrator.commands.bounded import run_command
from migrator.findings.finding import FindingError
from migrator.fleet.actuator import Instruction, ProcessState
from migrator.fleet.actuators import actuator_for
from migrator.fleet.by_others import ByOthers
from migrator.fleet.exec_actuator import CommandActuator
from migrator.fleet.files import Present, Written, write_file
from migrator.fleet.inventory import parse_inventory
from migrator.fleet.strict_yaml import dump_yaml, load_yaml
from migrator.fleet.templates import ACTS, FIELD, Template, load_template
from migrator.lab.servers.waiting import wait_until
from tests.support.inventories import an_inventory

SHIPPED = Path(__file__).resolve().parents[3] / "docker" / "actuators"
SH = "/bin/sh"
STATUS = 'test -e "$1" && echo ActiveState=active || echo ActiveState=failed'


def a_template(**acts: Any) -> dict[str, Any]:
    """The shipped commands for files, which are real here, and a process that is a file."""
    shipped = load_yaml((SHIPPED / "local-systemd.yaml").read_bytes())["acts"]
    of_files = {name: shipped[name] for name in ("read", "list", "write")}
    others = {
        "stop": {"argv": [SH, "-c", 'rm -f -- "$1"', "sh", "{running}"]},
        "start": {"argv": [SH, "-c", 'echo $$ > "$1"', "sh", "{running}"]},
        "status": {"argv": [SH, "-c", STATUS, "sh", "{running}"]},
    }
    return {"version": 1, "acts": {**of_files, **others, **acts}}


def a_host(directory: Path, **acts: Any) -> CommandActuator:
    template = msgspec.convert(a_template(**acts), Template)
    return CommandActuator(1, template, {"host": "b1", "running": str(directory / "running")}, {})


def put_template(directory: Path, document: dict[str, Any], name: str = "t.yaml") -> Path:
    directory.mkdir(mode=0o755, exist_ok=True)
    file = directory / name
    file.write_text(dump_yaml(document))
    file.chmod(0o644)
    return file


def code_of(act: Any, *arguments: Any) -> str:
    with pytest.raises(FindingError) as error:
        act(*arguments)
    return error.value.code


def test_a_file_of_a_host_is_read_listed_and_replaced_with_owner_and_mode_kept(tmp_path: Path) -> None:
    host, file = a_host(tmp_path), tmp_path / "it's a -file; $(x)"
    file.write_bytes(b"before\n")
    file.chmod(0o640)
    assert host.read(str(file)) == b"before\n"
    content = bytes(range(1, 256)) * 4_000  # more than a pipe holds
    written = write_file(host, 1, str(file), content, Present(str(file), b"before\n"))
    assert isinstance(written, Written)
    assert written.verified
    assert file.read_bytes() == content
    assert file.stat().st_mode & 0o777 == 0o640
    assert written.predecessor is not None
    assert Path(written.predecessor).read_bytes() == b"before\n"
    assert Path(written.predecessor).stat().st_mode & 0o077 == 0
    assert host.list(str(tmp_path)) == tuple(sorted([file.name, Path(written.predecessor).name]))


def test_a_file_that_does_not_exist_is_no_empty_file(tmp_path: Path) -> None:
    assert code_of(a_host(tmp_path).read, str(tmp_path / "none")) == "Z2K-7024"
    assert code_of(a_host(tmp_path).list, str(tmp_path / "none")) == "Z2K-7024"


def test_a_process_is_stopped_started_and_its_state_read(tmp_path: Path) -> None:
    host = a_host(tmp_path)
    host.start()
    assert host.status().state is ProcessState.RUNNING
    host.stop()
    assert host.status().state is ProcessState.STOPPED
    odd = a_host(tmp_path, status={"argv": ["echo", "ActiveState=activating"]})
    assert odd.status().state is ProcessState.NOT_READ  # neither: a supervisor is about to start it again


def test_a_stop_ends_only_when_the_host_says_stopped(tmp_path: Path) -> None:
    later = {"argv": [SH, "-c", '(sleep 0.7; rm -f -- "$1") >/dev/null 2>&1 &', "sh", "{running}"]}
    host = a_host(tmp_path, stop=later)  # as a supervisor that answers before it obeys
    host.start()
    host.stop()
    assert host.status().state is ProcessState.STOPPED
    deaf = a_host(tmp_path, stop={"argv": ["true"], "timeout_s": 0.5})
    deaf.start()
    assert code_of(deaf.stop) == "Z2K-7022"
    again = a_host(tmp_path, status={"argv": ["echo", "ActiveState=activating"]}, stop=deaf.template.acts["stop"])
    assert code_of(again.stop) == "Z2K-7022"  # between two attempts: the supervisor starts it again


def test_a_stop_goes_on_asking_a_host_that_loses_the_connection_meanwhile(tmp_path: Path) -> None:
    """The unit has stopped; one status that ssh could not ask for is no answer."""
    once = f"if test ! -e {tmp_path}/lost; then touch {tmp_path}/lost; echo reset >&2; exit 255; fi; {STATUS}"
    host = a_host(tmp_path, status={"argv": [SH, "-c", once, "sh", "{running}"]})
    host.start()
    host.stop()
    assert not (tmp_path / "running").exists()
    gone = {"argv": [SH, "-c", "exit 255"]}
    never = a_host(tmp_path, status=gone, stop={"argv": ["true"], "timeout_s": 0.5})
    assert code_of(never.stop) == "Z2K-7046"  # not the one that says that it does not stop


def test_an_act_ends_in_time_with_everything_that_it_started(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    began = time.monotonic()
    for limit_s in (0.3, 3.0, 30.0):  # more than the first only where its child did not begin within that
        slow = {"argv": [SH, "-c", f"sleep 1000 & echo $! > {pid}.new; mv {pid}.new {pid}; wait"], "timeout_s": limit_s}
        assert code_of(a_host(tmp_path, stop=slow).stop) == "Z2K-7022"
        if pid.exists():
            break
    assert time.monotonic() - began < 300
    child = int(pid.read_text())
    wait_until(lambda: "it lives" if lives(child) else None, name="the child of the act", deadline_s=60)


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_an_act_that_started_a_server_ends_although_the_server_keeps_its_pipe(tmp_path: Path) -> None:
    start = {"argv": [SH, "-c", f"sleep 1000 & echo $! > {tmp_path}/pid"], "timeout_s": 120}
    began = time.monotonic()
    a_host(tmp_path, start=start).start()
    assert time.monotonic() - began < 60
    os.kill(int((tmp_path / "pid").read_text()), 9)  # it lived until now


def test_output_is_bounded_and_failures_say_nothing_of_it(tmp_path: Path) -> None:
    loud = {"argv": ["cat", "/dev/zero"], "output_bytes_max": 1000}
    assert code_of(a_host(tmp_path, read=loud).read, "/f") == "Z2K-7023"
    failing = {"argv": [SH, "-c", "echo ssl.key.password=hunter2; echo no such unit >&2; exit 3"]}
    with pytest.raises(FindingError) as error:
        a_host(tmp_path, read=failing).read("/f")
    assert error.value.code == "Z2K-7021"
    assert "no such unit" in str(error.value)
    assert "hunter2" not in str(error.value)
    missing = {"argv": ["/no/such/command"]}
    assert code_of(a_host(tmp_path, stop=missing).stop) == "Z2K-7046"


def test_a_command_gets_no_variable_that_is_not_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZK2KRAFT_TOKEN", "hunter2")
    words = [sys.executable, "-c", "import os; print(sorted(os.environ))"]
    assert b"TOKEN" not in run_command(words, limit_s=60, output_bytes_max=10_000).stdout


@pytest.mark.parametrize("name", ["../t.yaml", "link.yaml", "writable.yaml", "bad.yaml", "few.yaml", "filled.yaml"])
def test_only_a_template_that_the_owner_wrote_is_used(tmp_path: Path, name: str) -> None:
    directory = tmp_path / "templates"
    put_template(tmp_path, a_template())
    put_template(directory, a_template(), "writable.yaml").chmod(0o666)
    put_template(directory, a_template(telnet={"argv": ["x"]}), "bad.yaml")
    put_template(directory, {"version": 1, "acts": {}}, "few.yaml")
    put_template(directory, a_template(stop={"argv": ["{running}"]}), "filled.yaml")
    (directory / "link.yaml").symlink_to(tmp_path / "t.yaml")
    assert code_of(load_template, name, directory) == "Z2K-7020"


def test_a_directory_of_templates_that_others_may_write_is_refused(tmp_path: Path) -> None:
    put_template(tmp_path / "templates", a_template())
    (tmp_path / "templates").chmod(0o777)
    assert code_of(load_template, "t.yaml", tmp_path / "templates") == "Z2K-7020"


@pytest.mark.parametrize("file", sorted(SHIPPED.glob("*.yaml")), ids=lambda file: file.stem)
def test_the_shipped_templates_are_whole_and_quote_every_value_for_ssh(file: Path) -> None:
    template = load_template(file.name, SHIPPED)
    assert template.acts.keys() <= set(ACTS)
    for act in template.acts.values():
        if act.argv[0] == "ssh":
            assert all(match[2] == ":q" for match in FIELD.finditer(act.argv[-1]))
        for word in act.argv:
            if " " in word and act.argv[0] != "ssh":
                assert not FIELD.search(word) or word.startswith("jsonpath")  # a script gets values as arguments


def test_each_kind_of_actuator_is_made_from_the_inventory(tmp_path: Path) -> None:
    put_template(tmp_path / "templates", a_template())

    def made(spec: dict[str, Any]) -> str:
        inventory = parse_inventory(dump_yaml({**an_inventory(), "actuator": spec}).encode(), "f")
        return actuator_for(inventory, inventory.brokers[0], tmp_path / "templates").kind

    assert made({"kind": "exec", "template": "t.yaml", "settings": {"running": "/x"}}) == "exec"
    assert made({"kind": "manual", "exchange": str(tmp_path)}) == "manual"
    assert made({"kind": "external", "exchange": str(tmp_path)}) == "external"
    for settings in ({"host": "other"}, {"login": "-oProxyCommand=sh"}):
        with pytest.raises(FindingError) as error:
            made({"kind": "exec", "template": "t.yaml", "settings": settings})
        assert error.value.code == "Z2K-7020"


def test_a_value_that_a_node_lacks_is_a_finding_and_no_empty_word(tmp_path: Path) -> None:
    host = a_host(tmp_path, stop={"argv": ["true", "{unit}"]})
    assert code_of(host.stop) == "Z2K-7020"


# --- by others --------------------------------------------------------------------------------------------


def others(exchange: Path) -> ByOthers:
    return ByOthers("external", 1, "b1", "kafka.service", exchange)


def asked(answer: object) -> Instruction:
    assert isinstance(answer, Instruction)
    assert answer.bundle is not None
    return answer


def test_a_bundle_says_what_to_do_where_and_holds_the_file_for_its_owner_alone(tmp_path: Path) -> None:
    instruction = asked(others(tmp_path).write("/etc/kafka/server.properties", b"a=1\n"))
    bundle = Path(instruction.bundle or "")
    assert (bundle / "new-file").read_bytes() == b"a=1\n"
    assert "b1" in instruction.text
    assert "/etc/kafka/server.properties" in instruction.text
    assert str(bundle / "new-file") in instruction.text
    assert {each.stat().st_mode & 0o077 for each in (bundle, *bundle.iterdir())} == {0}
    assert others(tmp_path).write("/etc/kafka/server.properties", b"a=1\n") == instruction  # asked again, same bundle


def test_an_act_is_done_only_with_evidence_of_this_very_step(tmp_path: Path) -> None:
    instruction = asked(others(tmp_path).write("/etc/f", b"a=1\n"))
    bundle = Path(instruction.bundle or "")
    assert others(tmp_path).evidence_of(instruction) is None
    step = msgspec.json.decode((bundle / "step.json").read_bytes())
    said = {"step": step["step"], "by": "ansible", "at": "2026-11-24T10:00:00Z", "sha256": step["sha256"]}
    for wrong in ({"sha256": "0" * 64}, {"step": "stop-0001"}, {"at": "yesterday"}, {"extra": 1}):
        (bundle / "evidence.json").write_bytes(msgspec.json.encode({**said, **wrong}))
        with pytest.raises(FindingError) as error:
            others(tmp_path).evidence_of(instruction)
        assert error.value.code == "Z2K-7026"
    (bundle / "evidence.json").write_bytes(msgspec.json.encode(said))
    evidence = others(tmp_path).evidence_of(instruction)
    assert evidence is not None
    assert evidence.by == "ansible"
    assert others(tmp_path).write("/etc/f", b"a=1\n") != instruction  # the next one is another step


def test_what_nobody_copied_is_not_read_and_never_empty(tmp_path: Path) -> None:
    assert others(tmp_path).read("/etc/kafka/server.properties") is None
    assert others(tmp_path).list("/data") is None
    assert others(tmp_path).status().state is ProcessState.NOT_READ
    copy = tmp_path / "1" / "present" / "etc/kafka/server.properties"
    copy.parent.mkdir(parents=True)
    copy.write_bytes(b"a=1\n")
    assert others(tmp_path).read("/etc/kafka/../kafka/server.properties") == b"a=1\n"
    assert others(tmp_path).read("/../../../1/present/etc/kafka/server.properties") is None
