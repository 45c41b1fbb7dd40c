"""Data sets that recipes name, which the user downloads by hand."""
