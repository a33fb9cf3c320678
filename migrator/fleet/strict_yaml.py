"""YAML without its traps: no tags, no aliases, no repeated keys, and only numbers that look like numbers.

In:   the bytes of a document. Out: dicts, lists, texts, numbers, True, False, None.
Errors: `YamlRefused` with line and column.
Why:  `22:30` is no number, `no` is no False, and ten lines of aliases are no gigabyte.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from typing import Any, Final

import yaml

DOCUMENT_BYTES_MAX: Final = 4 << 20
"""A thousand nodes with everything said about each are 1 MB."""
DEPTH_MAX: Final = 30


class YamlRefused(ValueError):
    """Not of this subset."""


class _Loader(yaml.SafeLoader):
    """SafeLoader with the plain scalars of YAML 1.2, and without what only surprises."""

    yaml_implicit_resolvers: Final = {}  # type: ignore[misc]  # of this class alone; filled below
    depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise _refused("aliases are not used here", self.peek_event().start_mark)  # type: ignore[no-untyped-call]
        self.depth += 1
        if self.depth > DEPTH_MAX:
            raise YamlRefused(f"it is nested deeper than {DEPTH_MAX}")
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys: set[Any] = set()
        for key_node, _ in node.value:
            if not isinstance(key_node, yaml.ScalarNode):
                raise _refused("a key is no text", key_node.start_mark)
            if key_node.value in keys:
                raise _refused(f"the key {key_node.value} occurs twice", key_node.start_mark)
            keys.add(key_node.value)
        return super().construct_mapping(node, deep)


for _tag, _pattern, _first in (
    ("tag:yaml.org,2002:null", r"(?:~|null|)\Z", ["~", "n", ""]),
    ("tag:yaml.org,2002:bool", r"(?:true|false)\Z", ["t", "f"]),
    ("tag:yaml.org,2002:int", r"-?(?:0|[1-9][0-9]*)\Z", list("-0123456789")),
    ("tag:yaml.org,2002:float", r"-?(?:0|[1-9][0-9]*)\.[0-9]+\Z", list("-0123456789")),
):
    _Loader.add_implicit_resolver(_tag, re.compile(_pattern), _first)


def load_yaml(content: bytes) -> Any:
    """Raises `YamlRefused`."""
    if len(content) > DOCUMENT_BYTES_MAX:
        raise YamlRefused(f"it is larger than {DOCUMENT_BYTES_MAX} bytes")
    try:
        return yaml.load(content, _Loader)
    except yaml.MarkedYAMLError as error:
        raise _refused(error.problem or "it is no YAML", error.problem_mark) from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise YamlRefused(" ".join(str(error).split())) from error


def dump_yaml(document: Any) -> str:
    """In the order given, block style."""
    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, default_flow_style=False, width=120))


def _refused(reason: str, mark: yaml.Mark | None) -> YamlRefused:
    where = "" if mark is None else f"line {mark.line + 1}, column {mark.column + 1}: "
    return YamlRefused(f"{where}{reason}")
