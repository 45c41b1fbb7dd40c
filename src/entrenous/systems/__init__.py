"""Published recommenders that are trained in rounds of devices or between peers, one file for each
system of a paper. `ALGORITHMS` in each file maps the public names to classes and preset settings.
"""
