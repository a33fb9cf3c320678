"""When FINALIZING can still be given up: no controller was started without the migration flag, by every witness.

In:   `Evidence` with its `road`. Out: a `Verdict`.
Elsewhere: the gate before FINALIZING (gates_forward.py), how it is given up (state_machine/finish/give_up.py).
Rule: the journal alone is no proof; a restored database knows of nothing. So the journal, the file on each host and
what each voter says of itself (ApiVersions, else its registration) have to agree. ZooKeeper is not asked: it may be
why somebody goes back.
"""

from __future__ import annotations

from migrator.findings.road import FILES_NOT_READ, FLAG_REMOVED_EARLY
from migrator.model.values import MigrationState
from migrator.model.verdict import Condition, Verdict
from state_machine.policy.conditions import fleet_evidence_of, log_is_observed, state_is
from state_machine.policy.fleet_evidence import FilesObserved, FleetEvidence, Roll
from state_machine.policy.gates import Evidence, observed_at
from state_machine.policy.gates_back import every_voter_has_the_flag


def finalize_may_be_given_up(evidence: Evidence) -> Verdict:
    """FINALIZING to SOAK. A controller that is stopped gets its kept file first; the others run with the flag."""
    road = fleet_evidence_of(evidence)
    return Verdict(
        (
            observed_at(evidence),
            log_is_observed(road),
            state_is(road, MigrationState.MIGRATION),
            never_started_without_the_flag(road),
            *every_voter_has_the_flag(evidence),
            every_file_has_the_flag(road),
        )
    )


def never_started_without_the_flag(road: FleetEvidence) -> Condition:
    """The journal has no start without the flag. Once such a file was complete, its start may have been requested."""
    began = list(road.started_without)
    said = f"controllers {began} have a file without the flag, and may have been started with it"
    return Condition("no start without the flag is in the journal", not began, said if began else "there is none")


def every_file_has_the_flag(road: FleetEvidence) -> Condition:
    """The file on each host, read lately, has the flag. That of a stopped controller may be the next one already."""
    name, files = "every controller's file has the migration flag", road.files
    if files is None or files.age_s >= files.limit_s:
        said = "the service has read no file yet" if files is None else f"they were read {files.age_s:.0f} s ago"
        return Condition(name, False, said, (FLAG_REMOVED_EARLY.code,))
    wrong = [
        f"the file of controller {each.id} {why}" for each in road.voters if (why := _why_not(road, files, each.id))
    ]
    said = "; ".join(wrong) or f"every file had it {files.age_s:.0f} s ago"
    return Condition(name, bool(road.voters) and not wrong, said, (FLAG_REMOVED_EARLY.code,))


def _why_not(road: FleetEvidence, files: FilesObserved, node: int) -> str:
    """Empty: it has the flag, or is put back before the step, or somebody waived that it cannot be read."""
    if node in files.with_flag or node in road.stopped_for_it:
        return ""
    if node in files.without_flag:
        return "has none"
    return "" if road.waiver(FILES_NOT_READ.code, node) is not None else "could not be read"


def is_begun_by(road: FleetEvidence) -> bool:
    """Whether the stop of a controller was ordered, by the journal."""
    final = road.roll(Roll.FINAL)
    return bool(road.stopped_for_it or road.started_without or final.whole or final.under_way)


def can_be_given_up(road: FleetEvidence | None) -> bool:
    """Whether status, page and report say that something leads back: what they know of it now says so."""
    if road is None or road.started_without or road.log_problem or road.migration != MigrationState.MIGRATION.name:
        return False
    return bool(road.voters) and all(each.ready is True for each in road.voters)
