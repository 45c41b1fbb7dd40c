"""Rounds of devices: who takes part, on which threads, what was sent, what is kept for a resume."""
