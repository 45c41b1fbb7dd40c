"""Flower behind the port of deploy/link.py: the only place that imports flwr. SuperLink, ServerApp, long-lived nodes, keys."""
