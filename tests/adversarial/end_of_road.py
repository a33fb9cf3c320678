"""Stories of the end of the road that take a minute or more each, with real processes and traffic.

`python -m tests.adversarial.end_of_road [--only STORY,...] [--before COMMIT]`: each story has a cluster of its own.
Exit code 0 when every story came to its end with nothing lost. What shows the rest: docs/adversarial.md, "The end of
the road".
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from migrator.lab.servers.laboratory import Laboratory
from tests.adversarial.earlier import LAST_WITH_SCHEMA_2
from tests.adversarial.kept import PASSED, outcome_of
from tests.adversarial.stories_back import (
    back_after_ten_elections,
    back_from_all_rolled,
    back_from_half_way,
    back_from_replacing_half,
    back_from_soak,
    back_to_original_files,
    back_with_version_1,
)
from tests.adversarial.stories_by_hand import back_by_command_line, back_by_hand_from_stock
from tests.adversarial.stories_elsewhere import controllers_on_other_hosts
from tests.adversarial.stories_estate import secured_estate, secured_estate_back
from tests.adversarial.stories_forward import (
    back_and_forth,
    brokers_join,
    by_command_line,
    disk_that_dies,
    disk_that_dies_after_finalizing,
    flagless_voter,
    later_kafka_on_our_log,
    zookeeper_and_controllers_dead,
)
from tests.adversarial.stories_later import later_kafka_in_dual_write, later_kafka_in_soak
from tests.adversarial.stories_stock_engine import stock_engine_killed, stock_engine_rules, stock_engine_secured
from tests.adversarial.stories_tiered import tiered, tiered_back
from tests.adversarial.stories_versions import (
    brokers_of_3_6,
    upgraded_in_dual_write,
    upgraded_in_the_roll,
)

STORIES: Final[Mapping[str, Callable[[Laboratory], None]]] = {
    each.__name__: each
    for each in (
        brokers_join,
        by_command_line,
        back_and_forth,
        zookeeper_and_controllers_dead,
        flagless_voter,
        later_kafka_on_our_log,
        later_kafka_in_dual_write,
        later_kafka_in_soak,
        secured_estate,
        secured_estate_back,
        disk_that_dies,
        disk_that_dies_after_finalizing,
        back_from_half_way,
        back_from_all_rolled,
        back_to_original_files,
        back_with_version_1,
        back_from_soak,
        back_from_replacing_half,
        back_after_ten_elections,
        back_by_hand_from_stock,
        back_by_command_line,
        controllers_on_other_hosts,
        upgraded_in_dual_write,
        upgraded_in_the_roll,
        brokers_of_3_6,
        tiered,
        tiered_back,
        stock_engine_secured,
        stock_engine_rules,
        stock_engine_killed,
    )
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.adversarial.end_of_road")
    parser.add_argument("--only", default="", help="these stories, with commas between: " + ", ".join(STORIES))
    before = f"of the release that is upgraded in {upgraded_in_dual_write.__name__} ({LAST_WITH_SCHEMA_2})"
    parser.add_argument("--before", metavar="COMMIT", default=LAST_WITH_SCHEMA_2, help=before)
    chosen = parser.parse_args(arguments)
    stories = dict(STORIES)
    stories[upgraded_in_dual_write.__name__] = partial(upgraded_in_dual_write, commit=chosen.before)
    failed = 0
    for name in chosen.only.split(",") if chosen.only else STORIES:
        began = time.monotonic()
        outcome = outcome_of("end", stories[name])
        failed += outcome != PASSED
        print(f"{name}: {outcome} in {time.monotonic() - began:.0f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
