"""What `check` prints: findings of one code together, and not two hundred of them."""

from __future__ import annotations

from api.check_text import SHOWN, finding_lines
from migrator.findings.content import MALFORMED_ZNODE, STATE_MISSING


def test_findings_of_one_code_stand_together_with_their_remedy_once() -> None:
    states = [STATE_MISSING.found(path=f"/brokers/topics/t/partitions/{each}/state") for each in range(200)]
    odd = MALFORMED_ZNODE.found(path="/brokers/topics/x", reason="not JSON")
    lines = list(finding_lines([states[0], odd, *states[1:]]))
    assert [line.split()[1] for line in lines[:SHOWN]] == [STATE_MISSING.code] * SHOWN
    assert lines[SHOWN] == f"       and 197 more of {STATE_MISSING.code}; --all shows them"
    assert lines[SHOWN + 1] == f"       {STATE_MISSING.remedy}"
    assert lines[SHOWN + 2].split()[1] == MALFORMED_ZNODE.code
    assert len(lines) == SHOWN + 4


def test_every_one_is_printed_on_request_and_few_always_are() -> None:
    states = [STATE_MISSING.found(path=f"/{each}") for each in range(SHOWN + 1)]
    assert len(list(finding_lines(states, everything=True))) == SHOWN + 2
    assert len(list(finding_lines(states[:SHOWN]))) == SHOWN + 1
    assert list(finding_lines([])) == []
