"""Bounds of what `python -m tests.house` measures. A bound may be made tighter, never looser."""

NODES = 268_000
NODES_A_LINE = 5.3
LEAST_COMMENTS = 0.016
MORE_THAN_8 = 80
MOST_PARAMETERS = 27
CSV_TO_RECOMMENDATION = 83
HTTPS_ROUND = 56
FILES_OF_AN_ALGORITHM = 23
WEAK_OPENINGS = 552
AVOIDED_WORDS = 175
