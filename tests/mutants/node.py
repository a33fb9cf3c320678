"""Faults of `migrator/node`: what the shell does with disks, claims, brokers and replies."""

from __future__ import annotations

from typing import Final

from tests.mutants.fault import Fault

NODE: Final = "migrator/node/"


def of(*files: str) -> tuple[str, ...]:
    """Tests of this package."""
    return tuple(f"tests/unit/node/{file}" for file in files)


FAULTS: Final = (
    Fault(
        NODE + "leader/active_controller.py",
        "self._begin_apart(decided, request)",
        "self._begin_apart(lambda _, early=decided({}): early, request)",
        "a decision about many partitions is made from what held before others decided: unclean leaders",
        of("leader/test_stale_decisions.py"),
    ),
    Fault(
        NODE + "leader/active_controller.py",
        "            if reason is not None:\n                raise self._refuse_decision(",
        "            if reason is not None and not records:\n                raise self._refuse_decision(",
        "a leader that is out of sync is written, should a decision be wrong",
        of("leader/test_stale_decisions.py"),
    ),
    Fault(
        NODE + "leader/active_controller.py",
        "if self.epoch != epoch or self._permitted() != permitted:",
        "if self.epoch != epoch or self._may_write() != permitted[0]:",
        "a decision for brokers is appended though they are served no more",
        of("leader/test_stale_decisions.py"),
    ),
    Fault(
        NODE + "driver/rollback.py",
        "            self._refuse_with_lagging_versions()\n",
        "",
        "the next ZooKeeper controller refuses ISR changes of partitions whose versions are behind",
        of("driver/test_lagging_versions.py"),
    ),
    Fault(
        NODE + "tools/log_against_zookeeper.py",
        "guarded(stands, now, JUTE_MAXBUFFER_MIN)",
        "guarded((), now, JUTE_MAXBUFFER_MIN)",
        "versions are raised under somebody else's claim",
        of("tools/test_log_against_zookeeper.py"),
    ),
    Fault(
        NODE + "log/log_flusher.py",
        "            self._on_flushed(end, generation, took_s)",
        "            self._on_flushed(self._store.end, generation, took_s)",
        "acknowledges what was appended while the disk was still writing",
        of("log/test_log_flusher.py"),
    ),
    Fault(
        NODE + "log/log_store.py",
        "        os.fsync(segment.descriptor)\n        _write_indexes(segment)\n",
        "        _write_indexes(segment)\n",
        "a tail that only the page cache has is taken for durable after a restart",
        of("log/test_power_cuts.py"),
    ),
    Fault(
        NODE + "log/log_store.py",
        "        os.ftruncate(segment.descriptor, size)\n        os.fsync(segment.descriptor)\n",
        "        os.ftruncate(segment.descriptor, size)\n",
        "a truncated tail comes back after a power cut",
        of("log/test_power_cuts.py"),
    ),
    Fault(
        NODE + "log/storage.py",
        "        file.flush()\n        os.fsync(file.fileno())\n",
        "        file.flush()\n",
        "a power cut loses votes and marks",
        of("log/test_power_cuts.py"),
    ),
    Fault(
        NODE + "log/storage.py",
        "    temporary.replace(path)\n    sync_directory(path.parent)\n",
        "    temporary.replace(path)\n",
        "a power cut brings an old vote back",
        of("log/test_power_cuts.py"),
    ),
    Fault(
        NODE + "log/snapshot_files.py",
        '        with part.open("r+b") as file:\n            os.fsync(file.fileno())\n',
        "",
        "a received snapshot has its name and not its bytes after a power cut",
        of("log/test_power_cuts.py"),
    ),
    Fault(
        NODE + "leader/active_controller.py",
        "        if not self._pending:\n            return None\n",
        "        if not decision.records:\n            return None\n",
        "replies that rest on uncommitted facts",
        of("listener/test_server_stop.py"),
    ),
    Fault(
        NODE + "leader/active_controller.py",
        "heartbeat_without_change(replace(self._situation(), image=self.image), request).reply",
        "heartbeat_without_change(self._situation(), request).reply",
        "beside a large decision a broker hears that it is unfenced before that is committed",
        of("leader/test_divisible_appends.py"),
    ),
    Fault(
        NODE + "driver/reconciling.py",
        "        if foreign:\n            error",
        "        if False:\n            error",
        "a successor deletes topics that only ZooKeeper has (Z2K-2013)",
        of("driver/test_ways_refused.py", "driver/test_ways_back.py"),
    ),
    Fault(
        NODE + "driver/updating_brokers.py",
        "                self.progress.changed(CopyShared())  # before",
        "                pass  # before",
        "gives the cluster up after brokers were told",
        of("driver/test_ways_refused.py", "driver/test_ways_back.py"),
    ),
    Fault(
        NODE + "driver/rollback.py",
        "            if not report.same:",
        "            if report.different:",
        "keys that could not be read pass the audit of a rollback (Z2K-2014)",
        of("driver/test_ways_refused.py", "driver/test_ways_back.py"),
    ),
    Fault(
        NODE + "driver/rollback.py",
        "        await self.retirement.retire(msgspec.json.encode(left).decode())\n",
        "",
        "the claim is deleted and the log can still be used",
        of("driver/test_ways_refused.py", "driver/test_ways_back.py"),
    ),
    Fault(
        NODE + "driver/claiming.py",
        '            return recognise(await self.claim_watch.observed(), claim), "its answer',
        '            return False, "its answer',
        "a claim whose answer was lost counts as refused (K-01)",
        of("driver/test_zookeeper_trouble.py", "driver/test_displacing.py"),
    ),
    Fault(
        NODE + "driver/driver_node.py",
        "        if delta.brokers:\n            self.parts.events.call()",
        "        if True:\n            self.parts.events.call()",
        "ZooKeeper and every broker are read twice a second for days",
        of("driver/test_takeover_gate.py"),
    ),
    Fault(
        NODE + "driver/takeover_gate.py",
        "estimated_ms=3 * self._read_ms + self._encode_ms + sending.total_ms",
        "estimated_ms=3 * self._read_ms + self._encode_ms",
        "a takeover with many brokers is over its limit after the commit",
        of("driver/test_takeover_gate.py"),
    ),
    Fault(
        NODE + "driver/window_guard.py",
        "                    if gone and found is None:",
        "                    if False:",
        "the time without controller goes on after a broker left",
        of("driver/test_window_guard.py"),
    ),
    Fault(
        NODE + "driver/mirror_node.py",
        "        if not outcome.applied:\n            operation",
        "        if False:\n            operation",
        "a refused write counts as mirrored",
        of("driver/test_mirror_refused.py"),
    ),
    Fault(
        NODE + "tools/without_controllers.py",
        "    elif held is not None and observed.controller_owner:",
        "    elif False:",
        "a release takes the claim away from a controller that lives",
        of("tools/test_without_controllers.py"),
    ),
    Fault(
        NODE + "quorum/raft_node.py",
        "        self._has_failed = True\n        self._todo.clear()\n",
        "        self._has_failed = True\n",
        "promises leave after the disk refused",
        of("log/test_fatal_errors.py"),
    ),
    Fault(
        NODE + "leader/applied_log.py",
        "            if snapshot == self._to_load:\n                replay.ineligible",
        "            if True:\n                replay.ineligible",
        "a snapshot that was replaced meanwhile is taken for the newest one",
        of("leader/test_snapshot_loading.py"),
    ),
    Fault(
        "migrator/node/zookeeper/exports.py",
        "[each for each in self._files() if each != Path(info.file)]\n            left += _removed(others[KEPT - 1 :])",
        "self._files()\n            left += _removed(others[KEPT:])",
        "with a clock that was set back, the export on which the takeover rests is removed",
        ("tests/unit/node/zookeeper/test_zookeeper_exports.py",),
    ),
    Fault(
        NODE + "driver/reconciling.py",
        "        return await asyncio.to_thread(foreign_since_commit, copied, tree, image, self.parts.passwords)\n",
        "        return None\n",
        "a successor deletes what others put into ZooKeeper since the copy, and nobody is told",
        of("driver/test_successor_before_dual_write.py"),
    ),
    Fault(
        NODE + "transport/connections.py",
        "self._close_the_longest_silent(self._newcomers, 0.0) or ",
        "",
        "whoever cannot authenticate closes the connections of brokers",
        of("transport/test_connections.py"),
    ),
    Fault(
        NODE + "zookeeper/tree_reader.py",
        "    return newest - before.zxid == len(of_claim)\n",
        "    return bool(of_claim)\n",
        "after a claim, topics that somebody changed meanwhile are copied as they were before it",
        of("zookeeper/test_tree_reader.py"),
    ),
    Fault(
        NODE + "zookeeper/tree_reader.py",
        "    tree.zxid = began if session.newest_zxid() == began else None\n",
        "    tree.zxid = session.newest_zxid()\n",
        "a topic that was changed while the tree was read is never read again",
        of("zookeeper/test_tree_reader.py"),
    ),
    Fault(
        NODE + "driver/reconciling.py",
        "        claimed_by = self.config.node_id if self.now.fresh_copy and not self._may_have_written else None\n",
        "        claimed_by = self.config.node_id\n",
        "a reconcile takes what it wrote itself, or a leader before it, for nothing but a claim",
        of("driver/test_reconciles_updated.py"),
    ),
)
