"""The picture of the page in README.md: `python -m tests.picture` draws docs/pictures/page.png anew.

In:   the application on the faked world of the unit tests, in READY; a Chromium.
Out:  a picture of what the service answers then, by its own template and style. No cluster was migrated for it.
Elsewhere: the world (tests/unit/state_machine/world.py), the page (api/templates/migration.html).
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, Final

from msgspec.structs import replace
from structlog.testing import capture_logs

from migrator.model.prepared_types import prepare_types
from tests.unit.api.service import Served
from tests.unit.state_machine.world import Clock, World

PICTURE: Final = Path(__file__).resolve().parents[1] / "docs" / "pictures" / "page.png"
SIZE: Final = "1000,720"
BEGAN: Final = 1_795_500_000.0
"""2026-11-24T06:00:00Z."""
BROWSERS: Final = ("chromium", "chromium-browser", "google-chrome")


class World2026(World):
    make_clock: ClassVar[Callable[[], Any]] = partial(Clock, at=BEGAN)


def page_of(directory: Path) -> str:
    """The page of a migration whose takeover gate is open."""
    directory.mkdir()
    world = World2026(directory, voters=3)
    served = Served(directory, world=world)
    held_ms = int(1000 * (BEGAN - 86_400))
    world.zookeeper.observed = replace(world.zookeeper.observed, holder_since_ms=held_ms)
    with capture_logs():
        asyncio.run(world.to_ready())
        served.last_round_at = world.clock()
        page = served.http.get("/migrations/1").text
        style = served.http.get("/style.css").text
        world.store.close()
    return page.replace("</head>", f"<style>{style}</style></head>")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.picture", description=__doc__)
    parser.add_argument("--size", default=SIZE, help="width and height")
    size = parser.parse_args().size
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        print(f"needs one of {', '.join(BROWSERS)}")
        return 1
    prepare_types()  # as the service does before its threads begin
    PICTURE.parent.mkdir(exist_ok=True)
    with TemporaryDirectory() as directory:
        file = Path(directory) / "page.html"
        file.write_text(page_of(Path(directory) / "world"))
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", f"--window-size={size}"]
        subprocess.run([browser, *options, f"--screenshot={PICTURE}", file.as_uri()], check=True, timeout=120)
    print(f"{PICTURE}: {PICTURE.stat().st_size // 1000} kB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
