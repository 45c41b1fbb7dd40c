"""The arithmetic of one device, in plain loops compiled with numba."""
