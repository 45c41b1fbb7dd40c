"""Runs: from a plan to a folder (split, train, evaluate, store), and a stored run opened again."""
