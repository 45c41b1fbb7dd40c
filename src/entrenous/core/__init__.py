"""What every other package builds on: keys, arrays, updates, protocols, errors. Imports nothing of
Entrenous outside `core`.
"""
