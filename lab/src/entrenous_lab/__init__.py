"""The laboratory of Entrenous: the papers' tables and figures, claims, benches, and the survey
behind what `explain` says.
"""
