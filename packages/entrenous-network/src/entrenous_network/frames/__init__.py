"""Signed messages between a server and its nodes, and the checks that each must pass before it
counts.
"""
