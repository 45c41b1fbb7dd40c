"""The formats of files, one file each: a declaration in FORMATS says how a format is recognised and
read.
"""
