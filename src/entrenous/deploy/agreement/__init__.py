"""What the parties of a federation agree on: terms, members, groups, items, tickets, identities and
certificates.
"""
