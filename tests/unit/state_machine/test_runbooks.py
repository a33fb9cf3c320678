"""Every phase has its page, in the order that every page has, and the page knows how to go back from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from state_machine.phases import LATER, Phase
from state_machine.undo import UNDO

RUNBOOKS = Path(__file__).parents[3] / "runbooks"
PARTS = ("Meaning", "Impact", "Look", "Do", "Never", "Done when", "Call")


@pytest.mark.parametrize("phase", list(Phase))
def test_every_phase_has_its_page_with_its_undo(phase: Phase) -> None:
    text = (RUNBOOKS / f"phase-{phase}.md").read_text()
    assert text.startswith(f"# {phase}  ")
    heads = [line[:11].strip() for line in text.splitlines()[1:] if not line.startswith(" ")]
    assert heads == list(PARTS)
    assert UNDO[phase].command in text or phase in LATER
