"""A rehearsal of what is no cluster is a finding, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.findings.finding import FindingError
from migrator.findings.laboratory import REHEARSAL_OUT_UNUSABLE
from migrator.node.tools.rehearsal import rehearse
from migrator.zk.pipeline import UNLIMITED
from tests.support.fake_zookeeper import FakeEnsemble


def test_a_chroot_without_a_cluster_is_not_rehearsed(tmp_path: Path) -> None:
    with pytest.raises(FindingError, match="is the chroot right"):
        rehearse(FakeEnsemble().session(), tmp_path / "copy", UNLIMITED)
    assert not (tmp_path / "copy").exists()


def test_a_place_that_holds_something_is_refused_with_what_to_name_instead(tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "kept").touch()
    with pytest.raises(FindingError, match=r"Z2K-6019.*it is not empty") as refused:
        rehearse(FakeEnsemble().session(), tmp_path / "copy", UNLIMITED)
    assert refused.value.code == REHEARSAL_OUT_UNUSABLE.code
    assert "--out" in refused.value.occurrence.finding.remedy
