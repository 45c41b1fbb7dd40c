"""One file = one table or figure of a paper: what to run, what the paper printed."""
