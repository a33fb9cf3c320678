"""What every command writes: JSON on standard output, structured events on standard error."""

from __future__ import annotations

import logging
import sys
from typing import Any

import msgspec


def start_logging() -> None:
    """Structured events to standard error: JSON lines, or key=value when it is a terminal."""
    import structlog  # a tenth of a second of modules, which most commands never need

    terminal = sys.stderr.isatty()
    renderer: Any = structlog.dev.ConsoleRenderer() if terminal else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
    )
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)


def print_json(document: Any) -> None:
    sys.stdout.write(msgspec.json.encode(document).decode() + "\n")
