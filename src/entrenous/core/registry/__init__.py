"""What is installed: modules of a package by name, entry points of other packages, classes named by
their place.
"""
