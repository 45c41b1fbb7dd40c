"""Formats of published files, one file each; `FORMATS` in each maps names to readers."""
