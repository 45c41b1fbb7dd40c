"""The site: tutorials executed as notebooks, and the pages of reference that follow from the code.

`python -m entrenous_lab.site` writes them anew; `make docs` builds the site of them.
"""
