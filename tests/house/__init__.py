"""Yardsticks of the code, measured and never listed: `python -m tests.house` prints them."""
