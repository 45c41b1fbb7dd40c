"""The contract of an algorithm: declarations, protocols, updates, settings, and their
enforcement.
"""
