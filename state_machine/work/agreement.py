"""What somebody agrees to before a step that cannot be undone, and that it is what they read.

In:   a snapshot and the phase that is agreed to. Out: an `Agreement` with its digest; refusals.
Elsewhere: whether it may be agreed to now (operations.py), what an approval is worth later
(evidence/after_dual_write.py, rollback/plan.py), showing it (`GET .../agreement`, `zk2kraft approve`).
Errors: Z2K-4064.
Rules: a request carries the digest that its sender read. It is compared when the request arrives and when it is
settled. Between the two it is a part of the request's fingerprint, so that no column is needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from migrator.findings.service import AGREED_TO_ANOTHER
from migrator.model.features.raises import Raise
from state_machine.evidence.after_dual_write import digest_of, plan_of
from state_machine.policy.phases import OperationName, Phase
from state_machine.rollback.plan import loss_digest, loss_document, loss_of
from state_machine.rows.store import NewOperation, Snapshot
from state_machine.rows.tables import Operation


@dataclass(frozen=True, slots=True)
class Agreement:
    """document: exactly what is agreed to. digest: SHA-256 of it, in hexadecimal digits. says: the same in words."""

    to: Phase
    document: Mapping[str, Any]
    digest: str
    says: tuple[str, ...]


def agreement(snapshot: Snapshot, to: Phase, wanted: Raise | None = None) -> Agreement:
    """Say what is agreed to as things are now.

    wanted: the raise of a feature; None: of metadata.version, where that is what is agreed to.
    """
    if to is Phase.ROLLING_BACK:
        lost = loss_of(snapshot)
        said = tuple(f"lost: {each}" for each in lost) or ("nothing is lost that ZooKeeper cannot hold",)
        return Agreement(to, loss_document(lost), loss_digest(lost), said)
    plan = plan_of(snapshot, wanted)
    return Agreement(to, plan, digest_of(snapshot, wanted), tuple(_words(plan)))


def _words(plan: Mapping[str, Any]) -> Iterator[str]:
    yield f"cluster {plan['cluster'] or 'not known'}; the log says {plan['state']}"
    if "metadata_version" in plan:
        yield f"metadata.version, from and to: {plan['metadata_version'] or 'not known'}"
    brokers = [f"{each[0]} ({each[1]})" if "files" in plan else str(each[0]) for each in plan["brokers"]]
    yield f"brokers: {', '.join(brokers) or 'none'}"
    yield f"controllers: {', '.join(str(each[0]) for each in plan['controllers']) or 'none'}"
    if "files" in plan:
        yield f"files as read: {len(plan['files'])}; inventory file {plan['fleet'][:16] or 'not read'}"
    yield from plan["steps"]


def require_read(given: str | None, found: Agreement) -> None:
    """When the request arrives. Raises Z2K-4064 for another digest, and for none."""
    if given != found.digest:
        raise AGREED_TO_ANOTHER.error(to=found.to, given=given or "no digest", found=found.digest)


def require_bound(operation: Operation, found: Agreement) -> None:
    """When it is settled. Raises Z2K-4064 when things have changed since it was sent."""
    asked = None if operation.to_phase is None else Phase(operation.to_phase)
    bound = {
        NewOperation(
            name=OperationName.APPROVE,
            who=operation.who,
            reason=operation.reason,
            to=asked,
            expected_version=version,
            digest=found.digest,
            feature=operation.feature,
        ).fingerprint
        for version in (None, operation.expected_version)
    }
    if operation.fingerprint not in bound:
        raise AGREED_TO_ANOTHER.error(to=found.to, given="another digest", found=found.digest)
