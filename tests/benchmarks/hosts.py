"""`make bench-hosts`: sixty brokers with slow hosts, this checkout and another one beside it, in one run.

In:   `python -m tests.benchmarks.hosts [--base DIR] [--brokers N] [--controllers N] [--disks N] [--call-s S]
      [--seconds S]`; DIR is a checkout with its own `.venv`.
Out:  a table on stdout; every measurement as a line of JSON on stderr.
Elsewhere: what is measured (hosts_work.py). Its hosts sleep, so both builds may run at the same time.

| figure | what it is |
| --- | --- |
| oldest answer | the age of the oldest host's answer, as the gates see it twice a second in SOAK |
| gates open | of these moments, those in which "every file is as rendered" and every guard hold |
| calls, logins | an hour, of files and guards in SOAK; a connection that is shared is one login |
| topic ids | before each stop of a broker: directories and one id of each of 200 topics in each |
| decision | from the registration of a restarted broker to the step WHOLE |
| a broker of a roll | all of one restart, with `settle_s` of 60; it is back after 10 s; five logs on a disk |
| with more logs | the same with twenty logs on a disk |
| roll of 60 | sixty of these; by rack: two racks of ten are rolled, and the whole has six |
| round held | the longest time for which one look held the migration's round, and with it a pause or a rollback |
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[2]
WORK: Final = Path(__file__).with_name("hosts_work.py")
GOALS: Final = {
    "oldest_answer_s": "at most 30",
    "decision_s": "at most 1",
    "slowest_decision_s": "",
    "round_held_s": "",
    "a_broker_of_a_roll_s": "1/2 of before",
    "a_broker_with_more_logs_s": "1/2 of before",
    "roll_of_60_one_by_one_min": "1/2 of before",
    "roll_of_60_by_rack_min": "1/5 of one by one before",
    "gates_open_percent": "",
    "first_reading_s": "",
    "calls_an_hour": "",
    "logins_an_hour": "1/20 of before",
    "topic_id_calls": "",
    "topic_ids_s": "",
}

BESIDE: Final = {"roll_of_60_by_rack_min": "roll_of_60_one_by_one_min"}
"""Compared with another figure of before, which knew no racks."""


def measured(checkout: Path, given: list[str]) -> dict[str, Any]:
    """Blocks. The worker runs with the interpreter, the product and the tests of that checkout."""
    words = [str(checkout / ".venv/bin/python"), "-P", str(WORK), *given]
    environment = {**os.environ, "PYTHONPATH": str(checkout)}
    done = subprocess.run(words, cwd=checkout, env=environment, stdout=subprocess.PIPE, check=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps({"checkout": checkout.name, **found}), file=sys.stderr)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.benchmarks.hosts", description=__doc__.split("\n")[0])
    parser.add_argument("--base", type=Path, help="checkout to compare with")
    parser.add_argument("--brokers", default="60")
    parser.add_argument("--controllers", default="5")
    parser.add_argument("--disks", default="12")
    parser.add_argument("--call-s", default="0.9", help="what one command on a host takes")
    parser.add_argument("--seconds", default="300", help="of the loop over the files")
    asked = parser.parse_args()
    given = [asked.brokers, asked.controllers, asked.disks, asked.call_s, asked.seconds]
    checkouts = [ROOT, *([asked.base.absolute()] if asked.base is not None else [])]
    with ThreadPoolExecutor(len(checkouts)) as threads:
        found = list(threads.map(lambda each: measured(each, given), checkouts))
    now, before = found[0], found[-1] if asked.base is not None else {}
    print("| figure | now | before | now ÷ before | goal |\n| --- | ---: | ---: | ---: | --- |")
    for name, goal in GOALS.items():
        beside = before.get(BESIDE.get(name, name))
        ratio = f"{now[name] / beside:.3f}" if beside else ""
        print(f"| {name} | {now[name]} | {before.get(name, '')} | {ratio} | {goal} |")


if __name__ == "__main__":
    main()
