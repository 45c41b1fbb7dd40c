"""The named data sets, one file each: a declaration in DATASETS. Their files are never part of this repository; see each one's terms."""
