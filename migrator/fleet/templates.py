"""Templates of commands: how one kind of host is operated. Written by the service's owner, never by a request.

In:   a YAML file below the directory of templates.
Out:  a `Template`; `words_of_act` fills in the values of one node.
Elsewhere: running the commands (commands/bounded.py, exec_actuator.py). Examples: docker/actuators/.
Errors: Z2K-7020: another owner, writable for others, outside the directory, or not of this form.
Rules: no shell, unless a template names one. `{name}` becomes a value of the node, `{name:q}` the same quoted for
a shell (ssh gives its words to one). A value is always a part of one word, so it never becomes another option.
"""

from __future__ import annotations

import os
import re
import shlex
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Final

import msgspec

from migrator.commands.ownership import why_foreign
from migrator.findings.finding import words_of
from migrator.findings.fleet import TEMPLATE_REFUSED
from migrator.fleet.strict_yaml import YamlRefused, load_yaml

TEMPLATE_BYTES_MAX: Final = 65_536
ACTS: Final = ("read", "list", "read_many", "write", "stop", "start", "restart", "status", "command", "launch")
NEEDED: Final = ("read", "list", "write", "stop", "start", "status")
FIELD: Final = re.compile(r"\{([a-z_]+)(:q)?\}")
LIMITS_S: Final[Mapping[str, float]] = {"stop": 900.0, "start": 300.0, "restart": 1_200.0}
"""Where neither template nor inventory says one; other acts have `ACT_LIMIT_S`."""
ACT_LIMIT_S: Final = 60.0
OUTPUT_BYTES_MAX: Final = 1 << 20
ABSENT: Final = 66
"""`EX_NOINPUT` of sysexits.h: how a `read` or a `list` says that there is no such file."""

Word = Annotated[str, msgspec.Meta(max_length=4_000)]


class TemplateAct(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """argv: the command and its arguments. timeout_s: 0 takes the inventory's."""

    argv: Annotated[tuple[Word, ...], msgspec.Meta(min_length=1, max_length=60)]
    timeout_s: Annotated[float, msgspec.Meta(ge=0, le=86_400)] = 0.0
    output_bytes_max: Annotated[int, msgspec.Meta(ge=1, le=1 << 26)] = OUTPUT_BYTES_MAX


class StatusWords(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Regular expressions over what `status` prints. pid has one group.

    stopped: only while nothing starts the process again by itself; a pause between two attempts is no stop.
    """

    running: str = r"(?m)^ActiveState=active$"
    stopped: str = r"(?m)^ActiveState=(inactive|failed)$"
    pid: str = r"(?m)^MainPID=([1-9][0-9]*)$"


class Template(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """acts: by name, see `ACTS`. pass_environment: further variables of the service that commands get."""

    version: Annotated[int, msgspec.Meta(ge=1, le=1)]
    acts: dict[str, TemplateAct]
    status_words: StatusWords = StatusWords()
    pass_environment: tuple[Annotated[str, msgspec.Meta(pattern=r"^[A-Z][A-Z0-9_]*$")], ...] = ()
    about: str = ""


def load_template(name: str, directory: Path) -> Template:
    """The template of that file name. Raises Z2K-7020."""
    file = directory / name
    try:
        template = msgspec.convert(load_yaml(owned_content(file, directory, TEMPLATE_BYTES_MAX)), Template)
        _check(template)
    except (OSError, ValueError, YamlRefused, msgspec.ValidationError) as error:
        raise TEMPLATE_REFUSED.error(file=str(file), reason=words_of(error)) from error
    return template


def words_of_act(act: TemplateAct, values: Mapping[str, str]) -> list[str]:
    """The argument vector for one node. Raises KeyError naming a value that this node does not have."""
    return [FIELD.sub(lambda match: _filled(match, values), word) for word in act.argv]


def uses(act: TemplateAct, value: str) -> bool:
    """Whether its words name this value."""
    return any(match[1] == value for word in act.argv for match in FIELD.finditer(word))


def _filled(match: re.Match[str], values: Mapping[str, str]) -> str:
    value = values[match[1]]
    return shlex.quote(value) if match[2] else value


def owned_content(file: Path, directory: Path, bytes_max: int) -> bytes:
    """Its content, when nobody but its owner can have written it. Links are followed before anything is decided.

    directory: the file has to be below it. Raises OSError, and ValueError with the reason.
    """
    root, real = Path(os.path.realpath(directory)), Path(os.path.realpath(file))
    if not real.is_relative_to(root):
        raise ValueError(f"it is not below {root}")
    for place in (root, *(each for each in real.parents if each.is_relative_to(root))):
        _refuse_foreign(os.stat(place), str(place))
    handle = os.open(real, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW)
    with os.fdopen(handle, "rb") as opened:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise ValueError("it is no regular file")
        _refuse_foreign(found, str(real))
        content = opened.read(bytes_max + 1)
    if len(content) > bytes_max:
        raise ValueError(f"it is larger than {bytes_max} bytes")
    return content


def _refuse_foreign(found: os.stat_result, name: str) -> None:
    if reason := why_foreign(found, name):
        raise ValueError(reason)


def _check(template: Template) -> None:
    if unknown := sorted(template.acts.keys() - set(ACTS)):
        raise ValueError(f"unknown acts: {', '.join(unknown)}")
    if missing := [name for name in NEEDED if name not in template.acts]:
        raise ValueError(f"acts are missing: {', '.join(missing)}")
    for name, act in template.acts.items():
        if FIELD.search(act.argv[0]):
            raise ValueError(f"acts.{name}: the command itself may not be filled in")
    if "read_many" in template.acts and not uses(template.acts["read_many"], "trailer"):
        raise ValueError("acts.read_many does not print {trailer}, so its answer proves nothing")
    words = template.status_words
    for pattern in (words.running, words.stopped, words.pid):
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"status_words: {error}") from error
    if re.compile(words.pid).groups != 1:
        raise ValueError("status_words.pid needs one group")
