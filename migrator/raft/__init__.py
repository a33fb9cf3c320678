"""The consensus core: receives events, returns effects. It never waits, never reads a clock, never touches a disk.

| module | its one sentence |
| --- | --- |
| `types.py` | What the core is told: events, and the values in them. |
| `effects.py` | What the core orders, and what of it must be on disk before what. |
| `voter.py` | One node: hands each event to the part that it concerns, then does what is due. |
| `elections.py` | Who leads: votes, pre-votes, leaders that begin and end. |
| `leading.py` | What a leader does: append, serve fetches, commit, notice that nobody listens. |
| `following.py` | What a follower does: fetch, cut, append, load snapshots. |
| `snapshots.py` | When a snapshot is taken, and what may be forgotten for it. |
| `quorum.py` | A node's place in its quorum, and the moves from role to role. |
| `roles.py` | The roles, what is remembered in each, and the times they go by. |
| `log_view.py`, `epochs.py` | Offsets, epochs and snapshots of the log: how far two logs agree. |
| `requests.py` | Which of our requests are under way. |

The shell that executes the effects is `migrator/node/quorum/raft_node.py`; `tests/sim` has another, without bytes.
"""
