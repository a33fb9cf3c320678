"""What becomes of min.insync.replicas when eligible leader replicas are switched on.

In:   what topics and brokers have, and what the files of controllers say.
Out:  `MinIsrAfter`: the value from then on, where it is from, and why it would not be kept.
Elsewhere: what topics and brokers have (migrator/model/at_a_stop.py), reading files
(state_machine/evidence/file_watch.py).
Rules: a topic's own value stays and wins. For all others the controller writes one for all brokers from its own file,
unless there is one, and removes those of single brokers. It is kept where every broker has that value before.
Source: Kafka 4.4 `ConfigurationControlManager.maybeGenerateElrSafetyRecords`; seen on 4.4.0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from migrator.model.at_a_stop import MinIsr


class OwnMinIsr(msgspec.Struct, frozen=True):
    """Topics that set this value themselves. first: some of their names."""

    value: int
    topics: int
    first: tuple[str, ...] = ()


class MinIsrAfter(msgspec.Struct, frozen=True):
    """before: of brokers, by id, for topics that set none. after: for all of these topics; None: it is not known.

    source: where `after` is from. problem: why topics would not keep what they have; empty: they do.
    """

    before: tuple[tuple[int, int], ...] = ()
    after: int | None = None
    source: str = ""
    problem: str = ""

    @property
    def words(self) -> str:
        before = ", ".join(map(str, sorted({value for _, value in self.before}))) or "not known"
        after = "not known" if self.after is None else str(self.after)
        return f"topics that set none: min.insync.replicas {before} before, {after} after ({self.source})"


def min_isr_after(
    min_isr: MinIsr, brokers: Iterable[int], controllers: Mapping[int, int], voters: Iterable[int]
) -> MinIsrAfter:
    """brokers, voters: ids of those that are there. controllers: values of their files, as far as they were read."""
    before = tuple(sorted(min_isr.brokers))
    if min_isr.of_all is not None:
        found = MinIsrAfter(before, min_isr.of_all, "set for all brokers")
    else:
        found = _of_files(before, controllers, voters)
    if found.problem:
        return found
    unknown = sorted(set(brokers) - {broker for broker, _ in before})
    others = [broker for broker, value in before if value != found.after]
    problem = ""
    if unknown:
        problem = f"what brokers {unknown} have is not known"
    elif others:
        values = ", ".join(map(str, sorted({value for broker, value in before if broker in others})))
        problem = f"brokers {others} have {values}, and {found.after} would count ({found.source})"
    return msgspec.structs.replace(found, problem=problem)


def _of_files(
    before: tuple[tuple[int, int], ...], controllers: Mapping[int, int], voters: Iterable[int]
) -> MinIsrAfter:
    """Of the controller that leads at that moment; any of them may."""
    unread = sorted(set(voters) - set(controllers))
    values = sorted({controllers[each] for each in voters if each in controllers})
    if unread:
        return MinIsrAfter(
            before, None, "not read", f"it is not set for all brokers, and files of {unread} were not read"
        )
    if len(values) != 1:
        said = f"it is not set for all brokers, and controllers' files have {values}"
        return MinIsrAfter(before, None, "controllers' files", said)
    return MinIsrAfter(before, values[0], "controllers' files")
