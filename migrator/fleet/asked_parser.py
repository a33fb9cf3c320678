"""Whether Kafka itself takes a rendered file: asked before its node is stopped, where Kafka and Java are here.

In:   the rendered file; the directory `kafka` beside the inventories: an installed Kafka of the nodes' release, or its
jars, or a link to them.
Out:  what was said, for the journal: accepted, or why Kafka was not asked. Raises Z2K-7035.
Elsewhere: starting the parser (kafka_parser.py), our own rules, which see more (joins.py).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from migrator.fleet.kafka_parser import class_path_of, require_kafka_accepts
from migrator.fleet.render import Rendered

KAFKA: Final = "kafka"


def kafka_says(
    rendered: Rendered,
    kafka: Path | None,
    find_java: Callable[[str], str | None] = shutil.which,
    require: Callable[..., str | None] = require_kafka_accepts,
) -> str:
    """Blocks for as long as a Java process takes. Raises Z2K-7035 when Kafka refuses the file or cannot be run."""
    if kafka is None or not kafka.is_dir():
        return f"Kafka's own parser was not asked: {kafka or KAFKA} is no directory"
    java = find_java("java")
    if java is None:
        return "Kafka's own parser was not asked: there is no java here"
    not_tried = require(rendered.document, class_path_of(kafka), java)
    return f"Kafka's own parser was not asked: {not_tried}" if not_tried else "Kafka's own parser accepts it"
