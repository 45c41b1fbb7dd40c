"""What an onlooker learns from what leaves devices: transcripts of exactly what it sees, attacks
that read nothing else, verdicts.
"""
