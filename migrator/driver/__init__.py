"""Takeover, copy and dual-write as plans: which records, which znodes, at which versions.

`machine.py` says what comes next; `tree.py` turns znodes into values, `copy.py` those into records, `gate.py` judges
whether to begin, `claim.py` plans who is controller, `mirror.py` what ZooKeeper must become, `update_requests.py`
what brokers must hear, `guard.py` whether a full send would destroy anything. Nothing here waits or opens a connection.
"""
