"""The arithmetic of single devices and peers: scores, gradients and local training of the models,
in plain loops compiled with numba.
"""
