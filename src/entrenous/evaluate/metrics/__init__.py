"""One file = one metric, called by its file name. `per_query(ranking, n)` for accuracy,
`of_lists(lists, n)` for the rest.
"""
