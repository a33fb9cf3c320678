"""The audit under the claim reads the claim first: what ended the claim is named, and is no difference of the copy."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from migrator.driver.claim import ClaimObservation
from migrator.findings.finding import FindingError
from migrator.node.driver import copy_audit
from migrator.node.driver.copy_audit import CopyAudit
from tests.unit.driver.test_touched import EPHEMERAL, GONE, OF_A_BROKER, OF_ANOTHER_QUORUM


@pytest.mark.parametrize(
    ("observed", "code"), [(GONE, "Z2K-2051"), (OF_A_BROKER, "Z2K-2051"), (OF_ANOTHER_QUORUM, "Z2K-2003")]
)
def test_a_claim_that_ended_before_the_audit_is_named_as_that(
    monkeypatch: pytest.MonkeyPatch, observed: ClaimObservation, code: str
) -> None:
    """A session that expires is seen here or by its watch, whichever is first."""
    synced: list[bool] = []
    audit = CopyAudit.__new__(CopyAudit)
    session: Any = SimpleNamespace(sync=lambda: synced.append(True))
    audit._session = session
    monkeypatch.setattr(copy_audit, "read_claim", lambda session: observed)
    copy: Any = None
    with pytest.raises(FindingError) as raised:
        audit.under(EPHEMERAL, copy)
    assert (raised.value.code, synced) == (code, [True])
