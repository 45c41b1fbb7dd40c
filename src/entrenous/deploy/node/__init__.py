"""A node: its store, its answers, its side of a masked sum, and relays with nodes below them."""
