"""More than one process: Ray's actors, each with a shard of users or the answers of some nodes.
Trusted machines only: Ray moves pickles.

The only place that imports ray, and only when it is asked for.
"""
