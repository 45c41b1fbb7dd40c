"""What people look at: HTML and SVG. Imports everything, is imported by the command line alone."""
