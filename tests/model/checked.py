"""Which model the checker went through whole: `make model` notes it, and says so until the model changes.

    python -m tests.model.checked --save

In:   docs/model/quorum.pml and the cases (test_model.py), and the checksum of both in docs/model/checked.sha256.
Out:  whether every case has passed on these very files. Then a test run repeats a few cases; otherwise all of them.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import sys
from pathlib import Path
from typing import Final

MODEL: Final = Path(__file__).parents[2] / "docs" / "model" / "quorum.pml"
CASES: Final = Path(__file__).with_name("test_model.py")
NOTED: Final = MODEL.with_name("checked.sha256")
WHOLE: Final = "ZK2KRAFT_MODEL_WHOLE"
"""This variable asks for all cases, whatever is noted."""


def checksum() -> str:
    return hashlib.sha256(MODEL.read_bytes() + CASES.read_bytes()).hexdigest()


def all_cases() -> bool:
    return bool(os.environ.get(WHOLE)) or not NOTED.is_file() or NOTED.read_text().strip() != checksum()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model.checked", description=__doc__)
    parser.add_argument("--save", action="store_true", help="note that every case passed on the model as it is now")
    if parser.parse_args().save:
        NOTED.write_text(f"{checksum()}\n")
    print("changed since it was checked" if all_cases() else "checked as it is")
    return 0


if __name__ == "__main__":
    sys.exit(main())
