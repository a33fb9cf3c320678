"""Show which pages of docs/reference are stale; with --save, write them. Exit code: 1 when one was stale."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.reference.pages import pages

PLACE = Path(__file__).resolve().parents[2] / "docs" / "reference"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.reference", description=__doc__)
    parser.add_argument("--save", action="store_true", help="write what is stale")
    save = parser.parse_args().save
    stale = stale_pages()
    for name, text in stale.items():
        print(f"{'written' if save else 'stale'}  docs/reference/{name}")
        if save:
            PLACE.mkdir(exist_ok=True)
            (PLACE / name).write_text(text)
    return 1 if stale and not save else 0


def stale_pages() -> dict[str, str]:
    return {
        name: text
        for name, text in pages().items()
        if not (PLACE / name).is_file() or (PLACE / name).read_text() != text
    }


if __name__ == "__main__":
    sys.exit(main())
