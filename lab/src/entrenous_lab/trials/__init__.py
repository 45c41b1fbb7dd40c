"""Trials of federations that a simulation repeats bit for bit."""
