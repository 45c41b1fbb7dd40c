"""Centralised references, which see everybody's data. `ALGORITHMS` in each file gives its names."""
