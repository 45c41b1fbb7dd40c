# %% [markdown]
# # My split: hold out rows as your question asks
#
# After this page you can choose a protocol, see how much it changes the figures, and evaluate on
# train and test files of your own.
#
# ## The same model under four protocols

# %%
import entrenous

data = entrenous.load("books.csv")
for protocol in ["loo-99", "loo-full", "temporal-80-20", "global-80-20"]:
    run = entrenous.run("fcf", data, split=protocol, rounds=60, progress=False)
    print(f"{protocol:15} hr@10 {run.metrics['hr@10']:.2f}  ndcg@10 {run.metrics['ndcg@10']:.2f}")

# %% [markdown]
# `loo-99` ranks the held-out book against 99 others, `loo-full` against all 180: a figure means
# nothing without its protocol, and figures of different protocols do not compare ([why sampled
# metrics mislead](../protocols.md)). `global-80-20` splits at one moment, so that no training row
# is later than any test row. A run says what the split did:

# %%
for note in run.manifest["notes"][-3:]:
    print("-", note)

# %% [markdown]
# ## Train and test rows of your own
#
# `split` takes two frames (or files), and numbers users and items of both alike.

# %%
import polars

rows = polars.read_csv("books.csv")
late = polars.col("time") >= "2025-09-01"
season = entrenous.split(train=rows.filter(~late), test=rows.filter(late), name="season")
run = entrenous.run("fcf", split=season, rounds=60, progress=False)
run

# %% [markdown]
# Parts that share nothing are refused:

# %% [raises]
other = rows.with_columns(item=polars.col("item") + " II")
entrenous.split(train=rows.filter(~late), test=other.filter(late))

# %% [markdown]
# ## The same rows for another program
#
# A split can be written as files for any program; `--protocol given` reads them back.

# %% [bash]
# entrenous split books.csv --protocol temporal-80-20 --out mysplit >/dev/null 2>&1
# ls mysplit
# head -2 mysplit/train.csv

# %% [markdown]
# ## A rule of your own
#
# `split=` takes a function `(data, seed=...)` that returns `entrenous.Split` objects as well:
# [add your own](../add-your-own.md) has one.
