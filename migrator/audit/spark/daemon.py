"""The process that Spark's Python workers are forked from: whatever they need is imported before the first fork.

In:   the arguments of `pyspark.daemon`.
Out:  the same daemon. Workers of its kind share what was imported, and begin to work at once.
Elsewhere: who names it (session.py).
There is no pandas for them: PyArrow would import it, a second of processor time, to ask whether a list is one of its
series. Cycle collection is off: rows are plain values without cycles, and it took a quarter of a worker's time.
"""

from __future__ import annotations

import gc
import sys
from importlib.abc import MetaPathFinder
from types import ModuleType


class _WithoutPandas(MetaPathFinder):
    """Says that there is no pandas here."""

    def find_spec(self, fullname: str, path: object = None, target: ModuleType | None = None) -> None:
        if fullname == "pandas":
            raise ModuleNotFoundError(fullname)


sys.meta_path.insert(0, _WithoutPandas())

# Left to the workers, each of them imports these for itself.
import pyarrow.compute  # noqa: E402, F401
import pyspark.sql.pandas.serializers  # noqa: E402
import pyspark.worker  # noqa: E402, F401
from pyspark import daemon  # noqa: E402

import migrator.audit.spark.compare  # noqa: E402
import migrator.audit.spark.sources  # noqa: E402, F401  (imported for the workers)

if __name__ == "__main__":
    gc.disable()
    gc.freeze()
    daemon.manager()
