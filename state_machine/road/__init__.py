"""The road from dual-write to the end, driven: rolling restarts, replaced controllers, soak, finalize."""
