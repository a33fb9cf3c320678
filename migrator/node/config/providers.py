"""Values that a properties file takes from elsewhere: `config.providers`, and placeholders such as `${file:/path:key}`.

In:   the keys of a file as they stand there, the environment.
Out:  `Resolved`: the values, and the keys whose values came from a provider: those count as secret, whatever they are.
Elsewhere: files of brokers, in which placeholders stay as they are (fleet/render.py); executables of the operator for
other providers (helpers.py).
Errors: Z2K-3010 for a provider that is not run here, Z2K-3023 for a value that a provider does not have, Z2K-3024 for a
helper. None has a value in it.
Rules: as in Kafka, each value is looked through once, and what a provider gives is not looked through again. Stock
leaves a placeholder that cannot be resolved in the value, as text; such a controller would run with it as a password.
Here it ends the start, also when its provider is not in the list. A file without `config.providers` is taken as it
stands.
Source: Kafka 3.9 `AbstractConfig.resolveConfigVariables`, `ConfigTransformer`, `FileConfigProvider`,
`DirectoryConfigProvider`, `EnvVarConfigProvider`, `AllowedPaths`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import javaproperties

from migrator.findings.finding import FindingError, words_of
from migrator.findings.quorum import CONFIG_HELPER_NOT_USABLE, CONFIG_NOT_HONOURED, CONFIG_VALUE_NOT_FOUND
from migrator.node.config.helpers import Helper, find_helper, helped, helper_key

LIST: Final = "config.providers"
_PACKAGE: Final = "org.apache.kafka.common.config.provider."
_RUN_HERE: Final = ("FileConfigProvider", "DirectoryConfigProvider", "EnvVarConfigProvider")
PLACEHOLDER: Final = re.compile(r"\$\{([^}]*?):(([^}]*?):)?([^}]*?)\}")
VALUE_BYTES_MAX: Final = 1 << 20
"""The largest file that a provider reads: of passwords and certificates a hundred times too large."""


@dataclass(frozen=True, slots=True)
class Resolved:
    values: dict[str, str] = field(repr=False)
    provided: frozenset[str] = frozenset()


class _NotFound(Exception):
    """Why a provider has no such value: in words, without any value."""


Provider = Callable[[str, str], str]
"""Path and name to the value. Raises `_NotFound`."""


def resolve(
    file: str, given: Mapping[str, str], environment: Mapping[str, str], foreign: str | None = None
) -> Resolved:
    """file: the name of the properties file, for messages. given: its keys, values untrimmed or not.

    foreign: why others than the operator may have written the file, so that it names no executables.
    """
    providers = _Providers(file, given, environment, foreign).named()
    if not providers:
        return Resolved(dict(given))
    values, provided = dict(given), set()
    for key, value in _with_placeholders(given):
        values[key] = PLACEHOLDER.sub(lambda found, key=key: _value(file, key, found, providers), value)  # type: ignore[misc]
        provided.add(key)
    return Resolved(values, frozenset(provided))


def _with_placeholders(given: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """The keys of the providers themselves are taken as they stand."""
    for key, value in given.items():
        if key != LIST and not key.startswith(f"{LIST}.") and helped(key) is None and PLACEHOLDER.search(value):
            yield key, value


def _value(file: str, key: str, found: re.Match[str], providers: Mapping[str, Provider]) -> str:
    name, path, variable = found[1], found[3] or "", found[4]
    try:
        if name not in providers:
            raise _NotFound(f"{LIST} does not name it")
        return providers[name](path, variable)
    except _NotFound as error:
        raise CONFIG_VALUE_NOT_FOUND.error(file=file, key=key, provider=name, reason=str(error)) from None


class _Providers:
    """The providers of a file under the names that it gives them."""

    def __init__(
        self, file: str, given: Mapping[str, str], environment: Mapping[str, str], foreign: str | None
    ) -> None:
        self._file = file
        self._given = given
        self._environment = environment
        self._foreign = foreign

    def named(self) -> dict[str, Provider]:
        names = [each.strip() for each in self._given.get(LIST, "").split(",") if each.strip()]
        for key in self._given:
            if (name := helped(key)) is not None and name not in names:
                raise self._no_helper(key, f"{LIST} does not name {name}")
        return {name: self._provider(name) for name in names}

    def _provider(self, name: str) -> Provider:
        key = f"{LIST}.{name}.class"
        written = self._given.get(key, "").strip()
        if not written:
            raise self._refused(LIST, f"{key} is missing, which says what {name} is")
        kind = written.removeprefix(_PACKAGE) if written.startswith(_PACKAGE) else ""
        if (helper := helper_key(name)) in self._given:
            if kind in _RUN_HERE:
                raise self._no_helper(helper, f"{key} is {kind}, which needs none")
            return self._helper(name)
        match kind:
            case "FileConfigProvider":
                return _Files(self._allowed(name)).property
            case "DirectoryConfigProvider":
                return _Files(self._allowed(name)).whole
            case "EnvVarConfigProvider":
                return _Variables(self._environment, self._pattern(name)).value
        known = ", ".join(_RUN_HERE)
        raise self._refused(
            key, f"it is Java and not run here; put the values into a file for one of {known}, or set {helper}"
        )

    def _helper(self, name: str) -> Provider:
        """It is run once for each path, as Kafka calls a provider."""
        keys: dict[str, dict[str, None]] = {}
        for _, value in _with_placeholders(self._given):
            for found in PLACEHOLDER.finditer(value):
                if found[1] == name:
                    keys.setdefault(found[3] or "", {})[found[4]] = None
        helper = find_helper(self._file, name, self._given, self._environment, self._foreign)
        return _Helped(helper, keys).value

    def _allowed(self, name: str) -> tuple[Path, ...] | None:
        key = f"{LIST}.{name}.param.allowed.paths"
        paths = [Path(each.strip()) for each in self._given.get(key, "").split(",") if each.strip()]
        for each in paths:
            if not each.is_absolute() or not each.exists():
                raise self._refused(key, f"{each} is not an absolute path, or does not exist")
        return tuple(map(_normal, paths)) or None

    def _pattern(self, name: str) -> re.Pattern[str]:
        key = f"{LIST}.{name}.param.allowlist.pattern"
        try:
            return re.compile(self._given.get(key, "").strip())
        except re.error:
            raise self._refused(key, "it is no regular expression") from None

    def _no_helper(self, key: str, reason: str) -> FindingError:
        value = self._given[key].strip()
        return CONFIG_HELPER_NOT_USABLE.error(file=self._file, key=key, value=value, reason=reason)

    def _refused(self, key: str, reason: str) -> FindingError:
        value = self._given.get(key, "")
        return CONFIG_NOT_HONOURED.error(file=self._file, key=key, value=value, reason=reason)


@dataclass(frozen=True, slots=True)
class _Files:
    """allowed: what may be read: these and what is below them; None: everything."""

    allowed: tuple[Path, ...] | None

    def property(self, path: str, name: str) -> str:
        """A key of a properties file, which is UTF-8 here."""
        try:
            found = javaproperties.loads(self._text(path, Path(path))).get(name)
        except ValueError as error:  # an escape that Java does not read either
            raise _NotFound(f"{path} is no properties file") from error
        if found is None:
            raise _NotFound(f"{path} has no key {name}")
        return found

    def whole(self, path: str, name: str) -> str:
        """All that is in a file of a directory."""
        if name in ("", ".", "..") or "/" in name:
            raise _NotFound(f"{path} has no file of that name")
        return self._text(path, Path(path) / name)

    def _text(self, path: str, file: Path) -> str:
        if not path:
            raise _NotFound("the placeholder has no path")
        if self.allowed is not None and not any(_normal(Path(path)).is_relative_to(each) for each in self.allowed):
            raise _NotFound(f"{path} is not below allowed.paths")
        try:
            if not file.is_file():
                raise _NotFound(f"{file} does not exist, or is not a file")
            with file.open("rb") as opened:
                content = opened.read(VALUE_BYTES_MAX + 1)
        except OSError as error:
            raise _NotFound(words_of(error)) from error
        if len(content) > VALUE_BYTES_MAX:
            raise _NotFound(f"{file} has more than {VALUE_BYTES_MAX} bytes")
        return content.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class _Variables:
    environment: Mapping[str, str] = field(repr=False)
    pattern: re.Pattern[str]

    def value(self, path: str, name: str) -> str:
        if path:
            raise _NotFound("variables have no path")
        if name not in self.environment:
            raise _NotFound(f"the variable {name} is not set for this process")
        if not self.pattern.search(name):
            raise _NotFound(f"allowlist.pattern does not fit {name}")
        return self.environment[name]


@dataclass(frozen=True, slots=True)
class _Helped:
    """keys: of each path, those that placeholders name, in their order."""

    helper: Helper
    keys: Mapping[str, Mapping[str, None]]
    answers: dict[str, dict[str, str]] = field(default_factory=dict, repr=False)

    def value(self, path: str, name: str) -> str:
        if path not in self.answers:
            self.answers[path] = self.helper.values(path, self.keys[path])
        if name not in self.answers[path]:
            raise _NotFound(f"the answer of {self.helper.executable} for {path or 'no path'} has no key {name}")
        return self.answers[path][name]


def _normal(path: Path) -> Path:
    """Without `..`, and without following links, as Kafka compares paths."""
    return Path(os.path.normpath(path))
