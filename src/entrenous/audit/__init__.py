"""The view of an onlooker of a federation, attacks on users and on the training, and figures of how
far they come.
"""
