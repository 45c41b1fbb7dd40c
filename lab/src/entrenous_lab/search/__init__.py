"""A search of settings by Optuna's TPE, as the papers' tables were tuned: it goes on where it was
interrupted, and ends with the same bytes.
"""
