"""What persons agree to before a step that cannot be undone."""
