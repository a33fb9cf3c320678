"""The process that Spark's Python workers are forked from: whatever they need is imported before the first fork.

In:   the arguments of `pyspark.daemon`.
Out:  the same daemon. Workers of its kind share what was imported, and begin to work at once.
Elsewhere: who names it (session.py).
Cycle collection is off: rows are plain values without cycles, and it took a quarter of a worker's time.
"""

from __future__ import annotations

import gc

# Left to the workers, each of them imports these for itself.
import pandas  # type: ignore[import-untyped]  # noqa: F401
import pyarrow.compute
import pyarrow.pandas_compat  # noqa: F401
import pyspark.sql.pandas.serializers
import pyspark.worker  # noqa: F401
from pyspark import daemon

import migrator.audit.spark.compare
import migrator.audit.spark.sources  # noqa: F401  (imported for the workers)

if __name__ == "__main__":
    gc.disable()
    gc.freeze()
    daemon.manager()
