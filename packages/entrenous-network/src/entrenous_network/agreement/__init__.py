"""The agreement of a federation's parties: terms, members, groups, items, tickets, identities and
certificates.
"""
