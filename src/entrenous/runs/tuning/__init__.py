"""Choosing settings on validation rows: a grid, or a search that goes on where it was
interrupted.
"""
