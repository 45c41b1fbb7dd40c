"""Lookup of all that is installed: modules of a package by name, entry points of other packages,
classes by their place.
"""
