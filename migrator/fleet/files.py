"""Files of a node: read, written with their predecessors kept, and compared with what was rendered.

In:   an actuator, and rendered files. Out: `Present`, `Written`, `Journal`, `Drift`.
Elsewhere: what files say (render.py), how a host is reached (actuator.py and its kinds).
Errors: Z2K-7037 when a written file reads back differently, Z2K-7038 when it moved since it was rendered from.
Rules: a predecessor lies beside its file, with its checksum in its name, and is never overwritten or deleted. A journal
has values of keys that are known to be no secret; of every other key it has a keyed hash.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from migrator.findings.finding import FindingError, Occurrence
from migrator.findings.fleet import COPY_WANTED, DRIFT_FOUND, FILE_ABSENT, FILE_MOVED, WRITE_NOT_VERIFIED
from migrator.fleet.actuator import Actuator, Instruction
from migrator.fleet.properties_file import Document, parse_properties
from migrator.fleet.render import Rendered
from migrator.model.hidden_keys import is_hidden

KEPT: Final = ".zk2kraft-"
"""Between a file's name and the first digits of its checksum: the name of a kept predecessor."""
_DIGITS: Final = 16


@dataclass(frozen=True, slots=True)
class Present:
    """A file as it was read. content: its bytes; not in its text, since they may hold secrets."""

    path: str
    content: bytes

    def __repr__(self) -> str:
        return f"Present({self.path!r}, sha256={self.checksum})"

    @property
    def checksum(self) -> str:
        return checksum_of(self.content)

    @property
    def document(self) -> Document:
        return parse_properties(self.content, self.path)


@dataclass(frozen=True, slots=True)
class Written:
    """A file was replaced. predecessor: where the earlier content lies; None when there was no file.

    verified: it was read back and has this checksum; False where the actuator cannot read.
    """

    path: str
    checksum: str
    predecessor: str | None
    predecessor_checksum: str | None
    verified: bool


@dataclass(frozen=True, slots=True)
class Journal:
    """What was rendered for one node, as the service stores it. values: of hidden keys only a keyed hash."""

    node: int
    path: str
    kind: str
    checksum: str
    rendered_from: str
    values: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Drift:
    """keys: names whose values differ, or that only one side has; () when only comments or the order differ."""

    node: int
    path: str
    keys: tuple[str, ...]
    expected: str
    found: str

    @property
    def occurrence(self) -> Occurrence:
        keys = list(self.keys) or "only comments or the order of its lines"
        return DRIFT_FOUND.found(path=self.path, node=self.node, keys=keys)


def checksum_of(content: bytes) -> str:
    """SHA-256, in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def read_present(actuator: Actuator, path: str) -> Present | None:
    """None: the actuator cannot read it. Raises Z2K-7024 for a file that does not exist."""
    content = actuator.read(path)
    return None if content is None else Present(path, content)


def predecessor_path(path: str, checksum: str) -> str:
    return f"{path}{KEPT}{checksum[:_DIGITS]}"


def write_file(
    actuator: Actuator, node: int, path: str, content: bytes, present: Present | None
) -> Written | Instruction:
    """Write `content` in place of `present`, which is kept beside it; then read it back.

    present: what the content was rendered from. None: the actuator cannot read it, or there is no file.
    Writing again what stands there already changes nothing, so a step that was cut short is repeated safely.
    Raises Z2K-7038 when the file is neither `present` nor `content`, Z2K-7037 when it reads back differently.
    """
    wanted = checksum_of(content)
    kept = None if present is None else predecessor_path(path, present.checksum)
    if present is not None:
        now = read_present(actuator, path)
        if now is not None and now.checksum not in (present.checksum, wanted):
            raise FILE_MOVED.error(path=path, node=node)
        assert kept is not None
        if present.checksum != wanted and not _is_kept(actuator, kept, present):
            keeping = actuator.write(kept, present.content)
            if isinstance(keeping, Instruction):
                return keeping  # nobody is told to replace a file before its predecessor lies there
            if not _is_kept(actuator, kept, present):
                raise WRITE_NOT_VERIFIED.error(path=kept, node=node, reason="the predecessor was not kept")
        if now is not None and now.checksum == wanted:
            return Written(path, wanted, kept, present.checksum, verified=True)
    answer = actuator.write(path, content)
    if isinstance(answer, Instruction):
        return answer
    return _verified(actuator, node, path, wanted, kept, present)


def journal_of(node: int, path: str, rendered: Rendered, key: bytes) -> Journal:
    """What the service stores of a rendered file. key: of the hashes that stand for hidden values."""
    values = {name: _kept_value(name, value, key) for name, value in rendered.document.values.items()}
    return Journal(node, path, str(rendered.kind), rendered.checksum, checksum_of(rendered.present.content), values)


def drift(expected: Journal, present: Present, key: bytes) -> Drift | None:
    """None when the file is what was rendered, to the byte. A file that is no properties file differs in all keys."""
    if present.checksum == expected.checksum:
        return None
    found = {name: _kept_value(name, value, key) for name, value in present.document.values.items()}
    differing = {name for name in {*found, *expected.values} if found.get(name) != expected.values.get(name)}
    return Drift(expected.node, expected.path, tuple(sorted(differing)), expected.checksum, present.checksum)


def _verified(
    actuator: Actuator, node: int, path: str, wanted: str, kept: str | None, present: Present | None
) -> Written:
    after = read_present(actuator, path)
    if after is not None and after.checksum != wanted:
        raise WRITE_NOT_VERIFIED.error(path=path, node=node, reason=f"SHA-256 {after.checksum}, not {wanted}")
    before = None if present is None else present.checksum
    return Written(path, wanted, kept if before != wanted else None, before, verified=after is not None)


def _is_kept(actuator: Actuator, kept: str, present: Present) -> bool:
    """Whether the predecessor lies there already; its name alone is no proof."""
    try:
        found = read_present(actuator, kept)
    except FindingError as error:
        if error.code in (FILE_ABSENT.code, COPY_WANTED.code):
            return False
        raise
    return found is not None and found.checksum == present.checksum


def _kept_value(name: str, value: str, key: bytes) -> str:
    if not is_hidden(name):
        return value
    return f"hmac-sha256:{hmac.new(key, f'{name}={value}'.encode('utf-8', 'surrogatepass'), 'sha256').hexdigest()}"
