"""What an algorithm declares and the shapes that it fills: declarations, protocols, updates,
settings, and their enforcement.
"""
