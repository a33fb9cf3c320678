"""`zk2kraft demo --engine stock`: the whole road of `--full`, led through Kafka's own controllers.

In:   what every demo has (run.py). Out: as `--full`.
Elsewhere: the road and its report (full.py), what the service does with stock (state_machine/work/stock_acts.py).
"""

from __future__ import annotations

from migrator.lab.demo.full import SNAPSHOT_BYTES, FullDemo, tell_full
from migrator.lab.demo.pace import WakeUps
from migrator.lab.demo.progress import ProgressReporter
from migrator.lab.demo.run import Options
from migrator.lab.ours import OurController
from migrator.lab.servers.artifacts import Artifacts
from migrator.lab.servers.laboratory import Laboratory
from migrator.lab.servers.properties import Value, write


class StockDemo(FullDemo):
    """Begins with files and empty directories of the controllers; all else is the service's work."""

    controllers_of = "stock"

    def controller_settings(self) -> dict[str, Value]:
        return {"metadata.log.max.record.bytes.between.snapshots": SNAPSHOT_BYTES}

    def prepare_controller(self, controller: OurController) -> None:
        """Write its file and make its directory, as an operator does on a host of its own."""
        controller.data.mkdir(parents=True, exist_ok=True)
        write(controller.properties_file, controller.spec.properties())

    def _tell_window(self) -> None:
        undo = self._view()["undo"]
        self.progress.say("undo from here", f"{undo['command']}: {undo['does']}")

    def _stock_controllers(self) -> None:
        """There is none of ours to be replaced."""
        self._next_stage("soak")
        self._step_to("SOAK")


def run_stock(
    laboratory: Laboratory, options: Options, progress: ProgressReporter, artifacts: Artifacts, wake_ups: WakeUps
) -> bool:
    """Run it, and say whether everything passed."""
    report = StockDemo(laboratory, options, progress, artifacts, wake_ups).run_to_the_end()
    return tell_full(report, options, progress)
