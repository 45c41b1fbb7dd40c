"""Published federated recommenders that the papers of Entrenous do not compare with, one file for
each system; recipes of published data sets, and the formats of their files. `ALGORITHMS` in each
file maps the public names to classes and preset settings.
"""
