"""An Ansible inventory, as Ansible itself resolves it: what `ansible-inventory --list` prints.

In:   that JSON, or the path of any inventory, for which `ansible-inventory` is called where it is installed.
Out:  groups with their hosts, and each host's variables after all of Ansible's precedence.
Elsewhere: which groups are brokers, which variables are ids (importing.py).
Errors: Z2K-7049 with what was not read, and how to make the JSON. What Ansible warns of is Z2K-7062.
Rules: the forms of Ansible (INI, YAML, directories, plugins, group_vars, vaults) are not read here: a second reading
of them would lose hosts that Ansible has. JSON in which variables still stand with groups (`--export`, a script's own
answer) is refused for the same reason. A key that occurs twice in the JSON is refused. In YAML Ansible calls a key a
duplicate, too, that overrides one of an anchor (2.17.7, 2.19.14); so its warning is shown, and the inventory is read.
Source: ansible-core's documentation of `ansible-inventory` and of its configuration settings.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from migrator.findings.finding import FindingError, Occurrence, words_of
from migrator.findings.fleet import ANSIBLE_UNREADABLE, ANSIBLE_WARNED

COMMAND: Final = "ansible-inventory"
COMMAND_S: Final = 120
"""A plugin may ask a cloud for its hosts."""
BYTES_MAX: Final = 64 << 20
"""Ten thousand hosts with 6 KB of variables each."""
REASON_MAX: Final = 300
WARNING: Final = "[WARNING]: "
STRICT: Final = {
    "ANSIBLE_INVENTORY_ANY_UNPARSED_IS_FAILED": "true",
    "ANSIBLE_INVENTORY_UNPARSED_FAILED": "true",
    "ANSIBLE_DUPLICATE_YAML_DICT_KEY": "warn",
    "ANSIBLE_NOCOLOR": "true",
}
"""Without these, Ansible warns, and goes on without the file that it could not read, or says nothing of a key that it
dropped.
"""
_OF_A_GROUP: Final = frozenset({"hosts", "children", "vars"})


@dataclass(frozen=True, slots=True)
class AnsibleHosts:
    """groups: each with its hosts, those of its children included, in their order. variables: by host."""

    groups: Mapping[str, tuple[str, ...]]
    variables: Mapping[str, Mapping[str, Any]]


def is_listed(text: str) -> bool:
    """Whether it wants to be what `ansible-inventory --list` prints."""
    return text.lstrip("\ufeff \t\r\n").startswith("{") and '"_meta"' in text


def listed_by_ansible(file: Path) -> tuple[str, tuple[Occurrence, ...]]:
    """Of an inventory in any form, a directory included, and what Ansible warned of. Raises Z2K-7049.

    Ansible runs inventory scripts and plugins, as it does for whoever asks it.
    """
    if not file.exists():
        raise _refused(str(file), "no such file or directory")
    command = shutil.which(COMMAND)
    if command is None:
        raise _refused(str(file), f"it is not the JSON of `{COMMAND} --list`, and {COMMAND} is not on PATH here")
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        try:
            done = subprocess.run(
                [command, "-i", str(file.absolute()), "--list"],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=errors,
                env={**os.environ, **STRICT},
                timeout=COMMAND_S,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise _refused(str(file), f"{COMMAND}: {words_of(error)}") from error
        out.seek(0)
        errors.seek(0)
        text, said = out.read(BYTES_MAX + 1), errors.read(BYTES_MAX).decode(errors="replace")
    if done.returncode != 0:
        reason = " ".join(said.split())[-REASON_MAX:] or f"exit code {done.returncode}"
        raise _refused(str(file), f"{COMMAND} says: {reason}")
    return decoded(str(file), text), _warned(file, said)


def _warned(file: Path, said: str) -> tuple[Occurrence, ...]:
    """What it prints before the first warning is none."""
    _, *warnings = said.split(WARNING)
    return tuple(ANSIBLE_WARNED.found(file=str(file), reason=" ".join(each.split())[:REASON_MAX]) for each in warnings)


def read_file(file: Path) -> tuple[str, tuple[Occurrence, ...]]:
    """The JSON as it is; any other inventory as Ansible lists it, and what Ansible warned of. Raises Z2K-7049."""
    if file.is_file():
        try:
            with file.open("rb") as opened:
                text = opened.read(BYTES_MAX + 1)
        except OSError as error:
            raise _refused(str(file), error.strerror or words_of(error)) from error
        if is_listed(text.decode(errors="replace")):
            return decoded(str(file), text), ()
    return listed_by_ansible(file)


def decoded(name: str, text: bytes) -> str:
    """Raises Z2K-7049."""
    if len(text) > BYTES_MAX:
        raise _refused(name, f"it is larger than {BYTES_MAX} bytes")
    try:
        return text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refused(name, words_of(error)) from error


def parse_listed(name: str, text: str) -> AnsibleHosts:
    """name: for messages. Raises Z2K-7049 for everything but the JSON of `ansible-inventory --list`."""
    try:
        document = json.loads(text, object_pairs_hook=_once)
        return _hosts_of(document)
    except (ValueError, RecursionError) as error:
        raise _refused(name, words_of(error)) from error


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"the key {key} occurs twice")
        found[key] = value
    return found


def _hosts_of(document: Any) -> AnsibleHosts:
    """Raises ValueError."""
    meta = document.get("_meta") if isinstance(document, dict) else None
    variables = meta.get("hostvars") if isinstance(meta, dict) else None
    if not isinstance(variables, dict):
        raise ValueError(f"it has no _meta.hostvars, which `{COMMAND} --list` prints")
    if other := next((host for host, own in variables.items() if not isinstance(own, dict)), None):
        raise ValueError(f"the variables of host {other} are no object")
    contents = {group: content for group, content in document.items() if group != "_meta"}
    for group, content in contents.items():
        _require_group(group, content)
    groups = {group: tuple(dict.fromkeys(_walk(contents, group, frozenset()))) for group in contents}
    return AnsibleHosts(groups, variables)


def _require_group(group: str, content: Any) -> None:
    if not isinstance(content, dict) or content.keys() - _OF_A_GROUP:
        raise ValueError(f"the group {group} is no object of hosts and children")
    if content.get("vars"):
        raise ValueError(f"the group {group} has variables of its own; leave out --export, or ask {COMMAND} itself")
    for key in ("hosts", "children"):
        names = content.get(key, [])
        if not isinstance(names, list) or not all(isinstance(each, str) for each in names):
            raise ValueError(f"{key} of the group {group} is no list of names")


def _walk(contents: Mapping[str, Mapping[str, Any]], group: str, above: frozenset[str]) -> Iterator[str]:
    """A child that is not there has no hosts: Ansible prints no empty groups."""
    content = contents.get(group)
    if content is None or group in above:
        return
    yield from content.get("hosts", ())
    for child in content.get("children", ()):
        yield from _walk(contents, child, above | {group})


def text_of(value: Any) -> str | None:
    """A variable as text. None for one that is encrypted, or is no text, number or truth."""
    match value:
        case {"__ansible_unsafe": str(text)}:
            return text
        case bool() | int() | float() | str():
            return str(value)
        case _:
            return None


def _refused(name: str, reason: str) -> FindingError:
    return ANSIBLE_UNREADABLE.error(file=name, reason=reason)
