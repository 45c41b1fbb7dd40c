# %% [markdown]
# # A federation on this machine
#
# After this page you can start a server and nodes that speak HTTPS with each other, and check that
# the network ends with the model of the simulation, bit for bit. It needs the extra `network`.
#
# ## Try it
#
# `federation try` founds a federation: a server, and three nodes with a third of the readers each,
# in a process of its own each. Under `private` the server sees masked sums alone.

# %% [bash]
# entrenous federation try club --data books.csv --algorithm fcf --nodes 3 --rounds 2 2>/dev/null | head -11

# %% [markdown]
# The two fingerprints are equal: the same devices draw the same numbers, and sums are exact
# whatever their order.
#
# ## What lies where

# %% [bash]
# ls club

# %% [markdown]
# Each folder is what one machine of a real federation would hold. A node's folder has its rows, in
# store.sqlite, and its key.

# %% [bash]
# ls club/nodes/node-1
# entrenous federation status club/server 2>/dev/null | grep -E "status|^. rounds? |lost"

# %% [markdown]
# ## A node recommends by itself
#
# The trained model is on every node, and a list is made there.

# %% [bash]
# entrenous federation recommend club/nodes/node-1 --user r000 --n 3 2>/dev/null

# %% [markdown]
# [Deploy](../network.md) does the same on machines of different owners. [Trouble](../trouble.md)
# says what to do when something stands still. [A federation that lives](a-living-federation.md) has
# people who come and go, and new items.
