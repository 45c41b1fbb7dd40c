# %% [markdown]
# # A federation on this machine
#
# After this page you can start a server and devices that speak HTTPS with each other, and know what
# lies where. It needs the extra `network`.
#
# ## Try it
#
# `federation try` founds a federation of the first 40 readers, each with a device. The server sees
# masked sums alone. While it runs, the rest of the rows arrives, and items appear.

# %% [bash]
# entrenous federation try club --data books.csv --rounds 2 2>&1 | grep -oE "[0-9]+ of [0-9]+ people[a-z ]*"

# %% [markdown]
# ## What lies where

# %% [bash]
# ls club

# %% [markdown]
# Each folder is what one machine of a real federation would hold. A device's folder has its rows,
# in store.sqlite, and its key.

# %% [bash]
# ls club/nodes/person-001

# %% [markdown]
# ## A device recommends by itself
#
# The trained model is on every device, and a list is made there; this one has three items.

# %% [bash]
# entrenous federation recommend club/nodes/person-001 --n 3 --json 2>/dev/null | grep -o '"title"' | wc -l

# %% [markdown]
# [Deploy](../network.md) does the same on machines of different owners. [Trouble](../trouble.md)
# says what to do when something stands still. [A federation that lives](a-living-federation.md) has
# more of what happens to one.
