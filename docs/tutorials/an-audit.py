# %% [markdown]
# # An audit: what devices give away
#
# After this page you can attack a training of your own, read the verdicts, and see what a
# protection leaves and costs.
#
# ## A server that opens every message
#
# The audit trains on your rows and records what the server receives. Attacks see that record and
# nothing else; their claims are then compared with the truth.

# %%
import entrenous


def attacked(**options):
    found = entrenous.audit("fcf", "books.csv", quick=True, progress=False, **options)
    for attack in found.found["attacks"]:
        if attack["verdict"] == "NOT TRIED" or attack["asks"] != "histories":
            continue
        print(
            f"{attack['name']}: {attack['verdict']}, R-precision {attack['r_precision']:.2f}"
            f" (popularity alone {attack['popularity_r_precision']:.2f})"
        )
    return found


single = attacked(rounds=5)

# %% [markdown]
# *R-precision* is the share of right items among as many guesses as the user has items. *Popularity
# alone* is the guess that everybody read what is popular; only what exceeds it is a leak.
# `gradient` names every history without an error: EXPOSED, although no history ever left a device.
# The figure for a paper (`single.plot().save("leak.svg")` keeps it):

# %%
single.plot()

# %% [markdown]
# ## A server that sees sums of a hundred

# %%
summed = attacked(view="sum", cohort=100, rounds=20)

# %% [markdown]
# A sum over a hundred devices hides most of a history from this attack. Over a whole training [sums
# come apart](../privacy.md#what-is-known-against-private).
#
# ## Two sums that differ by one device
#
# A server that gets the same sum with and without one device subtracts, and has its message:

# %%
differed = attacked(view="difference", cohort=100)

# %% [markdown]
# That is why, across a network, a node refuses a sum that differs from an earlier one by too few.
#
# ## With noise, and what it costs
#
# The profile `private` is the default across a network: masked sums, with noise on every number,
# and the settings that were tested with it. It asks for sums of 300 people; here are 240.

# %%
fewer = {"people": 100}
noisy = attacked(view="sum", profile="private", protect=fewer)
for profile, protect in (("paper", {}), ("private", fewer)):
    run = entrenous.run(
        "fcf",
        "books.csv",
        profile=profile,
        protect=protect,
        progress=False,
    )
    print(f"{profile}: hr@10 {run.metrics['hr@10']:.2f}")

# %% [markdown]
# In sums of everybody with this noise the attacks find no more than popularity tells, and accuracy
# falls by a quarter: noise follows what one person may send, and 240 people are few to average it
# out. That is about these attacks alone, and the final model of so few people
# [tells of them](../privacy.md#what-private-brings). Only differential privacy bounds every attack,
# at a [cost in accuracy](../privacy.md#differential-privacy) that 240 readers cannot pay.
#
# ## One person's receipt
#
# A stored run says of each person what the messages of their device tell:

# %% [bash]
# entrenous run fcf --data books.csv --rounds 10 >/dev/null 2>&1
# entrenous receipt latest --user r007 2>/dev/null | grep -A3 "^Known"

# %% [markdown]
# The first finding is of this reader's own messages. [What leaks](../audit.md) has
# all findings.
