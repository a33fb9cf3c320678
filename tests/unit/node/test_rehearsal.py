"""A rehearsal of what is no cluster is a finding, and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from migrator.errors import FindingError
from migrator.node.rehearsal import rehearse
from migrator.zk.pipeline import UNLIMITED
from tests.support.fake_zookeeper import FakeEnsemble


def test_a_chroot_without_a_cluster_is_not_rehearsed(tmp_path: Path) -> None:
    with pytest.raises(FindingError, match="is the chroot right"):
        rehearse(FakeEnsemble().session(), tmp_path / "copy", UNLIMITED)
    assert not (tmp_path / "copy").exists()
