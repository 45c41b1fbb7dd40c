"""Published federated recommenders that the papers of Entrenous do not compare with, one file for
each system. `ALGORITHMS` in each file maps the public names to classes and preset settings.
"""
