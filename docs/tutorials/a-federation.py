# %% [markdown]
# # A federation on this machine
#
# After this page you can start a server and nodes that speak HTTPS with each other, and check that
# the network ends with the model of the simulation, bit for bit. It needs the extra `network`.
#
# ## Try it
#
# `federation try` founds a federation: an operator's key, a certificate for the server, and three
# nodes with a third of the readers each. Each part is a process of its own. Under `private` the
# server sees masked sums alone.

# %% [bash]
# entrenous federation try club --data books.csv --algorithm fcf --nodes 3 --rounds 2 2>/dev/null | head -11

# %% [markdown]
# The two fingerprints are equal: what runs on a thousand phones is what you evaluated on your
# laptop. The same devices draw the same numbers, and sums are exact whatever their order.
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
# The trained model is on every node. A list is made there, and the server never hears of it.

# %% [bash]
# entrenous federation recommend club/nodes/node-1 --user r000 --n 3 2>/dev/null

# %% [markdown]
# [Deploy](../network.md) does the same on machines of different owners: before an owner joins,
# `join` shows the terms, what leaves the device, and what attacks found. [Repair](../trouble.md)
# says what to do when something stands still. People who come and go, and new items:
# [a federation that lives](a-living-federation.md).
