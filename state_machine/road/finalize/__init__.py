"""The step that cannot be undone, and what may still be done before it."""
