"""Commands about audits that were kept: compare two of them, judge one again, make the page of one.

In:   what the command line read. Out: an exit code, and text or JSON on standard output.
Elsewhere: the comparison itself (migrator.audit.history), the page (api/audit_report/views.py), the audit (audits.py).
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from api.commands.output import print_json
from migrator.findings.audit import NO_INPUTS_KEPT
from migrator.findings.finding import FindingError, words_of
from migrator.model.printable import printable, printable_lines

if TYPE_CHECKING:
    from migrator.audit.compare import AuditReport, BrokerDifference
    from migrator.audit.history.diff import (
        BrokerDifferenceChange,
        DifferenceChange,
        FamilyChange,
        RunFacts,
        RunsDiff,
        ThirdSideDiff,
        ToldDifference,
    )
    from migrator.audit.history.hadoop_path import KeptPath
    from migrator.audit.history.kept_runs import KeptRun

COULD_NOT_READ: Final = 2
PAGE_FILE: Final = "report.html"
"""Beside the report in the directory of --out."""
RESULTS: Final = {0: "passed", 1: "diverged", 2: "incomplete"}
"""By the exit code of the audit."""
COUNTS: Final = ("compared", "equal", "expected", "different", "not_read")
LINES_MAX: Final = 200
"""As many changes as a terminal is read for; --json has all of them."""


def diff(first: str, second: str, *, as_json: bool) -> int:
    """Say what changed from one kept audit to another. Z2K-5008 and Z2K-5016 are exit code 2."""
    from migrator.audit.history.diff import diff_runs
    from migrator.audit.history.kept_runs import kept_run
    from migrator.audit.spark.addresses import kept_path

    try:
        found = diff_runs(kept_run(kept_path(first)), kept_run(kept_path(second)))
    except FindingError as error:
        return _refused(error)
    if as_json:
        print_json(_as_json(found))
    else:
        _print(diff_lines(found))
    return found.exit_code


def replay(directory: str, master: str, out: str | None, *, as_json: bool) -> int:
    """Judge what a kept audit read by the rules of this release, and say what is different from its report.

    Z2K-5008, Z2K-5009 and everything that keeps an audit from being made are exit code 2.
    """
    from migrator.audit.history.diff import diff_runs, without_brokers
    from migrator.audit.history.kept_runs import KeptRun, kept_run
    from migrator.audit.run import empty_directory, keep_report
    from migrator.audit.spark.addresses import kept_path

    try:
        kept = kept_run(kept_path(directory, master))
        _refuse_without_inputs(kept)
        where = None if out is None else kept_path(out, master)
        if where is not None:
            empty_directory(where)
        again = _judged_again(kept, master, where)
        if where is not None:
            keep_report(again, where)
            keep_page(again, where)
        found = diff_runs(without_brokers(kept), KeptRun(where or kept.directory, again, time.time()), one_key=True)
    except FindingError as error:
        return _refused(error)
    if as_json:
        print_json(_as_json(found))
    else:
        _print(_replay_lines(found, brokers_told=kept.report.brokers is not None))
    return found.exit_code


def report(directory: str, file: Path | None) -> int:
    """Write the page of a kept audit; file: absent: beside its report. Z2K-5008 and Z2K-5016 are exit code 2."""
    from api.audit_report.views import AboutAudit, as_html
    from migrator.audit.history.kept_runs import kept_run
    from migrator.audit.spark.addresses import kept_path

    try:
        kept = kept_run(kept_path(directory))
        where = kept.directory.absolute()
        page = where / PAGE_FILE if file is None else file
        about = AboutAudit(f"audit in {where.name}", kept.ended_at, str(where), kept.has_inputs)
        _write(page, as_html(msgspec.to_builtins(kept.report), about))
    except FindingError as error:
        return _refused(error)
    print(printable(str(page)))
    return 0


def _write(page: KeptPath, html: str) -> None:
    from api.standalone import write_page

    if isinstance(page, Path):
        write_page(page, html)
    else:
        page.write_bytes(html.encode("utf-8", "backslashreplace"))


def keep_page(report: AuditReport, out: KeptPath) -> None:
    """Write the page beside the report of an audit. A page that cannot be written is no reason to lose the audit."""
    from api.audit_report.views import AboutAudit, as_html
    from migrator.audit.history.kept_runs import MANIFEST_FILE

    where = out.absolute()
    try:
        about = AboutAudit(f"audit in {where.name}", report.ended_at, str(where), (where / MANIFEST_FILE).is_file())
        _write(where / PAGE_FILE, as_html(msgspec.to_builtins(report), about))
    except Exception as error:  # report.json has everything, and `zk2kraft audit report` makes the page again
        import structlog  # as in `start_logging`

        structlog.get_logger().warning("audit.no_page", directory=str(where), reason=words_of(error))


def _judged_again(kept: KeptRun, master: str, out: KeptPath | None) -> AuditReport:
    """Raises Z2K-5009 without Spark, and Z2K-5001, 5003 and 2201 as an audit does."""
    from migrator.audit.identity import refuse_nothing_compared
    from migrator.audit.spark.job import replay as judge_again

    again = judge_again(kept.directory, master=master, out=out)
    return refuse_nothing_compared(again, str(kept.directory))


def _refuse_without_inputs(kept: KeptRun) -> None:
    from migrator.audit.engines import HOW_TO_INSTALL_SPARK, spark_is_installed

    where = str(kept.directory)
    if not kept.has_inputs:
        quick = kept.report.engine == "quick"
        reason = (
            "the quick engine keeps no inputs"
            if quick
            else "no finished audit by Spark is in it, or one with --report-only"
        )
        raise NO_INPUTS_KEPT.error(directory=where, reason=reason)
    if not spark_is_installed():
        raise NO_INPUTS_KEPT.error(directory=where, reason=HOW_TO_INSTALL_SPARK)


def _refused(error: FindingError) -> int:
    print(printable_lines(f"{error}\n{error.occurrence.finding.remedy}"), file=sys.stderr)
    return COULD_NOT_READ


def _as_json(found: RunsDiff) -> dict[str, Any]:
    return {**msgspec.to_builtins(found), "exit": found.exit_code}


# --- words ------------------------------------------------------------------------------------------------


def _print(lines: Iterable[str]) -> None:
    for each in lines:
        print(printable(each))


def diff_lines(found: RunsDiff) -> Iterator[str]:
    """Tell both runs, then what changed from the first to the second."""
    yield from _run_lines("first", found.first)
    yield from _run_lines("second", found.second)
    if found.same_cluster is False:
        yield "NOTE  the two audits are of different clusters"
    yield from _changed_lines(found)
    if found.brokers is not None:
        yield from _third_side_lines(found.brokers)
    elif found.first.brokers_asked != found.second.brokers_asked:
        which = "first" if found.first.brokers_asked else "second"
        yield f"only the {which} audit asked brokers; what they said is not compared"
    yield from _summary(found, "the two audits")


def _replay_lines(found: RunsDiff, *, brokers_told: bool) -> Iterator[str]:
    yield from _run_lines("kept", found.first)
    yield from _run_lines("again", found.second)
    yield from _changed_lines(found)
    if brokers_told:
        yield "what brokers said was not judged again: their answers are not kept"
    yield from _summary(found, "the kept report and the replay")


def _run_lines(name: str, run: RunFacts) -> Iterator[str]:
    from api.standalone import moment

    log_end = "log not read" if run.offset < 0 else f"log up to offset {run.offset}, epoch {run.epoch}"
    brokers = ", brokers asked" if run.brokers_asked else ""
    yield (
        f"{name:<6}  {run.directory}: {RESULTS[run.exit_code]}, by {run.engine or 'an unknown engine'}, "
        f"{moment(run.ended_at)}, {run.seconds:.1f} s, {log_end}{brokers}"
    )
    if run.lacks:
        yield f"{name:<6}  is of another release: it has no {', '.join(run.lacks)}"
    if run.left_off:
        yield f"{name:<6}  {run.left_off:,} of its differences are counted and not told, so they are not compared"


def _changed_lines(found: RunsDiff) -> Iterator[str]:
    yield from _table(found.families)
    for each in found.differences[:LINES_MAX]:
        yield _difference_line(each)
    yield from _not_told(len(found.differences), found.not_compared, found.secrets)


def _not_told(changes: int, not_compared: int, secrets: int) -> Iterator[str]:
    if changes > LINES_MAX:
        yield f"and {changes - LINES_MAX:,} more changes; --json has all of them"
    if not_compared:
        yield f"not compared, since the other audit may have left them off: {not_compared:,}"
    if secrets:
        yield f"in both audits with a secret value, of which nobody can say whether it changed: {secrets:,}"


def _table(families: Iterable[FamilyChange]) -> Iterator[str]:
    """One line per family: a count, or both where it changed."""
    rows = [["family", *(name.replace("_", " ") for name in COUNTS), ""]]
    for each in families:
        both = [
            None if side is None else [getattr(side, name) for name in COUNTS] for side in (each.first, each.second)
        ]
        first, second = both
        pairs = zip(first or ["-"] * len(COUNTS), second or ["-"] * len(COUNTS), strict=True)
        cells = [f"{before}" if before == now else f"{before} -> {now}" for before, now in pairs]
        rows.append([each.family, *cells, "changed" if each.changed else ""])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        yield " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip(" |")


def _difference_line(each: DifferenceChange) -> str:
    told = each.second or each.first
    assert told is not None, each
    found = told.difference
    what = " ".join(filter(None, (found.family, found.key, found.field_)))
    return f"{each.change}: {what}: {_from_to(_sides(each.first), _sides(each.second))}"


def _sides(told: ToldDifference | None) -> str:
    if told is None:
        return ""
    found = told.difference
    rule = f" ({found.rule})" if found.rule else ""
    if found.kind == told.outcome:  # not read
        return f"{told.outcome}{rule}"
    return f"{told.outcome}, {found.kind}, zookeeper={found.zookeeper} log={found.log}{rule}"


def _from_to(first: str, second: str) -> str:
    return f"was {first}; is {second}" if first and second else first or second


def _third_side_lines(side: ThirdSideDiff) -> Iterator[str]:
    yield ""
    yield "brokers; keys of all of them:"
    yield from _table(side.families)
    for broker in side.brokers:
        told = [
            "not asked"
            if each is None
            else f"{each.mode or 'no answer'}, {each.compared} compared, {each.different} different"
            + "".join(f", not read: {reason}" for reason in (each.problem or each.refused,) if reason)
            for each in (broker.first, broker.second)
        ]
        yield f"broker {broker.broker}: was {told[0]}; is {told[1]}"
    if len(set(side.problems)) > 1:
        yield f"no broker was read: first: {side.problems[0] or '-'}; second: {side.problems[1] or '-'}"
    for each in side.differences[:LINES_MAX]:
        yield _broker_line(each)
    yield from _not_told(len(side.differences), side.not_compared, side.secrets)
    for word, names in (("new", side.alone_new), ("gone", side.alone_gone)):
        yield from (f"{word}: ZooKeeper stands alone: {name}" for name in names)


def _broker_line(each: BrokerDifferenceChange) -> str:
    found = each.second or each.first
    assert found is not None, each
    what = " ".join(filter(None, (found.family, found.key, found.field_)))
    said = _from_to(_sides_of_broker(each.first), _sides_of_broker(each.second))
    return f"{each.change}: broker {found.broker}: {what}: {said}"


def _sides_of_broker(found: BrokerDifference | None) -> str:
    if found is None:
        return ""
    if found.reason:
        return f"{found.kind} ({found.reason})"
    alone = (
        f" ({'all three differ' if found.alone == 'each' else f'the {found.alone} stands alone'})"
        if found.alone
        else ""
    )
    return f"{found.kind}, broker={found.on_broker} log={found.log}{alone}"


def _summary(found: RunsDiff, what: str) -> Iterator[str]:
    words = {0: "nothing changed", 1: "changed", 2: "nothing changed of what can be compared; not all can be"}
    yield f"{what}: {words[found.exit_code]}"
