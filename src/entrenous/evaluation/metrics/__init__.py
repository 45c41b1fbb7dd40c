"""The metrics. A file lists its metrics as METRICS = {name: metric}."""
