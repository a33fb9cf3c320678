"""`python -m tests.mutants`: which of the hand-made faults do the tests find?

Exit code 0: every fault was killed or its survival is explained. 1: not. 2: an entry does not apply, or proves nothing.
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Final

from tests.mutants.catalogue import FAULTS
from tests.mutants.page import page, rate_table
from tests.mutants.runner import LIMIT_S, ROOT, Result, Verdict, run

PAGE: Final = ROOT / "docs" / "mutants.md"


def main() -> int:
    packages = list(dict.fromkeys(fault.package for fault in FAULTS))
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--only", choices=packages, help="faults of one package")
    parser.add_argument("--processes", type=int, default=2, choices=range(1, 17), metavar="N", help="default: 2")
    parser.add_argument("--limit-s", type=float, default=LIMIT_S, help="seconds for one run of tests (default: 240)")
    parser.add_argument("--save", action="store_true", help=f"write {PAGE.relative_to(ROOT)} (needs a run of all)")
    options = parser.parse_args()
    if options.save and options.only:
        parser.error("--save writes the table of all faults; leave --only out")
    chosen = [fault for fault in FAULTS if options.only in (None, fault.package)]
    began = time.monotonic()
    results = run(chosen, options.processes, tell, options.limit_s)
    took_s = time.monotonic() - began
    print(rate_table(results), f"{took_s:.0f} s", sep="\n\n")
    if options.save:
        PAGE.write_text(page(results, took_s))
    return exit_code(results)


def tell(result: Result) -> None:
    place = f"{result.fault.file}:{result.line}"
    print(f"{result.verdict:17} {place:45} {result.took_s:5.0f} s  {result.by or result.fault.why}", flush=True)


def exit_code(results: list[Result]) -> int:
    if any(each.verdict in (Verdict.MOVED, Verdict.UNPROVEN) for each in results):
        return 2
    return int(any(each.verdict is Verdict.SURVIVED and not each.fault.survives for each in results))


if __name__ == "__main__":
    sys.exit(main())
