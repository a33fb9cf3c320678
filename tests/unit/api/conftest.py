"""One application on a faked world for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from tests.unit.api.service import Served


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    made = Served(tmp_path)
    yield made
    made.world.store.close()


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """What the loop logs is no part of what a command prints."""
    with capture_logs():
        yield
