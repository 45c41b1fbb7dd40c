"""Attacks on what leaves devices: one file each, named after the attack, in which `ATTACK` declares what it needs to have seen (audit/claims.py)."""
