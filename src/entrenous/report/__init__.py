"""The report of runs: their tables, tests and figures as one HTML page."""
