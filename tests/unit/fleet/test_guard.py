"""A stock controller starts only with the migration flag: the real guard, run by real shells."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final

import javaproperties
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from migrator.fleet.guard import (
    GUARD_SHA256,
    Proof,
    finalize_token,
    guard_proof,
    is_jar_without_zookeeper,
    places_of,
    prove_guard,
    why_not_used,
)
from migrator.fleet.properties_file import parse_properties
from migrator.fleet.render import FileKind, Wanted, render
from tests.support.hosts import FakeHost

GUARD: Final = Path(__file__).resolve().parents[3] / "docker" / "guard" / "zk2kraft-guard"
SHELLS: Final = [shell for name in ("sh", "dash", "bash", "busybox") if (shell := shutil.which(name))]
FLAG: Final = "zookeeper.metadata.migration.enable"
STOCK: Final = f"node.id=3000\nzookeeper.connect=zk:2181\n{FLAG}=true\n".encode()
WITHOUT: Final = b"node.id=3000\n"
REFUSED: Final = 78
PLAN: Final = hashlib.sha256(b"plan and evidence").hexdigest()


def run(*words: str | Path, shell: str = "/bin/sh", **environment: str) -> subprocess.CompletedProcess[str]:
    start = [shell, "sh"] if shell.endswith("busybox") else [shell]
    given = {"PATH": os.environ["PATH"], **environment}
    return subprocess.run([*start, *map(str, words)], capture_output=True, text=True, env=given, timeout=120)


def start(file: Path, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """The guard before a start command that says what it got."""
    return run(GUARD, "/bin/echo", file, *more, **environment)


def a_file(directory: Path, content: bytes = STOCK) -> Path:
    file = directory / "controller.properties"
    file.write_bytes(content)
    return file


@pytest.mark.parametrize("shell", SHELLS)
def test_a_controller_with_the_flag_is_started_with_its_own_arguments(tmp_path: Path, shell: str) -> None:
    file = a_file(tmp_path)
    done = run(GUARD, "/bin/echo", file, "--override", "a=b c", shell=shell)
    assert (done.returncode, done.stdout) == (0, f"{file} --override a=b c\n")


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "content",
    [
        WITHOUT,
        STOCK.replace(b"true", b"false"),
        STOCK + b"zookeeper.metadata.migration.enable = false\n",  # the last one counts
        STOCK + b"zookeeper.metadata.migration.enabl\\u0065:false\n",
        STOCK + b"zookeeper.metadata\\.migration.enable false\n",
        STOCK + b"zookeeper.metadata.\\\n   migration.enable=fal\\\r\n  se\n",
        STOCK + b"zookeeper.metadata.migration.enable",
        STOCK.replace(b"true", b"${file:/etc/x:y}"),
        STOCK.replace(b"zookeeper.metadata", b"#zookeeper.metadata"),
        STOCK.replace(b"true", b"true\\\n.0"),
        STOCK.replace(b"\n", b"\r") + b"zookeeper.metadata.migration.enable=false",
        STOCK.replace(b"=true", b"=tr\\u12"),
        STOCK + b"\\\n# x \\\nzookeeper.metadata.migration.enable=false\n",
        b"",
    ],
)  # fmt: skip
def test_a_file_that_is_not_effectively_migrating_is_refused_and_nothing_starts(
    tmp_path: Path, content: bytes, shell: str
) -> None:
    done = run(GUARD, "/bin/echo", a_file(tmp_path, content), shell=shell)
    assert (done.returncode, done.stdout) == (REFUSED, "")
    assert done.stderr.startswith("Z2K-7041 The guard does not start")


OURS: Final = STOCK + b"zk2kraft.gates=pause\n"


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    "content",
    [
        OURS,
        STOCK + b"  zk2kraft.gates : pause\n",
        STOCK + b"zk2kraft\\u002egates=pause\n",
        STOCK + b"zk2\\\n   kraft.gates=pause\n",
        STOCK.replace(b"\n", b"\r") + b"zk2kraft.takeover.max.ms",
        b"zk2kraft.gates=pause\n" + STOCK,
        STOCK + b"zk2kraft.waive=absent\n",
    ],
)
def test_a_file_of_our_controllers_starts_no_stock_controller_whatever_its_flag(
    tmp_path: Path, content: bytes, shell: str
) -> None:
    """After a rollback it lies where a unit enabled at boot would start stock on a retired log."""
    done = run(GUARD, "/bin/echo", a_file(tmp_path, content), shell=shell)
    assert (done.returncode, done.stdout) == (REFUSED, "")
    assert "zk2kraft." in done.stderr


def test_words_about_us_in_comments_and_values_do_not_make_a_file_ours(tmp_path: Path) -> None:
    content = STOCK + b"# zk2kraft.gates=pause\nlog.dirs=/var/zk2kraft.data\nmy.zk2kraft.note=x\n"
    assert start(a_file(tmp_path, content)).returncode == 0


def test_no_token_starts_a_stock_controller_with_a_file_of_ours(tmp_path: Path) -> None:
    content = OURS.replace(f"{FLAG}=true\n".encode(), b"")
    path, token = finalize_token(PLAN, 3000, content, str(tmp_path))
    Path(path).write_bytes(token)
    Path(path).chmod(0o600)
    assert start(a_file(tmp_path, content)).returncode == REFUSED


@pytest.mark.parametrize(
    ("more", "starts"),
    [
        (("--override", f"{FLAG}=false"), False),
        ((f"--override={FLAG}=false",), False),
        (("-override", f"{FLAG}=false"), False),
        (("--over", f"{FLAG}=false"), False),  # Kafka accepts abbreviations; the guard does not
        (("--override", f"{FLAG}=false", "--override", f"{FLAG}=TRUE "), True),
        (("--override", f"{FLAG}=true", "--override", f" {FLAG} = false"), False),
        (("--override", FLAG), False),
        (("--override",), False),
        (("other.properties",), False),
        (("--override", "num.io.threads=2"), True),
    ],
)
def test_an_override_counts_more_than_the_file(tmp_path: Path, more: tuple[str, ...], starts: bool) -> None:
    assert start(a_file(tmp_path), *more).returncode == (0 if starts else REFUSED)


def test_a_file_made_from_the_environment_of_a_container_is_checked_as_it_came_out(tmp_path: Path) -> None:
    """The guard stands in the place of the start script, so it comes after the image's own scripts."""
    in_place = tmp_path / "kafka-server-start.sh"
    in_place.symlink_to(GUARD)
    real = tmp_path / "real.sh"
    real.write_text('#!/bin/sh\necho "started $1"\n')
    real.chmod(0o755)
    file = a_file(tmp_path)
    done = run(in_place, file, ZK2KRAFT_GUARDED=str(real))
    assert done.stdout == f"started {file}\n"
    spoiled = a_file(tmp_path, WITHOUT)
    given = {"ZK2KRAFT_GUARDED": str(real), "KAFKA_ZOOKEEPER_METADATA_MIGRATION_ENABLE": "true"}
    assert run(in_place, spoiled, **given).returncode == REFUSED
    assert run(in_place, file).returncode == REFUSED  # nobody said what to start


def test_the_command_line_of_java_is_understood_and_an_unknown_one_refused(tmp_path: Path) -> None:
    file = a_file(tmp_path)
    java = (GUARD, "/bin/echo", "-Xmx1g", "-cp", "/opt/kafka/libs/*", "kafka.Kafka", file)
    assert run(*java).returncode == 0
    assert run(*java, "--override", f"{FLAG}=false").returncode == REFUSED
    assert run(GUARD, "/bin/echo", "-daemon", file).returncode == 0
    assert run(GUARD, "/bin/echo", "-odd", file).returncode == REFUSED
    assert run(GUARD, "/bin/echo", tmp_path / "none").returncode == REFUSED
    assert run(GUARD, "/bin/echo").returncode == REFUSED
    assert run(GUARD).returncode == REFUSED
    assert run(GUARD, "--check", file).returncode == 0
    assert run(GUARD, "--check", a_file(tmp_path, WITHOUT)).returncode == REFUSED


def test_only_a_token_for_this_file_and_this_node_lets_it_start_without_the_flag(tmp_path: Path) -> None:
    present = parse_properties(b"process.roles=controller\ncontroller.quorum.voters=3000@c:1\n" + STOCK, "f")
    content = render("controller", present, FileKind.FINALIZED, Wanted(node=3000)).require().content
    file = a_file(tmp_path, content)
    assert start(file).returncode == REFUSED
    path, text = finalize_token(PLAN, 3000, content, str(tmp_path))
    token = Path(path)
    token.write_bytes(text)
    assert start(file).returncode == 0
    token.chmod(0o666)
    assert start(file).returncode == REFUSED  # anybody could have written it
    token.chmod(0o644)
    file.write_bytes(content + b"# changed\n")
    assert start(file).returncode == REFUSED
    file.write_bytes(content)
    token.write_bytes(finalize_token(PLAN, 3001, content, "/")[1])
    assert start(file).returncode == REFUSED
    token.write_bytes(text)
    token.rename(tmp_path / "finalize-now")
    assert start(file).returncode == REFUSED
    file.write_bytes(STOCK.replace(b"true", b"false"))
    (tmp_path / "finalize-now").rename(token)
    assert start(file).returncode == REFUSED  # said to be false: no file that was rendered


LINES = st.sampled_from(
    [
        f"{FLAG}=true", f"{FLAG} : false", f"  {FLAG}\ttrue", f"#{FLAG}=false", "a=b\\", "\\", "", f"!{FLAG}=false",
        "b=\\\\", f"{FLAG}=tr\\u0075e", "c=d\\\\\\", f"x{FLAG}=false", f"{FLAG}x=false", "   ", f"{FLAG}=", "=e",
    ]
)  # fmt: skip


@settings(max_examples=80, deadline=None)
@given(lines=st.lists(LINES, max_size=8), end=st.sampled_from(["\n", "\r\n", "\r"]))
def test_the_guard_never_starts_what_another_reader_of_properties_finds_without_the_flag(
    lines: list[str], end: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    content = end.join(lines).encode()
    value = javaproperties.loads(content).get(FLAG, "").strip().lower()
    done = run(GUARD, "--check", a_file(tmp_path_factory.getbasetemp(), content))
    assert done.returncode in (0, REFUSED)
    if done.returncode == 0:
        assert value == "true"
    elif value == "true":
        assert "escape" in done.stderr  # read in two ways by versions of Java


# --- the proof --------------------------------------------------------------------------------------------

PATH: Final = "/usr/local/lib/zk2kraft/zk2kraft-guard"
FILE: Final = "/etc/kafka/controller.properties"
SYSTEMD: Final = (
    f"ExecStart={{ path={PATH} ; argv[]={PATH} /opt/kafka/bin/kafka-server-start.sh {FILE} ; ignore_errors=no }}\n"
    "DropInPaths=/etc/systemd/system/kafka-controller.service.d/zk2kraft-guard.conf\n"
)


class Launching(FakeHost):
    said: str | None = SYSTEMD

    def launch(self) -> str | None:
        return self.said


def test_the_checksum_in_the_program_is_that_of_the_shipped_guard() -> None:
    assert hashlib.sha256(GUARD.read_bytes()).hexdigest() == GUARD_SHA256


def test_the_guard_is_proven_by_its_content_and_by_the_loaded_start_command() -> None:
    host = Launching(node=3000, files={PATH: GUARD.read_bytes()})
    assert prove_guard(host, 3000, PATH, FILE) == ()
    unproven = [
        FakeHost(files=host.files),  # nobody can say how the process is started
        Launching(files={PATH: GUARD.read_bytes() + b"\n"}),
        Launching(files={}),
    ]
    assert {each.code for one in unproven for each in prove_guard(one, 3000, PATH, FILE)} == {"Z2K-7040"}
    host.said = SYSTEMD.replace(f"path={PATH}", "path=/opt/kafka/bin/kafka-server-start.sh")
    assert [each.code for each in prove_guard(host, 3000, PATH, FILE)] == ["Z2K-7040"]


@pytest.mark.parametrize(
    ("said", "is_used"),
    [
        (SYSTEMD, True),
        (f'"{PATH}" ["/opt/kafka/bin/kafka-server-start.sh","{FILE}"] ["/etc/kafka:/etc/kafka"]', True),
        (SYSTEMD.replace(FILE, FILE + ".old"), False),
        (f'"/bin/sh" ["-c","{PATH} {FILE}"]', False),
        (SYSTEMD + f"ExecStart={{ path=/bin/kafka ; argv[]=/bin/kafka {FILE} ; }}\n", False),
        (SYSTEMD.replace("argv[]=", "argv[]=--check "), False),
        ("ExecStart=\n", False),
        ("", False),
    ],
)
def test_a_guard_that_the_supervisor_does_not_use_is_no_guard(said: str, is_used: bool) -> None:
    assert (why_not_used(said, PATH, FILE) is None) is is_used


def test_what_a_host_does_not_say_is_told_apart_from_a_host_without_guard() -> None:
    blind = FakeHost(files={"/guard": GUARD.read_bytes()})
    assert guard_proof(FakeHost(), None, "/c.properties").state is Proof.NOT_PROVEN
    assert guard_proof(FakeHost(), "/guard", "/c.properties").state is Proof.NOT_PROVEN  # no such file
    assert guard_proof(FakeHost(files={"/guard": b"another"}), "/guard", "/c.properties").state is Proof.NOT_PROVEN
    assert guard_proof(blind, "/guard", "/c.properties").state is Proof.NOT_READ  # nobody knows how it starts


# --- a Kafka without ZooKeeper ----------------------------------------------------------------------------


def a_kafka(home: Path, *jars: str) -> Path:
    """A start command that says that it was started, and jars beside it, as a tarball lays them out."""
    (home / "bin").mkdir(parents=True)
    (home / "libs").mkdir()
    for jar in jars:
        (home / "libs" / jar).touch()
    command = home / "bin" / "kafka-server-start.sh"
    command.write_text('#!/bin/sh\necho "started $1"\n')
    command.chmod(0o755)
    return command


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize(
    ("jars", "starts"),
    [
        (("kafka_2.13-3.9.2.jar", "kafka-server-common-3.9.2.jar", "kafka-clients-3.9.2.jar"), True),
        (("kafka_2.13-4.0.0.jar", "kafka-server-common-4.0.0.jar"), False),
        (("kafka_2.13-3.9.2.jar", "kafka-server-4.1.2.jar"), False),  # an upgrade that left jars of both
        (("kafka-server-common-4.4.0.jar",), False),
        (("kafka_2.13-10.0.0.jar",), False),
        (("kafka_2.13-7.9.0-ccs.jar", "kafka-server-common-7.9.0-ccs.jar"), True),
        (("kafka_2.13-8.0.0-ccs.jar",), False),
        (("kafka_2.13-8.0.0-ce.jar",), False),
    ],
)
def test_the_guard_starts_no_kafka_without_zookeeper_whatever_the_flag_says(
    tmp_path: Path, jars: tuple[str, ...], starts: bool, shell: str
) -> None:
    command = a_kafka(tmp_path / "kafka", *jars)
    file = a_file(tmp_path)
    done = run(GUARD, command, file, shell=shell)
    assert (done.returncode, done.stdout) == ((0, f"started {file}\n") if starts else (REFUSED, ""))
    assert done.stderr.startswith("" if starts else f"Z2K-7042 The guard does not start {file}: ")
    assert "Z2K-7042" not in done.stderr or not starts
    named = [jar for jar in jars if is_jar_without_zookeeper(jar)]
    assert bool(named) is not starts, "the proof and the guard judge alike"


def test_the_guard_looks_on_the_class_path_in_kafka_home_and_behind_a_link(tmp_path: Path) -> None:
    later, file = tmp_path / "later", a_file(tmp_path)
    real = a_kafka(later, "kafka_2.13-4.0.0.jar")
    libs = later / "libs"
    jar = libs / "kafka_2.13-4.0.0.jar"
    elsewhere = tmp_path / "bin"
    elsewhere.mkdir()
    link = elsewhere / "kafka-start"
    link.symlink_to(real)
    assert run(GUARD, "/bin/echo", "-cp", f"/none:{libs}/*", "kafka.Kafka", file).returncode == REFUSED
    assert run(GUARD, "/bin/echo", "-cp", f"/none:{jar}", "kafka.Kafka", file).returncode == REFUSED
    assert run(GUARD, "/bin/echo", file, KAFKA_HOME=str(later)).returncode == REFUSED
    assert run(GUARD, "/bin/echo", file, CLASSPATH=f"/none:{libs}/*").returncode == REFUSED
    assert run(GUARD, link, file).returncode == REFUSED


def test_where_no_jar_is_seen_the_guard_says_so_and_starts(tmp_path: Path) -> None:
    done = start(a_file(tmp_path))
    assert done.returncode == 0
    assert "its release is not checked" in done.stderr


def test_a_token_of_finalizing_starts_no_kafka_without_zookeeper_either(tmp_path: Path) -> None:
    """It would lead without writing the end of the migration."""
    file = a_file(tmp_path, WITHOUT)
    path, text = finalize_token(PLAN, 3000, WITHOUT, str(tmp_path))
    Path(path).write_bytes(text)
    Path(path).chmod(0o600)
    assert start(file).returncode == 0
    assert run(GUARD, a_kafka(tmp_path / "kafka", "kafka_2.13-4.0.0.jar"), file).returncode == REFUSED


LIBS: Final = "/opt/kafka/libs"


@pytest.mark.parametrize(
    ("jars", "state", "says"),
    [
        (("kafka_2.13-3.9.2.jar",), Proof.PROVEN, "with kafka_2.13-3.9.2.jar"),
        (("kafka_2.13-4.0.0.jar",), Proof.NOT_PROVEN, "Z2K-7042"),
        (("kafka_2.13-3.9.2.jar", "kafka-server-4.0.0.jar"), Proof.NOT_PROVEN, f"{LIBS}/kafka-server-4.0.0.jar"),
        ((), Proof.KAFKA_NOT_SEEN, "no jar of Kafka is seen"),
    ],
)
def test_the_proof_names_the_kafka_that_would_start_or_that_it_is_not_seen(
    jars: tuple[str, ...], state: Proof, says: str
) -> None:
    files = {PATH: GUARD.read_bytes(), **{f"{LIBS}/{jar}": b"" for jar in jars}}
    proof = guard_proof(Launching(node=3000, files=files), PATH, FILE)
    assert proof.state is state
    assert says in proof.reason


def test_jars_are_looked_for_where_the_start_command_takes_them_from() -> None:
    assert places_of(SYSTEMD, PATH) == (LIBS, "/opt/kafka/share/java/kafka")
    in_bin = "/usr/local/bin/zk2kraft-guard"
    said = SYSTEMD.replace(PATH, in_bin)
    assert places_of(said, in_bin) == (LIBS, "/opt/kafka/share/java/kafka"), "each place is a command on the host"
    java = f'"{PATH}" ["java","-cp","{LIBS}/*:/etc/x.jar","kafka.Kafka","{FILE}"]'
    assert places_of(java, PATH) == (LIBS, "/etc")
    assert places_of(f'"{PATH}" ["/usr/bin/kafka-server-start","{FILE}"]', PATH) == (
        "/usr/libs",
        "/usr/share/java/kafka",
    )
