"""What the demo waits for before it goes on."""

from __future__ import annotations

from typing import Any

import pytest

from migrator.lab.demo.run import unconfirmed


@pytest.mark.parametrize(
    ("states", "waits"),
    [([], True), (["asked"], True), (["running"], True), (["done"], False), (["failed"], False), (["stopped"], False)],
)
def test_the_takeover_waits_for_the_confirmation_of_the_rehearsal_to_end(states: list[str], waits: bool) -> None:
    """Cut off by the takeover it has no result, and the demo was not passed for it."""
    audits: list[dict[str, Any]] = [{"purpose": "rehearsal", "state": "done"}]
    audits += [{"purpose": "confirmation", "state": each} for each in states]
    assert (unconfirmed({"audits": audits}) is not None) == waits
