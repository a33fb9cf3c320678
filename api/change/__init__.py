"""The change report for people and programs: one JSON document, one self-contained page, text for a terminal."""
