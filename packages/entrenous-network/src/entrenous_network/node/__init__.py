"""A node: its store, its answers, and its side of a masked sum."""
