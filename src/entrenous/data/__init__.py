"""Interactions, the files they are read from, the named data sets, and synthetic ones."""
