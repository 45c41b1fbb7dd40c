"""The named data sets, one file each: a declaration in DATASETS. Their data is never part of this
repository; see their terms.
"""
