"""Every phase has its page, in the order that every page has, and the page knows how to go back from it."""

from __future__ import annotations

from pathlib import Path

import pytest

from api.lines import divergence_line
from api.models import DualWriteView
from state_machine.policy.phase_table import PHASES
from state_machine.policy.phases import Phase

RUNBOOKS = Path(__file__).parents[3] / "runbooks"
PARTS = ("Meaning", "Impact", "Look", "Do", "Never", "Done when", "Call")


@pytest.mark.parametrize("phase", list(Phase))
def test_every_phase_has_its_page_with_its_undo(phase: Phase) -> None:
    text = (RUNBOOKS / f"phase-{phase}.md").read_text()
    assert text.startswith(f"# {phase}  ")
    heads = [line[:11].strip() for line in text.splitlines()[1:] if not line.startswith(" ")]
    assert heads == list(PARTS)
    assert PHASES[phase].undo.command in text


@pytest.mark.parametrize("page", ["phase-DUAL_WRITE", "Z2K-2070"])
def test_pages_name_what_status_prints_when_zookeeper_lacks_nothing(page: str) -> None:
    nothing_lacks = DualWriteView(
        offset=7,
        log_offset=7,
        lag_records=0,
        behind_ms=0,
        blocking_ms=0,
        divergence="WITHIN",
        lag_ms=0.0,
        multis_waiting=0,
        reconciled_writes=0,
    )
    printed = divergence_line(nothing_lacks)
    assert f"`{printed}`" in (RUNBOOKS / f"{page}.md").read_text()


@pytest.mark.parametrize("page", ["phase-DUAL_WRITE", "phase-ROLLING_BACK", "Z2K-2003", "Z2K-2010", "Z2K-2070"])
def test_a_release_from_dual_write_with_its_logs_at_hand_compares_them(page: str) -> None:
    lines = [
        line
        for line in (RUNBOOKS / f"{page}.md").read_text().splitlines()
        if "zk2kraft rollback --without-controllers -z" in line
    ]
    assert any("--execute" in line for line in lines)
    assert all("--log DIR" in line for line in lines if "--execute" in line)
