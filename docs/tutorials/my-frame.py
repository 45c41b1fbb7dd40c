# %% [markdown]
# # My frame: from a CSV file to a table in a paper
#
# After this page you can bring a frame of your own, compare three systems over several seeds with
# a paired test, and print the table in LaTeX.
#
# ## Bring the frame
#
# A frame of pandas, polars or Arrow will do. If its columns do not have the usual names, name them.

# %%
import polars

import entrenous

frame = polars.read_csv("books.csv").rename(
    {"user": "reader", "item": "book", "rating": "stars", "time": "finished"}
)
data = entrenous.from_frame(frame, user="reader", item="book", value="stars", time="finished")
data

# %% [markdown]
# Every reading keeps a report of what was assumed:

# %%
for note in data.notes:
    print("-", note)

# %% [markdown]
# A book with two stars counts as liked too. Here are the books of three stars or more as likes:

# %%
liked = entrenous.from_frame(
    frame, user="reader", item="book", value="stars", time="finished", likes="at_least=3"
)
liked

# %% [markdown]
# If something can be read in two ways, the call ends with one line that names both readings.

# %% [raises]
entrenous.from_frame(frame, user="reader", item="title")

# %% [markdown]
# ## Compare
#
# Each seed draws its own split and its own training. The figures are means and sample standard
# deviations over seeds.

# %%
table = entrenous.compare(["fcf", "pfpl+", "popular"], liked, seeds=3, rounds=60, progress=False)
table

# %% [markdown]
# The test pairs the same users and seeds under both systems, and Holm's correction accounts for the
# number of tests.

# %%
for test in table.tests().to_dicts():
    low, high = test["low"], test["high"]
    print(
        f"{test['metric']}: {test['a']} minus {test['b']} {test['difference']:+.3f}"
        f" (95 % over {test['holds']} {low:+.3f} to {high:+.3f}), p = {test['holm_p']:.2g}"
    )

# %% [markdown]
# ## The table and the figure for the paper

# %%
print(table.latex(["hr@10", "ndcg@10"]))

# %%
table.plot()

# %% [markdown]
# `entrenous compare ... --table table.tex` writes the same from a shell. [My
# algorithm](my-algorithm.md) puts a system of your own into the first column.
