"""The commands of an operator or an owner: found, enrol, run, look, go back, recommend, and try a
federation out.
"""
