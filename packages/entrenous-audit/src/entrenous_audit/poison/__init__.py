"""Poisoning: what colluding devices and peers send; one file = one attack, whose `POISONS` names it
(colluders.py).
"""
