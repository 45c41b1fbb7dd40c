"""What an operator or an owner does: found, enrol, run, look, go back, recommend, and try a
federation out.
"""
