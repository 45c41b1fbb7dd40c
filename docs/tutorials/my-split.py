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
# These are one algorithm and one file. `loo-99` ranks the held-out book against 99 others,
# `loo-full` against all 180: a figure means nothing without its protocol, and figures of different
# protocols do not compare ([why sampled metrics mislead](../sampled-metrics.md)). `global-80-20`
# splits at one moment, so that no training row is later than any test row. A run says what the
# split did:

# %%
for note in run.manifest["notes"][-3:]:
    print("-", note)

# %% [markdown]
# ## Train and test files of your own
#
# Put `train.csv` and `test.csv` into a folder. The protocol `given` reads them, checks that they
# share their users and items, and counts what cannot be evaluated.

# %%
from pathlib import Path

import polars

rows = polars.read_csv("books.csv")
late = polars.col("time") >= "2025-09-01"
folder = Path("season")
folder.mkdir()
rows.filter(~late).write_csv(folder / "train.csv")
rows.filter(late).write_csv(folder / "test.csv")

run = entrenous.run("fcf", str(folder), split="given", rounds=60, progress=False)
run

# %% [markdown]
# ## The same rows for another program
#
# A split can be written as files too, so that a program that knows nothing of Entrenous trains on
# the same rows; `--protocol given` reads them back.

# %% [bash]
# entrenous split books.csv --protocol temporal-80-20 --out mysplit >/dev/null 2>&1
# ls mysplit
# head -2 mysplit/train.csv

# %% [markdown]
# ## A rule of your own
#
# `split=` takes a function `(data, seed=...)` that returns `entrenous.Split` objects as well:
# [add your own](../add-your-own.md) has one.
