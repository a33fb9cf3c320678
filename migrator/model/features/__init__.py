"""Which levels of features the nodes of a cluster support, and what a change of metadata.version would do (KIP-778)."""
