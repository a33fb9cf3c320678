"""Kafka's and ZooKeeper's jars, brought once and kept.

In:   a Kafka version; `KAFKA_HOME` (an installed Kafka wins), `ZK2KRAFT_CACHE`, `ZK2KRAFT_MAVEN_MIRROR`, proxies.
Out:  `Artifacts`: a class path that runs kafka.Kafka, Kafka's tools and ZooKeeper, and the Java to run it; or one of
      another release of ZooKeeper alone (`zookeeper_artifacts`); the former also with a store for tiered topics
      (`with_remote_store`); and the jars with which Spark reads and writes an object store (`s3a_jars`).
Elsewhere: the archive that makes it start faster (classes.py; most callers want `prepared` from there).
Errors: Z2K-6001 without Java, Z2K-6002 when the jars cannot be had.
The downloader is the Ivy inside PySpark, so that Java is the only thing to install. A directory `libs` exists only
when it is complete: it is filled under another name and renamed; callers at the same time wait for one lock.
"""

from __future__ import annotations

import fcntl
import importlib.util
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal
from urllib.parse import urlsplit
from xml.sax.saxutils import quoteattr

from migrator.findings.laboratory import ARTIFACTS_UNAVAILABLE
from migrator.lab.servers.java import Java, require_java
from migrator.lab.servers.processes import Processes
from migrator.lab.servers.waiting import Say, say_on_stderr, wait_until

KAFKA_VERSION: Final = "3.9.2"
MAVEN_CENTRAL: Final = "https://repo1.maven.org/maven2/"
LATER_KAFKA_VERSION: Final = "4.4.0"
"""The newest: goes on with directories of the default one. Brought by the first test that wants it."""

JARS_MB: Final = {KAFKA_VERSION: 48, LATER_KAFKA_VERSION: 43}
"""What the jars weigh, for the line that announces the download."""

ZOOKEEPER_JARS_MB: Final = 10
"""Without Kafka."""

S3A_JARS_MB: Final = 14
"""Hadoop's client of S3 with the parts of Amazon's SDK that it needs. The bundle that Hadoop names has 640 MB."""

SDK_OF_HADOOP: Final = {"3.5.0": ("2.35.4", "1.3.1")}
"""Amazon's SDK and its reader, by the release of Hadoop. Source: Hadoop `hadoop-project/pom.xml`."""

REMOTE_STORE_JARS_MB: Final = 4
"""`LocalTieredStorage` is among the tests of Kafka's storage, and uses a class of those of its clients."""

NAMES: Final = {
    "kafka": "Kafka",
    "zookeeper": "ZooKeeper",
    "remote-store": "Kafka's remote store of tests",
    "s3a": "Hadoop's client of S3",
}
SERVERS: Final = {
    "kafka": "kafka_2.13-*.jar",
    "zookeeper": "zookeeper-[0-9]*.jar",
    "remote-store": "kafka-storage-*-test.jar",
    "s3a": "hadoop-aws-*.jar",
}
"""The jar without which a download is not whole."""

OTHER_JARS_MB: Final = {
    "zookeeper": ZOOKEEPER_JARS_MB,
    "remote-store": REMOTE_STORE_JARS_MB,
    "s3a": S3A_JARS_MB,
}

BRING_DEADLINE_S: Final = 1200.0
BRING_ATTEMPTS: Final = 2
"""One repeated attempt covers a connection that broke; Ivy keeps what it had."""

Product = Literal["kafka", "zookeeper", "remote-store", "s3a"]

Bring = Callable[[str, Path], None]
"""Fills an empty directory with the jars of a Kafka version, or raises."""


@dataclass(frozen=True, slots=True)
class Artifacts:
    """What is needed to run Kafka: its version, its jars, a Java, and perhaps an archive of loaded classes.

    beside: a directory of further jars. They come last, so that the archive still fits.
    """

    version: str
    libs: Path
    java: Java
    archive: Path | None = None
    beside: Path | None = None

    @property
    def class_path(self) -> str:
        further = () if self.beside is None else sorted(self.beside.glob("*.jar"))
        return ":".join(str(jar) for jar in (*sorted(self.libs.glob("*.jar")), *further))


def kafka_artifacts(
    version: str | None = None, environment: Mapping[str, str] = os.environ, say: Say = say_on_stderr
) -> Artifacts:
    """The jars of a Kafka version, brought now if need be.

    version: None means the default, or whatever `KAFKA_HOME` holds when it is set. A version asked for by name is
             taken from `KAFKA_HOME` only if that has it.
    """
    java = require_java(environment)
    if (installed := _installed(environment)) is not None:
        found = _version_of(installed)
        if version in (None, found):
            return Artifacts(found, installed, java)
    wanted = version or KAFKA_VERSION
    cache = cache_directory(environment)

    def bring(kafka_version: str, target: Path) -> None:
        _bring_with_ivy(kafka_version, target, java=java, cache=cache, environment=environment, say=say)

    return Artifacts(wanted, fetch(wanted, cache=cache, bring=bring, say=say), java)


def zookeeper_artifacts(
    version: str, environment: Mapping[str, str] = os.environ, say: Say = say_on_stderr
) -> Artifacts:
    """The jars of a ZooKeeper server, brought now if need be. `Artifacts.version` is ZooKeeper's."""
    java = require_java(environment)
    libs = _fetched("zookeeper", version, zookeeper_module, java, environment, say)
    return Artifacts(version, libs, java)


def with_remote_store(
    artifacts: Artifacts, environment: Mapping[str, str] = os.environ, say: Say = say_on_stderr
) -> Artifacts:
    """The same Kafka with `LocalTieredStorage`, a remote store in a directory, on its class path."""
    beside = _fetched("remote-store", artifacts.version, remote_store_module, artifacts.java, environment, say)
    return replace(artifacts, beside=beside)


def s3a_jars(environment: Mapping[str, str] = os.environ, say: Say = say_on_stderr) -> list[Path]:
    """What Spark needs to read and write `s3a://`, for the Hadoop that PySpark has; brought now if need be."""
    (version,) = SDK_OF_HADOOP
    libs = _fetched("s3a", version, s3a_module, require_java(environment), environment, say)
    return sorted(libs.glob("*.jar"))


def _fetched(
    product: Product,
    version: str,
    module: Callable[[str], str],
    java: Java,
    environment: Mapping[str, str],
    say: Say,
) -> Path:
    """The jars of what stands beside Kafka itself, brought now if need be."""
    cache = cache_directory(environment)

    def bring(wanted: str, target: Path) -> None:
        _bring_with_ivy(
            wanted,
            target,
            java=java,
            cache=cache,
            environment=environment,
            say=say,
            module=module(wanted),
            product=product,
        )

    return fetch(version, cache=cache, bring=bring, say=say, product=product)


def cache_directory(environment: Mapping[str, str]) -> Path:
    """Where downloads are kept: `ZK2KRAFT_CACHE`, by default `~/.cache/zk2kraft`."""
    return Path(environment.get("ZK2KRAFT_CACHE") or "~/.cache/zk2kraft").expanduser().absolute()


def fetch(
    version: str,
    *,
    cache: Path,
    bring: Bring,
    say: Say = say_on_stderr,
    product: Product = "kafka",
) -> Path:
    """The directory with the jars of `version`; fills it first, once, whoever else asks at the same time."""
    name = NAMES[product]
    libs = cache / product / version / "libs"
    if libs.is_dir():
        return libs
    with locked(cache / product / "lock", say, f"another run to bring {name} {version}"):
        if libs.is_dir():
            return libs
        filling = libs.with_name("libs.filling")
        shutil.rmtree(filling, ignore_errors=True)
        filling.mkdir(parents=True)
        size = JARS_MB.get(version, 50) if product == "kafka" else OTHER_JARS_MB[product]
        say(f"bringing the jars of {name} {version} (about {size} MB) to {libs}")
        bring(version, filling)
        if not list(filling.glob(SERVERS[product])):
            raise ARTIFACTS_UNAVAILABLE.error(artifact=f"{name} {version}", reason="the download has no server in it")
        filling.rename(libs)
    return libs


@contextmanager
def locked(path: Path, say: Say, what: str) -> Iterator[None]:
    """Hold the lock of a file; while somebody else holds it, say what is waited for."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab") as handle:

        def why_not() -> str | None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return f"{path} is locked"
            return None

        wait_until(why_not, name=what, deadline_s=BRING_DEADLINE_S, say=say)
        yield


def ivy_module(version: str) -> str:
    """What to bring, as Ivy's own description. Kafka Connect and its web server are left out."""
    return f"""<ivy-module version="2.0">
  <info organisation="zk2kraft" module="laboratory"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev={quoteattr(version)} conf="default->default"/>
    <dependency org="org.apache.kafka" name="kafka-tools" rev={quoteattr(version)} conf="default->default">
      <exclude org="org.apache.kafka" module="connect-runtime"/>
      <exclude org="org.apache.kafka" module="connect-json"/>
    </dependency>
    <dependency org="org.slf4j" name="slf4j-reload4j" rev="1.7.36" conf="default->default"/>
  </dependencies>
</ivy-module>
"""


def zookeeper_module(version: str) -> str:
    """As `ivy_module`, for a server of ZooKeeper; the logger is that of the laboratory, whatever the release has."""
    loggers = ("logback-classic", "logback-core", "slf4j-log4j12", "log4j", "slf4j-reload4j")
    excluded = "".join(f"<exclude name={quoteattr(each)}/>" for each in loggers)
    return f"""<ivy-module version="2.0">
  <info organisation="zk2kraft" module="laboratory-zookeeper"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.zookeeper" name="zookeeper" rev={quoteattr(version)} conf="default->default">
      {excluded}
    </dependency>
    <dependency org="io.dropwizard.metrics" name="metrics-core" rev="4.1.12.1" conf="default->default"/>
    <dependency org="org.xerial.snappy" name="snappy-java" rev="1.1.10.5" conf="default->default"/>
    <dependency org="org.slf4j" name="slf4j-reload4j" rev="1.7.36" conf="default->default"/>
  </dependencies>
</ivy-module>
"""


def remote_store_module(version: str) -> str:
    """As `ivy_module`, for two jars of Kafka's tests alone; Maven tells them from the others by a classifier."""
    names = ("kafka-storage", "kafka-clients")
    dependencies = "".join(
        f"""
    <dependency org="org.apache.kafka" name={quoteattr(name)} rev={quoteattr(version)} conf="default->default"
                transitive="false">
      <artifact name={quoteattr(name)} type="jar" ext="jar" m:classifier="test"/>
    </dependency>"""
        for name in names
    )
    return f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="zk2kraft" module="laboratory-remote-store"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>{dependencies}
  </dependencies>
</ivy-module>
"""


def s3a_module(version: str) -> str:
    """Name Hadoop's client of S3, as `ivy_module` does Kafka. Spark has its own Netty and loggers; another Netty would
    break it.
    """
    sdk, reader = SDK_OF_HADOOP[version]
    alone = (
        ("org.apache.hadoop", "hadoop-aws", version),
        ("software.amazon.s3.analyticsaccelerator", "analyticsaccelerator-s3", reader),
    )
    excluded = "".join(f"<exclude org={quoteattr(each)}/>" for each in ("io.netty", "org.slf4j", "commons-codec"))
    dependencies = "".join(
        f"""
    <dependency org={quoteattr(org)} name={quoteattr(name)} rev={quoteattr(rev)} conf="default->default"
                transitive="false"/>"""
        for org, name, rev in alone
    )
    dependencies += "".join(
        f"""
    <dependency org="software.amazon.awssdk" name={quoteattr(name)} rev={quoteattr(sdk)} conf="default->default">
      {excluded}
    </dependency>"""
        for name in ("s3", "s3-transfer-manager", "sts")
    )
    return f"""<ivy-module version="2.0">
  <info organisation="zk2kraft" module="laboratory-s3a"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>{dependencies}
  </dependencies>
</ivy-module>
"""


def ivy_settings(repository: str, cache: Path) -> str:
    """Where to bring it from: one repository, nothing of the user's own Ivy or Maven."""
    return f"""<ivysettings>
  <settings defaultResolver="repository"/>
  <caches defaultCacheDir={quoteattr(str(cache))}/>
  <resolvers><ibiblio name="repository" m2compatible="true" root={quoteattr(repository)}/></resolvers>
</ivysettings>
"""


def proxy_flags(environment: Mapping[str, str]) -> list[str]:
    """The proxies of the environment as Java wants to hear of them."""
    flags: list[str] = []
    for scheme in ("http", "https"):
        name = f"{scheme}_proxy"
        proxy = urlsplit(environment.get(name.upper()) or environment.get(name) or "")
        if proxy.hostname:
            flags += [f"-D{scheme}.proxyHost={proxy.hostname}", f"-D{scheme}.proxyPort={proxy.port or 80}"]
    direct = environment.get("NO_PROXY") or environment.get("no_proxy") or ""
    hosts = [host.strip() for host in direct.split(",") if host.strip()]
    if flags and hosts:
        patterns = (f"*{host}" if host.startswith(".") else host for host in hosts)
        flags.append("-Dhttp.nonProxyHosts=" + "|".join(patterns))
    return flags


def without_secrets(text: str) -> str:
    """The address of a mirror may carry a password before its @; it is not for messages."""
    return re.sub(r"//[^/@]+@", "//***@", text)


def _bring_with_ivy(
    version: str,
    target: Path,
    *,
    java: Java,
    cache: Path,
    environment: Mapping[str, str],
    say: Say,
    module: str | None = None,
    product: Product = "zookeeper",
) -> None:
    """module: the file for Ivy that names something in place of Kafka. product: what that is."""
    what = f"Kafka {version}" if module is None else f"{NAMES[product]} {version}"
    work = target.with_name("ivy-run")
    work.mkdir(exist_ok=True)
    repository = environment.get("ZK2KRAFT_MAVEN_MIRROR") or MAVEN_CENTRAL
    (work / "ivy.xml").write_text(module or ivy_module(version))
    (work / "ivysettings.xml").write_text(ivy_settings(repository.rstrip("/") + "/", cache / "ivy"))
    command = [java.path, *proxy_flags(environment), "-jar", str(_ivy_jar(version))]
    command += ["-settings", str(work / "ivysettings.xml"), "-ivy", str(work / "ivy.xml"), "-confs", "default"]
    # snappy-java and ZooKeeper's metrics come as "bundle"; without them a broker starts and then fails
    command += ["-cache", str(cache / "ivy"), "-types", "jar", "bundle", "-warn"]
    command += ["-retrieve", f"{target}/[artifact]-[revision](-[classifier]).[ext]"]
    for attempt in range(1, BRING_ATTEMPTS + 1):
        problem = _run_ivy(command, work, cache / "ivy", what, say)
        if problem is None:
            return
        say(f"attempt {attempt} of {BRING_ATTEMPTS} to bring {what} failed: {problem}")
    raise ARTIFACTS_UNAVAILABLE.error(artifact=f"{what} from {without_secrets(repository)}", reason=problem)


def _run_ivy(command: list[str], work: Path, ivy_cache: Path, what: str, say: Say) -> str | None:
    """None when it worked, else Ivy's own words for what did not."""
    with Processes(work) as processes:
        ivy = processes.start("ivy", command)

        def why_not() -> str | None:
            if not ivy.alive:
                return None
            jars = [jar.stat().st_size for jar in ivy_cache.glob("**/*.jar")]
            descriptions = sum(1 for _ in ivy_cache.glob("**/*.xml"))
            return f"{descriptions} descriptions and {sum(jars) / 1e6:.0f} MB of jars are in the cache so far"

        wait_until(why_not, name=what, deadline_s=BRING_DEADLINE_S, say=say, poll_every_s=0.2)
        return None if ivy.exit_code == 0 else without_secrets(_ivy_problem(ivy.log_text()))


def _ivy_problem(output: str) -> str:
    """Ivy's words for what went wrong. It says "not found" for a refused connection as well, so we say both."""
    lines = [line.strip(" :\t") for line in output.splitlines()]
    told = [line for line in lines if line.startswith("Host ") or "Error" in line or "Exception" in line]
    missing = [line for line in lines if line.endswith("not found") and not line.startswith("Host ")]
    return "; ".join(told[:1] or missing[:1]) + ", or the repository cannot be reached"


def _ivy_jar(version: str) -> Path:
    spec = importlib.util.find_spec("pyspark")
    found = sorted(Path(spec.origin).parent.glob("jars/ivy-*.jar")) if spec and spec.origin else []
    if not found:
        raise ARTIFACTS_UNAVAILABLE.error(artifact=f"Kafka {version}", reason="PySpark (with Ivy) is not installed")
    return found[-1]


def _installed(environment: Mapping[str, str]) -> Path | None:
    home = environment.get("KAFKA_HOME")
    if not home:
        return None
    libs = Path(home) / "libs"
    if not list(libs.glob("kafka_2.1*.jar")):
        raise ARTIFACTS_UNAVAILABLE.error(artifact="the installed Kafka", reason=f"KAFKA_HOME: no broker in {libs}")
    return libs


def _version_of(libs: Path) -> str:
    """The version of an installed Kafka, from the name of its client jar."""
    names = [jar.stem for jar in libs.glob("kafka-clients-[0-9]*.jar")]
    return names[0].removeprefix("kafka-clients-") if names else "unknown"
