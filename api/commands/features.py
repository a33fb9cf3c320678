"""The command that tells who supports which level of which feature.

In:   what the command line read. Out: an exit code, and text or JSON on standard output.
Elsewhere: the matrix and what another level would do (migrator/model/features), its words (api/feature_text.py).
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from api.commands.audits import controllers_security, log_to_read
from api.commands.output import print_json
from migrator.findings.finding import FindingError
from migrator.model.printable import printable

if TYPE_CHECKING:
    from migrator.model.features.changes import FeatureReport
    from migrator.model.features.matrix import NodeFeatures

NOT_READ: Final = 2


def features(kraft: str, zookeeper: str | None, controller: Path | None, to: str | None, *, as_json: bool) -> int:
    """0: nobody stands in the way. 1: somebody does, or the level that was named is refused. 2: not read."""
    from api.feature_text import report_lines
    from migrator.model.features.cases import CASES
    from migrator.node.tools.feature_levels import level_named

    try:
        level = None if to is None else level_named(to)
        report = _features_read(kraft, zookeeper, controller, level)
    except FindingError as error:
        if as_json:
            print_json({"exit": NOT_READ, "findings": [error.occurrence.as_json()]})
        else:
            print(printable(f"not read: {error}"), file=sys.stderr)
        return NOT_READ
    if as_json:
        print_json(report)
    else:
        print("\n".join(report_lines(report, level)))
    refused = level is not None and any(each.refused is not None for each in report.changes)
    return 1 if refused or CASES[report.matrix.case].stands_in_the_way else 0


def _features_read(kraft: str, zookeeper: str | None, controller: Path | None, to: int | None) -> FeatureReport:
    from migrator.audit.identity import refuse_foreign_log
    from migrator.audit.log_plan import is_directory
    from migrator.audit.zk_source import describe_tree
    from migrator.node.tools.feature_levels import ask_controllers, feature_report, read_log
    from migrator.node.tools.log_of_quorum import voters_at
    from migrator.zk.session import ZkSession

    with log_to_read(zookeeper, kraft, controller, None) as log:
        read = read_log(log.directory)
    answers: tuple[NodeFeatures, ...] = ()
    silent: dict[str, str] = {}
    if not is_directory(kraft):
        answers, silent = ask_controllers(voters_at(kraft), read.image, controllers_security(controller))
    if zookeeper is None:
        report = feature_report(read, None, answers, to=to)
    else:
        with ZkSession(zookeeper) as session:
            if is_directory(kraft):
                refuse_foreign_log(describe_tree(session, zookeeper), kraft)
            report = feature_report(read, session, answers, to=to)
    return msgspec.structs.replace(report, silent=silent)
