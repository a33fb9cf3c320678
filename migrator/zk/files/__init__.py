"""A ZooKeeper server's own files: the tree that its snapshots and transaction logs hold.

Core, bytes in and values out: `jute.py` (the encoding), `transactions.py` (one entry of a log), `txn_log.py` (a log),
`snapshot.py` (a snapshot), `znode_tree.py` (what entries do to the tree). Shell: `server_files.py` (which files are
read, in which order), `session.py` (the tree as an audit reads a session).
"""
