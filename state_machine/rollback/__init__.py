"""The rollback from dual-write on: which nodes, with which file, who is left out, and what stops make worse."""
