"""The change report for a terminal: a line per fact.

In:   the document of `views.as_json`. Out: lines.
Elsewhere: the page with every detail (views.py). Diffs and evidence of restarts are on the page and in the JSON.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from api.change.views import between, takes
from api.pages.words import span
from api.standalone import moment, plain
from state_machine.policy.fleet_evidence import Roll
from state_machine.policy.phase_table import PHASES
from state_machine.policy.phases import Phase
from state_machine.policy.undo import IRREVERSIBLE

FINAL: Final = Roll.FINAL.value


def change_lines(document: dict[str, Any]) -> list[str]:
    report = plain(document)
    parts = (_head, _legs, _plan, _durations, _risks, _back, _people, _done, _measured, _zookeeper, _not_verified)
    return [line.replace("\n", " ") for part in parts for line in part(report)]


def _head(report: dict[str, Any]) -> Iterator[str]:
    yield f"change of {report['name']}: {report['state']}, in {report['phase']}, at {moment(report['at'])}"
    for each in report["notices"]:
        yield f"NOTE  {each}"
    if report["no_plan"]:
        yield f"no plan per host  {report['no_plan']}"


def _plan(report: dict[str, Any]) -> Iterator[str]:
    said = False
    for each in report["restarts"]:
        if each["roll"] == FINAL and not said:
            said = True
            yield f"{IRREVERSIBLE}  {PHASES[Phase.FINALIZING].undo.does}"
        if each["began_at"] is None:
            file = f"{each['file']} file" if each["file"] else "its file stays"
            step = "planned" if each["step"] == "PENDING" else each["step"]
            node = f"{each['role']} {each['node']} on {each['host'] or '-'}"
            yield f"{each['number']:>4}  {each['phase']}  {node}  {file} {each['path']}  {step}"


def _legs(report: dict[str, Any]) -> Iterator[str]:
    for each in report.get("legs", ()):
        where = each["phase"] or "by your own means"
        end = f"; {IRREVERSIBLE}: {each['irreversible']}" if each["irreversible"] else f"; undo: {each['undo']}"
        restarts = f"{each['restarts']} restarts, " if each["restarts"] else ""
        said = f"{each['what']} ({where}): {restarts}{between(each)}; {each['decides']}"
        yield f"leg {each['number']}  {each['state']:<5}  {said}{end}"


def _durations(report: dict[str, Any]) -> Iterator[str]:
    for each in (*report["durations"], report["total"]):
        yield f"takes  {each['what']}: {between(each)} ({each['source']})"


def _risks(report: dict[str, Any]) -> Iterator[str]:
    for each in report["risks"]:
        yield f"risk  {'open, ' if each['open'] else ''}{each['phase']}: {each['what']}; {each['limit']}"
    for each in report["waivers"]:
        node = "the cluster" if each["node"] is None else f"node {each['node']}"
        state = "until" if each["holds"] else "ended"
        yield f"waiver  {each['what']} of {node} by {each['owner']}, {state} {moment(each['end'])}: {each['reason']}"


def _back(report: dict[str, Any]) -> Iterator[str]:
    back = report["back"]
    now = back["now"]
    ready = {True: "possible", False: f"not possible now: {now['why_not']}", None: "no command"}[now["ready"]]
    took = "" if now["seconds"] is None else f"; about {span(now['seconds'])}"
    yield f"going back now  {ready}; {now['command'] or '-'}: {now['does']}; restarts: {now['restarts']}{took}"
    if now.get("takes"):
        yield f"going back now  takes {takes(now)}: {now['takes']['what']} ({now['takes']['source']})"
    yield f"going back now  lost: {now['lost']}; without controller: {now['without_controller']}"
    for each in back["phases"]:
        if each.get("takes") and each["takes"]["restarts"]:
            yield f"going back  from {each['phase']}, at any moment in it: {takes(each)}, {each['takes']['what']}"
    yield f"going back  by command until {back['last_by_command']}; the last moment: {back['last_moment']}"
    if back["irreversible"]:
        yield f"{IRREVERSIBLE}  since {moment(back['irreversible_since'])}"


def _people(report: dict[str, Any]) -> Iterator[str]:
    for each in report["approvals"]:
        yield f"approved  {each['to']} by {each['who']} at {moment(each['at'])}: {each['reason']} ({each['digest']})"
    for each in report["operations"]:
        to = f" to {each['to']}" if each["to"] else ""
        yield f"requested  {each['operation']}{to} by {each['who']} at {moment(each['at'])}: {each['state']}"


def _done(report: dict[str, Any]) -> Iterator[str]:
    for each in report["restarts"]:
        if each["began_at"] is None:
            continue
        took = "" if each["seconds"] is None else f", {span(each['seconds'])}"
        held = f", {len(each['whole'])} conditions held" if each["whole"] else ""
        said = each["trouble"] or each["detail"]
        yield (
            f"{each['number']:>4}  {each['phase']}  {each['role']} {each['node']}  {each['step']} "
            f"{moment(each['began_at'])}{took}{held}  {said}"
        )


def _measured(report: dict[str, Any]) -> Iterator[str]:
    for each in report["without_controller"]:
        when = moment(each["ended_at"])
        yield f"without controller  {each['kind']}, {when}: {span(each['seconds'])} in {each['phase']}"
    canary = report["canary"]
    if canary["wanted"] or canary["answered"]:
        yield f"canary  {canary['failed']} of {canary['answered']} records failed {canary['last_error']}".rstrip()
    else:
        yield "canary  no traffic is wanted"
    for each in report["audits"]:
        counts = f"{each['compared']} compared, {each['different']} different, {each['not_read']} not read"
        yield f"audit  {each['id']} {each['purpose']} by {each['engine']}: {each['result'] or each['state']}; {counts}"
    for each in report["backups"]:
        yield f"backup  before {each['before']}: {each['file']} {each['sha256']}".rstrip()


def _zookeeper(report: dict[str, Any]) -> Iterator[str]:
    if report["zookeeper_end"]:
        yield f"end of ZooKeeper  {report['zookeeper_end']['says']}"
    own = report["own_znodes"]
    if own is None:
        return
    before, after = own["before_problem"] or moment(own["before_at"]), own["after_problem"] or moment(own["after_at"])
    yield f"znodes of the migration  read before: {before}; after the rollback: {after}"
    for each in own["znodes"]:
        said = f"before: {each['before'] or 'not read'}"
        said += f"; after: {each['after'] or 'not read'}" if own["after_at"] else ""
        yield f"znode  {each['path']}  {said}"


def _not_verified(report: dict[str, Any]) -> Iterator[str]:
    yield from (f"not verified  {each}" for each in report["not_verified"])
