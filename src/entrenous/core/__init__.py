"""The ground of all other packages: keys, arrays, updates, protocols, errors. Imports nothing of
Entrenous outside `core`.
"""
