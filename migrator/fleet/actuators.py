"""The actuator of each node of an inventory.

In:   an inventory, a node, and where the service keeps templates. Out: an `Actuator`.
Elsewhere: the kinds (exec_actuator.py, by_others.py); the laboratory brings its own.
Errors: Z2K-7020.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, assert_never

from migrator.findings.finding import Occurrence
from migrator.findings.fleet import TEMPLATE_REFUSED, TRANSFER_NOT_PROVEN
from migrator.fleet import inventory as document
from migrator.fleet.actuator import Actuator
from migrator.fleet.by_others import ByOthers
from migrator.fleet.connections.control_directory import NAME as CONTROL_DIRECTORY
from migrator.fleet.exec_actuator import CommandActuator
from migrator.fleet.inventory import Inventory, Node
from migrator.fleet.templates import load_template
from migrator.fleet.transfer import unproven

SETTINGS_TAKEN: Final = frozenset(
    {"id", "host", "path", "pid", "template", "size", "checksum", "trailer", CONTROL_DIRECTORY}
)
"""Names of values that settings may not replace."""


def actuator_for(inventory: Inventory, node: Node, templates: Path) -> Actuator:
    """templates: the directory in which the service's owner keeps them. Raises Z2K-7020."""
    spec = inventory.actuator_of(node)
    match spec:
        case document.ExecActuator():
            return exec_actuator_for(inventory, node, spec, templates)
        case document.ManualActuator():
            return ByOthers("manual", node.id, node.host, name_of_process(node), Path(spec.exchange))
        case document.ExternalActuator():
            return ByOthers("external", node.id, node.host, name_of_process(node), Path(spec.exchange))
        case document.LabActuator():
            raise TEMPLATE_REFUSED.error(file="lab", reason="the actuator `lab` exists in the laboratory only")
        case _:
            assert_never(spec)


def exec_actuator_for(
    inventory: Inventory, node: Node, spec: document.ExecActuator, templates: Path
) -> CommandActuator:
    template = load_template(spec.template, templates)
    if taken := sorted(spec.settings.keys() & SETTINGS_TAKEN):
        raise TEMPLATE_REFUSED.error(file=spec.template, reason=f"settings replace {', '.join(taken)}")
    if bad := sorted(name for name, value in spec.settings.items() if value.startswith("-")):
        reason = f"settings.{bad[0]} begins with a dash, so a command could take it for an option"
        raise TEMPLATE_REFUSED.error(file=spec.template, reason=reason)
    return CommandActuator(node.id, template, _values(node, spec), _limits(inventory))


def transfer_findings(inventory: Inventory, templates: Path) -> tuple[Occurrence, ...]:
    """Z2K-7043 of each template in which nobody compares the bytes of some acts. Raises Z2K-7020."""
    specs = [inventory.actuator_of(node) for node in (*inventory.brokers, *inventory.controllers)]
    names = sorted({spec.template for spec in specs if isinstance(spec, document.ExecActuator)})
    left = {name: unproven(load_template(name, templates)) for name in names}
    return tuple(TRANSFER_NOT_PROVEN.found(file=name, acts=list(acts)) for name, acts in left.items() if acts)


def name_of_process(node: Node) -> str:
    """What a person or a tool stops and starts."""
    if node.kubernetes is not None:
        return f"pod {node.kubernetes.namespace}/{node.kubernetes.name}-{node.kubernetes.ordinal}"
    return node.unit or node.container or f"Kafka node {node.id}"


def _values(node: Node, spec: document.ExecActuator) -> dict[str, str]:
    values = {"id": str(node.id), "host": node.host, "template": spec.template, **spec.settings}
    optional = {"unit": node.unit, "container": node.container}
    values |= {name: value for name, value in optional.items() if value is not None}
    if (pod := node.kubernetes) is not None:
        values |= {
            "namespace": pod.namespace,
            "stateful_set": pod.name,
            "ordinal": str(pod.ordinal),
            "pod": f"{pod.name}-{pod.ordinal}",
        }
    return values


def _limits(inventory: Inventory) -> dict[str, float]:
    timeouts = inventory.timeouts
    quick = dict.fromkeys(("read", "list", "read_many", "write", "status", "command", "launch"), float(timeouts.act))
    whole = float(timeouts.stop + timeouts.start)
    return {**quick, "stop": float(timeouts.stop), "start": float(timeouts.start), "restart": whole}
