"""A server: rounds, intake, journal, masked sums, its folder, and the worker processes that share
its load.
"""
