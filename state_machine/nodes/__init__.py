"""The nodes of a migration as they can be operated, and what each of their hosts said last."""
