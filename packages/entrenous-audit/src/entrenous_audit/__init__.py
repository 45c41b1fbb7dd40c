"""Audits: transcripts of exactly what an onlooker of a federation sees, attacks that read nothing
else, and verdicts; and attacks on the training by devices that collude.
"""
