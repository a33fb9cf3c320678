"""From stock controllers to the end: canary traffic, soak, backups, the finalize and what it leaves behind."""
