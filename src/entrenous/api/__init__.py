"""What Python programs and notebooks use: `run`, `open`, `compare` and the `Run` that they
return.
"""
