"""The arithmetic of single devices under these systems, in plain loops compiled with numba."""
