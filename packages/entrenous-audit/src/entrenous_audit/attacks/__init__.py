"""Attacks: one file each, named after the attack; `ATTACK` declares it (claims.py)."""
