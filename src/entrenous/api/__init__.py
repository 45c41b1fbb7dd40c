"""The functions for Python programs and notebooks: `run`, `open`, `compare`, and the `Run` that
they return.
"""
