"""Ways to hold rows out. One file = one kind of split; a protocol name such as `loo-99` or
`temporal-80-20` selects it.
"""
