"""Bytes that cross a wire are proven: a file is the old one or the new one, and a cut reading is no reading."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from migrator.findings.finding import FindingError, Occurrence
from migrator.fleet.actuators import transfer_findings
from migrator.fleet.exec_actuator import CommandActuator
from migrator.fleet.inventory import parse_inventory
from migrator.fleet.strict_yaml import dump_yaml
from migrator.fleet.templates import Template, load_template, words_of_act
from migrator.fleet.transfer import TRAILER, TRAILER_BYTES, content_of
from tests.support.inventories import an_inventory

SHIPPED = Path(__file__).resolve().parents[3] / "docker" / "actuators"
TEMPLATES = sorted(each.name for each in SHIPPED.glob("*.yaml"))
OLD = b"broker.id=1\nzookeeper.connect=zk:2181\n"
NEW = b"".join(b"key.%d=value\n" % each for each in range(9_000))  # more than a pipe holds
CUTS = (0, 1, len(NEW) // 2, len(NEW) - 1)
SHELLS = [each for each in ("dash", "bash") if shutil.which(each)]


def on_the_host(words: list[str], shell: str = "/bin/sh") -> list[str]:
    """What runs behind ssh and kubectl."""
    if words[0] == "ssh":
        return [shell, "-c", words[-1]]
    if words[0] == "kubectl":
        words = words[words.index("--") + 1 :]
    assert words[0] == "/bin/sh"
    return [shell, *words[1:]]


def values_of(path: Path, content: bytes = b"") -> dict[str, str]:
    nodes = dict.fromkeys(("login", "host", "unit", "namespace", "pod", "container", "hold", "control_directory"), "x")
    proof = {"size": str(len(content)), "checksum": hashlib.sha256(content).hexdigest(), "trailer": TRAILER}
    return {**nodes, **proof, "path": str(path)}


def run(
    template: Template,
    act: str,
    path: Path,
    sent: bytes = b"",
    content: bytes = b"",
    *,
    shell: str = "/bin/sh",
    search: str = "",
) -> subprocess.CompletedProcess[bytes]:
    words = words_of_act(template.acts[act], values_of(path, content))
    environment = {"PATH": search or os.environ["PATH"]}
    return subprocess.run(on_the_host(words, shell), input=sent, capture_output=True, env=environment, timeout=60)


@pytest.fixture(params=TEMPLATES)
def template(request: pytest.FixtureRequest) -> Template:
    return load_template(request.param, SHIPPED)


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("cut", CUTS)
def test_a_write_that_is_cut_leaves_the_file_of_before(
    template: Template, cut: int, shell: str, tmp_path: Path
) -> None:
    """A lost connection is the end of input for the shell on the other side, which goes on."""
    path = tmp_path / "it's server.properties"
    path.write_bytes(OLD)
    done = run(template, "write", path, NEW[:cut], NEW, shell=shell)
    assert path.read_bytes() == OLD
    assert done.returncode == 65
    assert f"{cut} of {len(NEW)} bytes" in done.stderr.decode()
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("shell", SHELLS)
def test_a_whole_write_replaces_the_file_and_keeps_its_mode(template: Template, shell: str, tmp_path: Path) -> None:
    path = tmp_path / "it's server.properties"
    path.write_bytes(OLD)
    path.chmod(0o640)
    path.with_name(path.name + ".zk2kraft-new").write_bytes(b"left by a write that was cut")
    assert run(template, "write", path, NEW, NEW, shell=shell).returncode == 0
    assert path.read_bytes() == NEW
    assert path.stat().st_mode & 0o777 == 0o640
    assert [each.name for each in tmp_path.iterdir()] == [path.name]


def test_a_file_that_was_not_there_is_written_whole_or_not_at_all(template: Template, tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    assert run(template, "write", path, NEW[:100], NEW).returncode == 65
    assert not path.exists()
    assert run(template, "write", path, NEW, NEW).returncode == 0
    assert path.read_bytes() == NEW


@pytest.mark.parametrize("tools", [("shasum", "perl"), ("openssl",), ()])
def test_the_checksum_is_made_by_what_the_host_has_and_without_any_nothing_is_written(
    template: Template, tools: tuple[str, ...], tmp_path: Path
) -> None:
    for each in ("cat", "cp", "mv", "rm", "wc", "sync", "dirname", "ls", "env", *tools):
        found = shutil.which(each)
        if found is None:
            pytest.skip(f"this machine has no {each}")
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / each).symlink_to(found)
    path = tmp_path / "server.properties"
    path.write_bytes(OLD)
    written = run(template, "write", path, NEW, NEW, search=str(tmp_path / "bin"))
    read = run(template, "read", path, search=str(tmp_path / "bin"))
    assert (path.read_bytes(), written.returncode, read.returncode) == ((NEW, 0, 0) if tools else (OLD, 69, 69))
    assert tools or b"sha256sum, shasum and openssl" in written.stderr


# --- readings ---------------------------------------------------------------------------------------------


def a_host(file: Path, read: str) -> CommandActuator:
    """Whose connection ends as `read` says; everything else is shipped."""
    template = load_template("local-systemd.yaml", SHIPPED)
    argv = template.acts["read"].argv
    changed = msgspec.structs.replace(template.acts["read"], argv=(*argv[:2], f"( {argv[2]} ) | {read}", *argv[3:]))
    acts = {**template.acts, "read": changed}
    return CommandActuator(1, msgspec.structs.replace(template, acts=acts), {"host": "b1"}, {})


@pytest.mark.parametrize("content", [b"", b"a=1", b"a=1\n", NEW], ids=["empty", "unended", "line", "long"])
def test_a_reading_is_the_content_to_the_byte_and_a_cut_one_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes(content)
    assert a_host(path, "cat").read(str(path)) == content
    printed = len(content) + TRAILER_BYTES
    for cut in (0, 1, len(content) // 2, len(content), printed - 1):
        if cut < printed:
            with pytest.raises(FindingError) as error:
                a_host(path, f"head -c {cut}").read(str(path))
            assert error.value.code == "Z2K-7044"
            assert "key.1" not in str(error.value)
    if content:
        with pytest.raises(FindingError) as error:
            a_host(path, "tr 1k 2q").read(str(path))
        assert error.value.code == "Z2K-7044"


def test_a_listing_is_proven_as_well(template: Template, tmp_path: Path) -> None:
    for expected in ([], ["a"], ["a", "b c"]):
        for name in expected:
            (tmp_path / name).touch()
        done = run(template, "list", tmp_path)
        content = content_of(done.stdout)
        assert isinstance(content, bytes)
        assert sorted(filter(None, content.decode().split("\n"))) == expected
        assert all(isinstance(content_of(done.stdout[:cut]), str) for cut in range(len(done.stdout)))
    assert run(template, "list", tmp_path / "absent").returncode == 66
    assert run(template, "read", tmp_path / "absent").returncode == 66


def test_a_write_whose_bytes_were_cut_says_that_the_file_is_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    path.write_bytes(OLD)
    host = a_host(path, "cat")
    write = host.template.acts["write"]
    argv = (*write.argv[:2], f"head -c 100 | ( {write.argv[2]} )", *write.argv[3:])
    acts = {**host.template.acts, "write": msgspec.structs.replace(write, argv=argv)}
    host = CommandActuator(1, msgspec.structs.replace(host.template, acts=acts), {"host": "b1"}, {})
    with pytest.raises(FindingError) as error:
        host.write(str(path), NEW)
    assert error.value.code == "Z2K-7044"
    assert f"100 of {len(NEW)} bytes" in str(error.value)
    assert path.read_bytes() == OLD


def test_a_template_without_checksums_works_as_before_and_is_named(tmp_path: Path) -> None:
    path = tmp_path / "server.properties"
    acts = {
        "read": {"argv": ["/bin/cat", "{path}"]},
        "list": {"argv": ["/bin/ls", "{path}"]},
        "write": {"argv": ["/bin/sh", "-c", 'cat > "$1"', "sh", "{path}"]},
        **{name: {"argv": ["/bin/true"]} for name in ("stop", "start", "status")},
    }
    (tmp_path / "own.yaml").write_text(dump_yaml({"version": 1, "acts": acts}))
    (tmp_path / "own.yaml").chmod(0o600)
    host = CommandActuator(1, load_template("own.yaml", tmp_path), {"host": "b1"}, {})
    host.write(str(path), NEW)
    assert host.read(str(path)) == NEW

    def findings(name: str, templates: Path) -> tuple[Occurrence, ...]:
        spec = {"actuator": {"kind": "exec", "template": name, "settings": {"login": "kafka"}}}
        return transfer_findings(parse_inventory(dump_yaml({**an_inventory(), **spec}).encode(), "f"), templates)

    (found,) = findings("own.yaml", tmp_path)
    assert found.code == "Z2K-7043"
    assert found.text.startswith("own.yaml: ")
    assert all(name in found.text for name in ("read", "list", "write"))
    assert not [found for each in TEMPLATES for found in findings(each, SHIPPED)]
