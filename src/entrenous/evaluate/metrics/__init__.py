"""The metrics, one file for each kind. A file lists its metrics as METRICS = {name: metric}."""
