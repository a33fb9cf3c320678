"""What holds for every test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.support.turns import turn

settings.register_profile("no clock", deadline=None)
settings.load_profile("no clock")
"""How long an example takes says how busy the machine is: that belongs into a benchmark."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """With several workers (`make test`), a test marked `alone` has the machine to itself."""
    if not hasattr(item.config, "workerinput"):
        return (yield)
    shared = item.config.rootpath / ".pytest_cache"
    shared.mkdir(exist_ok=True)
    with turn(shared, alone=item.get_closest_marker("alone") is not None):
        return (yield)
