"""Every story prints what it printed when it was recorded; `pytest --record tests/scenarios` writes what it prints now.

Commit a changed recording only when you can explain each line of the difference.
"""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Final

import pytest

from tests.scenarios.migration import migration
from tests.scenarios.quorum import quorum
from tests.scenarios.story import Mistake, Stages, play

STAGES: Final[Stages] = {"quorum": quorum, "migration": migration}
FILES: Final = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_story_goes_as_recorded(path: Path, request: pytest.FixtureRequest) -> None:
    recorded = path.read_text()
    now = play(recorded, STAGES)
    if request.config.getoption("--record"):
        path.write_text(now)
        return
    difference = difflib.unified_diff(recorded.splitlines(), now.splitlines(), "recorded", "now", lineterm="", n=2)
    assert now == recorded, f"{path.name} (pytest --record writes it)\n" + "\n".join(difference)


def test_there_are_at_least_ten_stories_and_each_begins_with_its_point() -> None:
    assert len(FILES) >= 10
    for path in FILES:
        assert path.read_text().startswith("# "), path.name


def test_a_command_that_no_stage_knows_is_named() -> None:
    with pytest.raises(Mistake, match="> fly 1"):
        play("> quorum voters=1\n> fly 1\n", STAGES)
    with pytest.raises(Mistake, match="> nowhere"):
        play("> nowhere\n", STAGES)
