"""Choosing settings on validation rows, by a grid."""
