"""Programs that run between processes: a server with nodes that serve one user or many, and peers
without a server.
"""
