"""One file = one system of a paper. `ALGORITHMS` in each file gives its names."""
