"""A Spark session for one audit: quiet, on loopback, with all its files in one directory.

In:   a Spark master, and a directory that may be deleted afterwards.
Out:  a session, which is stopped in every case.
Elsewhere: what runs in it (job.py), one that serves many audits (kept_session.py).
Facts that this module is made of: workers take PYSPARK_PYTHON, not this interpreter, unless told; the JVM writes to
the standard output that it inherits, which belongs to `--json`; a JVM, once launched, lives as long as this process
and serves every later session, so the memory of the first is the memory of all.
Errors: Z2K-5003 when Spark does not start, or gives up; Z2K-5007 where it would send secrets in clear.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Final

from py4j.protocol import Py4JError, Py4JNetworkError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.find_spark_home import _find_spark_home
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from migrator.audit.engines import is_local
from migrator.audit.spark.classes import using_archive
from migrator.audit.spark.shipped import ship_package
from migrator.findings.audit import SPARK_FAILED, SPARK_IN_CLEAR
from migrator.findings.finding import FindingError

DRIVER_MEMORY: Final = "1g"
"""Enough for the joins of a million partitions, which spill; the rows themselves never come to the driver."""

SHORT_RUN: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""An audit is over before a better compiler pays: 22 s of processor time instead of 31 for 100,000 partitions."""

DAEMON: Final = "migrator.audit.spark.daemon"
METASPACE: Final = "-XX:MetaspaceSize=256m"
"""Some 20,000 classes are loaded: below this, each doubling of their space collects the whole heap."""

PROTECTION: Final = (
    ("spark.authenticate",),
    ("spark.network.crypto.enabled", "spark.ssl.rpc.enabled"),
    ("spark.io.encryption.enabled",),
)
"""What a master on a network has to have; of each line one is enough."""

QUIET: Final = "-XX:-UsePerfData"
LOOPBACK: Final = "127.0.0.1"
ERROR_LINES: Final = 2
END_TIMEOUT_S: Final = 20.0
_LOG_TAIL_BYTES: Final = 2_000

_gateway: Any = None
_temporary: tempfile.TemporaryDirectory[str] | None = None
_output: IO[bytes] | None = None


@contextmanager
def spark_session(master: str, scratch: Path, java_options: str | None = None) -> Iterator[SparkSession]:
    """scratch: where Spark spills; it has to exist. java_options: instead of those that use the archive of classes."""
    session = None
    with told_as_findings(master):
        try:
            with ended_when_interrupted():
                session = started(master, scratch, using_archive() if java_options is None else java_options)
                yield session
        finally:
            if session is not None and _exit_code() is None:
                session.stop()


def started(master: str, scratch: Path, java_options: str) -> SparkSession:
    configuration = _configuration(master, scratch, java_options)
    gateway = _launched(master, configuration)
    if not is_local(master):  # before the master hears of it
        _refuse_in_clear(master, SparkConf(_jvm=gateway.jvm))
    with _kept_interrupt_handler():
        context = SparkContext(conf=configuration, gateway=gateway)
    if not is_local(master):
        ship_package(context, scratch)
    return SparkSession(context)


def _refuse_in_clear(master: str, conf: SparkConf) -> None:
    """Raises Z2K-5007 for a master on a network without authentication, encryption on the wire and of spilled rows.

    conf: with what `spark-defaults.conf` says. Source: Spark 4.0, "Spark Security"; each of the three is off by
    default.
    """
    missing = [
        " or ".join(f"{name}=true" for name in names)
        for names in PROTECTION
        if not any(str(conf.get(name, "")).strip().lower() == "true" for name in names)
    ]
    if missing:
        raise SPARK_IN_CLEAR.error(master=master, missing=", ".join(missing))


def java_of(master: str) -> Any:
    """The JVM of this process, for what needs no session. Started now if need be, as for an audit on this master.

    Raises Z2K-5003.
    """
    with told_as_findings(master):
        return _launched(master, _configuration(master, Path(_jvm_directory()), using_archive())).jvm


def end_jvm(timeout_s: float) -> None:
    """End the JVM now, in order, and not with this process, which has no other audit to do."""
    if _gateway is not None:
        _gateway.shutdown()
        _gateway.proc.stdin.close()
        _exit_code(timeout_s)


def _configuration(master: str, scratch: Path, java_options: str) -> SparkConf:
    settings = {
        "spark.app.name": "zk2kraft audit",
        "spark.driver.memory": DRIVER_MEMORY,
        "spark.local.dir": str(scratch),
        "spark.log.level": "ERROR",
        "spark.master": master,
        "spark.python.sql.dataFrameDebugging.enabled": "false",  # it is ten questions to the JVM for each column
        "spark.speculation": "false",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.dataFrameQueryContext.enabled": "false",
        "spark.sql.shuffle.partitions": str(2 * (os.cpu_count() or 1)),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if is_local(master):  # executors elsewhere have to reach the driver; their network is the operator's to configure
        settings |= {
            "spark.driver.host": LOOPBACK,
            "spark.driver.bindAddress": LOOPBACK,
            "spark.python.daemon.module": DAEMON,  # elsewhere this package comes with the first task
            "spark.driver.extraJavaOptions": f"{SHORT_RUN} {METASPACE} {QUIET} {_temporary_files()}{java_options}",
        }
    return SparkConf().setAll(list(settings.items()))


def _temporary_files() -> str:
    """One option of the JVM, though a directory's name may have a space."""
    option = f"-Djava.io.tmpdir={_jvm_directory()}"
    return f'"{option}"' if " " in option else option


def _jvm_directory() -> str:
    """Native libraries, artifacts: what a JVM unpacks for itself. It lives as long as the JVM, with this process."""
    global _temporary
    if _temporary is None:
        _temporary = tempfile.TemporaryDirectory(prefix="zk2kraft-spark-", ignore_cleanup_errors=True)
    return _temporary.name


def _launched(master: str, configuration: SparkConf) -> Any:
    """The JVM of this process. What it prints goes to a file that only `told_as_findings` looks into."""
    global _gateway, _output
    if is_local(master) or "PYSPARK_PYTHON" not in os.environ:
        os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_HOME", _find_spark_home())  # its scripts would start a Python to find it
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", f"{SHORT_RUN} {QUIET}")  # of the JVM that puts the command together
    if _gateway is None:
        _output = tempfile.TemporaryFile()  # noqa: SIM115  (the JVM writes to it as long as it lives)
        _gateway = launch_gateway(configuration, {"stdout": _output, "stderr": _output})  # type: ignore[no-untyped-call]
    return _gateway


def _exit_code(wait_s: float = 0.0) -> int | None:
    """Of the JVM; None while it runs, and goes on to after `wait_s`."""
    if _gateway is None:
        return None
    with suppress(subprocess.TimeoutExpired):
        _gateway.proc.wait(wait_s)
    code: int | None = _gateway.proc.returncode
    return code


@contextmanager
def ended_when_interrupted() -> Iterator[None]:
    """Left alone, the JVM would work on for a while, and write into a directory that is being deleted."""
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        if _gateway is not None:
            _gateway.proc.terminate()
            _gateway.proc.wait(END_TIMEOUT_S)
        raise


@contextmanager
def told_as_findings(master: str) -> Iterator[None]:
    """Spark's exceptions as a finding."""
    try:
        yield
    except FindingError:
        raise
    except (PySparkException, Py4JError, Py4JNetworkError, ValueError, OSError) as error:
        code = _exit_code(wait_s=1.0)  # a connection ends a moment before the process that held it
        words = _first_words(error) if code is None else f"its process ended with exit code {code}"
        raise SPARK_FAILED.error(master=master, reason=f"{words} {_last_words()}".strip()) from error


def _first_words(error: Exception) -> str:
    """Without the Java stack that comes behind them."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:ERROR_LINES]) or type(error).__name__


def _last_words() -> str:
    """What the JVM printed last, when it did not start or has ended."""
    if _output is None or (_gateway is not None and _exit_code() is None):
        return ""
    size = _output.seek(0, os.SEEK_END)
    _output.seek(max(0, size - _LOG_TAIL_BYTES))
    lines = [line.strip() for line in _output.read().decode(errors="replace").splitlines()]
    told = [line for line in lines if line and not line.startswith("at ")]  # "at" begins a line of a Java stack
    return f"({told[-1]})" if told else ""


@contextmanager
def _kept_interrupt_handler() -> Iterator[None]:
    """SparkContext puts a handler of its own in place, which talks to the JVM in the middle of another call."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
