"""How the service runs: one TOML file, then variables of the environment, then what is written here.

In:   `--config FILE.toml`; variables named ZK2KRAFT_SERVE_<KEY> win over the file.
Out:  `ServiceSettings`.
Errors: Z2K-4001 for a key that does not exist or a value that cannot be; Z2K-4010 for an address beyond loopback
without `origins`.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, Literal

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)
from pydantic_settings.exceptions import SettingsError
from sqlalchemy import URL

from migrator.audit.engines import default_engine
from migrator.findings.service import BEYOND_LOOPBACK, SERVE_CONFIG
from state_machine.clusters.bounds import Bounds, is_loopback
from state_machine.clusters.remote_ports import RemoteAccess
from state_machine.origins import Origins

AT_ONCE: Final = 16
PER_HOST: Final = 2
USUAL_ROOTS: Final = (Path("/etc"), Path("/opt"), Path("/srv"), Path("/var/lib"))


def default_roots() -> tuple[Path, ...]:
    """Where the service was started, the home of its user, and where packages put files of services."""
    home = os.environ.get("HOME", "")
    return (Path.cwd(), *([Path(home)] if len(home) > 1 else []), *USUAL_ROOTS)


class ServiceSettings(BaseSettings):
    """Keys of the TOML file. Times in seconds."""

    model_config = SettingsConfigDict(env_prefix="ZK2KRAFT_SERVE_", extra="forbid", frozen=True)

    host: str = Field(default="127.0.0.1", description="address to listen on; beyond loopback only with origins")
    origins: tuple[str, ...] = Field(
        default=(), description="https://HOST[:PORT] under which it is reached beside loopback; others are refused"
    )
    port: int = Field(default=8085, ge=0, le=65535, description="0: a free one, named in serve.json")
    directory: Path = Field(
        default=Path("zk2kraft-service"),
        description="database, rehearsals, audits and logs; only this user may read it",
    )
    database: str = Field(default="", description="SQLAlchemy URL; empty: SQLite in the directory")
    observe_every_s: float = Field(default=0.5, gt=0, le=5, description="from the begin of one look to the next")
    audit_engine: Literal["spark", "quick"] = Field(
        default_factory=default_engine,
        description="where a migration does not name its own; quick where Spark is not installed",
    )
    spark_master: str = Field(default="local[*]", description="for the spark engine")
    rehearsal_every_s: float = Field(
        default=240, ge=1, description="in READY a rehearsal that passed is repeated after this time"
    )
    audit_every_s: float = Field(
        default=900, ge=0, description="in DUAL_WRITE an audit begins by itself this often; 0: never"
    )
    audit_process_idle_s: float = Field(
        default=1800, ge=0, description="the process that runs the Spark audits ends after so long without one; 0: none"
    )
    audits_max_bytes: int = Field(
        default=2 * 1024**3, ge=0, description="directories of audits of one migration; older ones are removed"
    )
    roots: tuple[Path, ...] = Field(
        default_factory=lambda: default_roots(),
        description="files and directories of controllers lie below one of these",
    )
    control_hosts: tuple[str, ...] = Field(
        default=(),
        description="hosts beside loopback that may be asked: of control files, and of controllers on other hosts",
    )
    control_ca: Path | None = Field(
        default=None, description="PEM with the authority that signed the certificates of controllers on other hosts"
    )
    control_certificate: Path | None = Field(
        default=None, description="PEM with key and chain that the service shows to controllers on other hosts"
    )
    control_key_password: str = Field(
        default="", description="reference of the password of that key (file:, exec:, systemd:); empty: it has none"
    )
    control_token: str = Field(
        default="",
        description="reference of the token that controllers on other hosts ask for (file:, exec:, systemd:)",
    )
    start_controllers: bool = Field(
        default=True, description="false: controllers are units or containers of their own; the service starts none"
    )
    fleets: Path | None = Field(
        default=None,
        description="directory with the inventory NAME.yaml of each migration, and templates/ of actuators",
    )
    settle_s: float = Field(
        default=60, ge=0, description="nothing under-replicated for so long before the next restart"
    )
    node_deadline_s: float = Field(
        default=6 * 3600, ge=1, description="from the order to stop until a node is whole; log recovery takes hours"
    )
    soak_s: float = Field(default=86_400, ge=0, description="SOAK lasts at least so long")
    brokers_gone_s: float = Field(default=60, ge=0, description="/brokers/ids was empty for so long before FINALIZING")
    drift_every_s: float = Field(default=20, ge=1, le=3600, description="files of nodes are compared this often")
    hosts_at_once: int = Field(
        default=AT_ONCE, ge=1, le=256, description="hosts of one migration that are asked at the same time"
    )
    calls_per_host: int = Field(default=PER_HOST, ge=1, le=8, description="commands on one host at the same time")
    zookeeper_kept_days: float = Field(
        default=30, ge=0, description="after COMPLETED its data is kept so long from when it is unreachable"
    )
    backup_key: str = Field(
        default="",
        description="reference of the secret that encrypts backups (file:, exec:, systemd:); empty: not encrypted",
    )
    backup_directory: Path | None = Field(
        default=None, description="where backups before gates are kept; absent: migrations/N/backups in the directory"
    )
    single_operator: bool = Field(default=False, description="who asks for FINALIZING may have approved it")
    command_limit_s: float = Field(default=900, ge=1, description="longest run of check, rehearse or audit")

    @field_validator("origins")
    @classmethod
    def _are_origins(cls, given: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(str(each) for each in Origins.of(given).declared)

    @property
    def reached_as(self) -> Origins:
        return Origins.of(self.origins)

    @property
    def bounds(self) -> Bounds:
        return Bounds(self.roots, frozenset(self.control_hosts))

    @property
    def remote_access(self) -> RemoteAccess | None:
        """None where nothing is said of controllers on other hosts. Raises Z2K-4001 when a part of it is missing."""
        given = {"control_ca": self.control_ca, "control_certificate": self.control_certificate}
        wanted = {**given, "control_token": self.control_token}
        missing = [key for key, value in wanted.items() if not value]
        if len(missing) == len(wanted):
            return None
        if missing or self.control_ca is None or self.control_certificate is None:
            reason = f"it is missing; {', '.join(wanted)} are given together"
            raise SERVE_CONFIG.error(file="the configuration", key=missing[0], reason=reason)
        return RemoteAccess(self.control_ca, self.control_certificate, self.control_token, self.control_key_password)

    @property
    def database_url(self) -> str:
        file = str(self.directory.absolute() / "zk2kraft.db")
        return self.database or URL.create("sqlite", database=file).render_as_string(hide_password=False)

    @property
    def loopback(self) -> bool:
        return is_loopback(self.host)


def read_settings(file: Path | None) -> ServiceSettings:
    """Raises Z2K-4001 or Z2K-4010."""
    if file is not None and not file.is_file():
        raise SERVE_CONFIG.error(file=str(file), key="(the file itself)", reason="it does not exist")

    class FromFile(ServiceSettings):
        @classmethod
        def settings_customise_sources(
            cls,
            settings_cls: type[BaseSettings],
            init_settings: PydanticBaseSettingsSource,
            env_settings: PydanticBaseSettingsSource,
            dotenv_settings: PydanticBaseSettingsSource,
            file_secret_settings: PydanticBaseSettingsSource,
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            return (env_settings, TomlConfigSettingsSource(settings_cls, file))

    try:
        settings = FromFile()
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(map(str, first["loc"]))
        raise SERVE_CONFIG.error(file=str(file or "environment"), key=key, reason=first["msg"]) from error
    except (SettingsError, ValueError) as error:
        raise SERVE_CONFIG.error(file=str(file), key="(the file itself)", reason=str(error)) from error
    if not settings.loopback and not settings.origins:
        raise BEYOND_LOOPBACK.error(host=settings.host)
    return settings
