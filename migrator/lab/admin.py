"""Configurations of topics and brokers, changed and asked for as an administrator does.

In:   a cluster that makes clients (cluster.py, kraft.py).
Out:  `Administered`, which both are: `alter_configs`, `describe_configs`, and the client that such a request goes by.
Rules: a change reaches a broker once, and what that answers is raised at once: nothing of the product is tried again.
Source: librdkafka 2.16, `rdkafka_admin.c` (RD_KAFKA_ADMIN_STATE_WAIT_BROKER).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Final, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import (  # type: ignore[attr-defined]  # public, but not re-exported for mypy
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from migrator.lab.servers.waiting import wait_until

ADMIN_TIMEOUT_S: Final = 90.0
CONNECTS_WITHIN_S: Final = 10.0
"""A client that has a connection at all has it after some milliseconds, on a busy machine after a second or two."""
NEVER_CONNECTED: Final = ("initializing", "waiting for broker", "waiting for controller")
"""What librdkafka was about when its time was over: before it had a connection, so nobody was asked. It is initializing
until its own thread comes to the request, which it may not do in time on a busy machine.
"""

Answer = TypeVar("Answer")


class Administered(ABC):
    """A cluster of the laboratory as an administrator sees it."""

    @abstractmethod
    def admin(self) -> AdminClient:
        """A client for requests that any broker takes."""

    @abstractmethod
    def new_admin(self) -> AdminClient:
        """A client that nobody else has."""

    def admin_for(self, kind: ResourceType, name: str) -> AdminClient:
        """Whom a request about this resource goes by: for a broker, to which it has to be sent, a client of its own
        that is connected to that broker. Raises Z2K-6003.
        """
        return connected(self.new_admin, name) if kind is ResourceType.BROKER else self.admin()

    def alter_configs(self, kind: ResourceType, name: str, values: Mapping[str, str | None]) -> None:
        """Set these values of a topic or of one broker and leave the others; None: back to the default.

        By IncrementalAlterConfigs. Raises KafkaException with the broker's answer, Z2K-6003.
        """
        if kind is ResourceType.BROKER:
            alter_configs(self.admin_for(kind, name), kind, name, values)
        else:  # it goes to whom brokers name as the controller, and they name one of them at random
            by_new_clients(
                self.new_admin,
                lambda admin: alter_configs(admin, kind, name, values),
                f"{name} is configured",
                deadline_s=2 * ADMIN_TIMEOUT_S,
            )

    def describe_configs(self, kind: ResourceType, name: str) -> dict[str, ConfigEntry]:
        """All settings of a topic or of one broker, by name. Raises as `alter_configs`."""
        admin, resource = self.admin_for(kind, name), ConfigResource(kind, name)
        return dict(admin.describe_configs([resource])[resource].result(ADMIN_TIMEOUT_S))


def alter_configs(admin: AdminClient, kind: ResourceType, name: str, values: Mapping[str, str | None]) -> None:
    """As `Administered.alter_configs`, by this client."""
    resource = ConfigResource(kind, name)
    for key, value in values.items():
        operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
        resource.add_incremental_config(ConfigEntry(key, value, incremental_operation=operation))
    admin.incremental_alter_configs([resource])[resource].result(ADMIN_TIMEOUT_S)


def connected(
    make: Callable[[], AdminClient],
    broker: str,
    *,
    connects_within_s: float = CONNECTS_WITHIN_S,
    deadline_s: float = ADMIN_TIMEOUT_S,
) -> AdminClient:
    """A client that this broker has answered, so that a request to it is sent at once, and once.

    Each is asked what changes nothing, and what is answered does not matter. An answer that is late counts too: who
    waits for one is connected. Raises Z2K-6003 when none has connected until the deadline.
    """
    resource = ConfigResource(ResourceType.BROKER, broker)

    def ask(client: AdminClient) -> AdminClient:
        try:
            client.describe_configs([resource], request_timeout=connects_within_s)[resource].result()
        except KafkaException as error:
            if never_connected(error):
                raise
        return client

    return by_new_clients(make, ask, f"a client's connection to broker {broker}", deadline_s=deadline_s)


def by_new_clients(
    make: Callable[[], AdminClient],
    ask: Callable[[AdminClient], Answer],
    what: str,
    *,
    deadline_s: float = ADMIN_TIMEOUT_S,
) -> Answer:
    """What `ask` answers, with a new client for each time that librdkafka did not connect.

    librdkafka may wait for a broker, or for the one that was named as the controller, until the request's time is over
    and never connect: it does not ask again who the brokers are, and not every change of a connection wakes it. That is
    the client's flaw: the broker serves, and heard nothing. A new client begins anew.

    ask: its own time-out has to be well below the deadline. Raises what it raises otherwise, and Z2K-6003.
    """
    answers: list[Answer] = []

    def why_not() -> str | None:
        try:
            answers.append(ask(make()))
        except KafkaException as error:
            if not never_connected(error):
                raise
            return str(error.args[0].str())
        return None

    wait_until(why_not, name=what, deadline_s=deadline_s)
    return answers[0]


def never_connected(error: KafkaException) -> bool:
    """Whether librdkafka itself gave up before it had a connection."""
    reason: KafkaError = error.args[0]
    return reason.code() == KafkaError._TIMED_OUT and any(each in reason.str() for each in NEVER_CONNECTED)
