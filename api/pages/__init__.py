"""The page: the same objects as REST, for people; readable without scripts, and in a text browser."""
