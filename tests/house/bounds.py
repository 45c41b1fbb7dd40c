"""Bounds of how plain the code is. `budgets.py` has those of its size, which come from outside.

The aims are 5.3 nodes a line, 45 files from a CSV to a recommendation and 25 files of one HTTPS round.
"""

# Of each distribution by itself. Attacks are denser than the rest: their linear algebra.
NODES_A_LINE = {
    "entrenous": 5.45,
    "entrenous-audit": 5.91,
    "entrenous-field": 5.47,
    "entrenous-flower": 5.13,
    "entrenous-network": 5.37,
    "entrenous-ray": 4.66,
}
# The library and its network were one package, of 4.0 %.
LEAST_COMMENTS = {
    "entrenous": 0.0371,
    "entrenous-audit": 0.0419,
    "entrenous-field": 0.0392,
    "entrenous-flower": 0.0357,
    "entrenous-network": 0.0465,
    "entrenous-ray": 0.0335,
}
MORE_THAN_8 = 11
MOST_PARAMETERS = 14
CSV_TO_RECOMMENDATION = 47
HTTPS_ROUND = 29
FILES_OF_AN_ALGORITHM = 23
WEAK_OPENINGS = 0
AVOIDED_WORDS = 0
