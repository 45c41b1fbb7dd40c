# %% [markdown]
# # A federation that lives
#
# After this page you can run a service without a last round: readers and a bookshop who join by a
# link, and a new book. All of it is on this machine, and needs the extra `network`.
#
# ## The operator
#
# `--endless` has no last round. By `sampling=poisson` every device decides by its own lot whether
# it takes part in a round, and stops after 100 answers. `people=8` is for this page: a real sum
# has 100 people and more.

# %% [bash]
# (echo item; tail -n +2 books.csv | cut -d, -f2 | sort -u) > items.csv
# entrenous federation new club --items items.csv --algorithm fcf --endless --users 60 --set cohort=20 --protect sampling=poisson --protect answers=100 --protect people=8 --port 8477 2> new.txt
# grep -E "^private brings|^make" new.txt

# %% [markdown]
# The server runs until it is stopped, with two seconds between rounds here. Everybody with the link
# may join.

# %% [bash]
# entrenous server club/server --pace 2 > server.txt 2>&1 & echo $! > server.pid
# until [ -s server.txt ]; do sleep 1; done
# entrenous federation link club --uses 60 --an-hour 60 > link.txt 2> said.txt
# cut -d "#" -f 1 link.txt

# %% [markdown]
# ## Readers, and a shop
#
# Forty readers join, each with a key and a lot. One process runs them here.

# %%
from pathlib import Path
from time import sleep

import entrenous

link = Path("link.txt").read_text()
rows = [line.split(",")[:2] for line in Path("books.csv").read_text().splitlines()]
for n in range(40):
    sleep(0.2)  # a server answers so many strangers
    with entrenous.Device.join(f"readers/{n}", link, people=8) as device:
        for user, book in rows:
            if user == f"r{n:03}":
                device.consumed(book)

# %% [markdown]
# A shop joins with its customers' rows. Its devices bear its mark, of which a sum has a tenth at
# most: here one device.

# %% [bash]
# entrenous node readers > readers.txt 2>&1 & echo $! > readers.pid
# (head -1 books.csv; tail -200 books.csv) > shop.csv
# entrenous federation join shop --link "$(cat link.txt)" --data shop.csv --people 8 2>&1 | tail -1
# entrenous node shop > shop.txt 2>&1 & echo $! > shop.pid

# %% [markdown]
# One more reader joins without any row, and is handed the newest model between two rounds.

# %% [bash]
# entrenous federation join phone --link "$(cat link.txt)" --people 8 2>&1 | tail -1
# entrenous node phone > phone.txt 2>&1 & echo $! > phone.pid
# until entrenous federation status phone 2>/dev/null | grep -Eq "model_round +│ [1-9]"; do sleep 1; done

# %% [markdown]
# An app on the phone opens the same folder. What the reader consumes counts from the next round on,
# and is never recommended again.

# %%
with entrenous.Device("phone") as device:
    for book in ("Winter Alibi", "Glass Bread", "Hollow Dragon"):
        device.consumed(book)
    books = [entry["item"] for entry in device.recommend(5).items]
len(books), "Glass Bread" in books

# %% [markdown]
# ## A new book
#
# The server takes the longer list up before its next round. What the reader forgets is deleted from
# the file itself.

# %% [bash]
# (echo item; echo "New Moon") > new.csv
# entrenous federation items club --add new.csv
# until grep -q "New Moon" phone/items.jsonl; do sleep 1; done

# %%
with entrenous.Device("phone") as device:
    device.forget()
    rows = device.export()
rows

# %% [bash]
# kill $(cat phone.pid shop.pid readers.pid) && sleep 1 && kill $(cat server.pid)

# %% [markdown]
# [The design](../living.md) says what is guaranteed, [the contract](../participation.md) why there
# are lots and budgets, and [Operate](../operate.md) how to watch a server.
