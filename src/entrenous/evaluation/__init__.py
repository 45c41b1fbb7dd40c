"""Ranking, metrics and significance. The only package that opens a test split."""
