"""Central reference recommenders, which see everybody's data, one file each. `ALGORITHMS` in each
file maps their public names to classes.
"""
