# %% [markdown]
# # Your first run
#
# After this page you can train a federated recommender on a file, read its accuracy with the
# interval that belongs to it, recommend to a user, and store the run.
#
# ## The data
#
# `books.csv` has one row for each book that a member of a club finished. `data check` says how each
# column is read, and what was assumed.

# %% [bash]
# head -3 books.csv
# entrenous data check books.csv

# %% [markdown]
# ## Train and evaluate
#
# FCF (federated collaborative filtering) keeps each user's history on the user's device. A device
# receives item vectors, solves for its own user vector, and sends back how the item vectors should
# move. This call simulates 240 devices in one process.

# %%
import entrenous

run = entrenous.run("fcf", "books.csv", rounds=60, progress=False)
run

# %% [markdown]
# The newest book of each reader was held out before training (`loo-99`: leave one out). `hr@10` is
# the share of readers whose held-out book is among the ten best, ranked against 99 books that they
# never touched. Every recommender has to beat a list of popular books:

# %%
popular = entrenous.run("popular", "books.csv", progress=False)
print(f"{run.metrics['hr@10']:.2f} compared with {popular.metrics['hr@10']:.2f}")

# %% [markdown]
# [My frame](my-frame.md) repeats the comparison over seeds, with a test.
#
# ## Recommend

# %%
run.recommend("r007", n=5)

# %% [markdown]
# Somebody who was not in training gets a list from the books that they name; nothing is sent.

# %%
run.recommend_for(["Glass Dragon", "Iron Oath"], n=3)

# %% [markdown]
# ## Store the run, and open it again

# %%
folder = run.save("runs/first")
entrenous.open(folder).metrics["hr@10"] == run.metrics["hr@10"]

# %% [markdown]
# The same from a shell; the same seed gives the same model, byte for byte.

# %% [bash]
# entrenous run fcf --data books.csv --rounds 60 2>/dev/null | head -7

# %% [markdown]
# ## What that run gave away
#
# Histories stayed on the devices, and yet FCF as published sends messages from which a server can
# compute them:

# %% [bash]
# entrenous explain fcf | grep "Your list"

# %% [markdown]
# [An audit](an-audit.md) measures it on this data, and shows what limits it.
