"""What is said of several nodes at once."""

from __future__ import annotations

from state_machine.policy.outcome import Blocked, Waiting, said_of_several


def test_the_one_that_needs_a_person_is_said_first_however_many_wait() -> None:
    waiting = [Waiting(f"broker {each} starts") for each in range(4)]
    found = said_of_several([*waiting, Blocked("broker 9 does not start")])
    assert found == Blocked("broker 9 does not start; waiting: broker 0 starts; waiting: broker 1 starts; and 2 more")


def test_nodes_that_wait_are_said_in_their_order() -> None:
    assert said_of_several([Waiting("broker 2 stops"), Waiting("broker 1 starts")]).words == (
        "waiting: broker 2 stops; broker 1 starts"
    )
