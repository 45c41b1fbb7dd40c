# %% [markdown]
# # A federation that lives
#
# After this page you can run a service without a last round: a bookshop whose customers come with
# their rows, a reader who joins by a link, and a new book. All of it is on this machine, and needs
# the extra `network`.
#
# ## The operator
#
# `--endless` has no last round. By `sampling=poisson` every device decides by its own lot whether
# it takes part in a round, and stops after 100 answers. `people=20` is for this page: a real sum
# has 100 people and more.

# %% [bash]
# (echo item; tail -n +2 books.csv | cut -d, -f2 | sort -u) > items.csv
# entrenous federation new club --items items.csv --algorithm fcf --endless --users 200 --set cohort=60 --protect sampling=poisson --protect answers=100 --protect people=20 --port 8477 2> new.txt
# grep -E "^private brings|^make" new.txt

# %% [markdown]
# The server runs until it is stopped, with two seconds between rounds here. Everybody with the link
# may join.

# %% [bash]
# entrenous server club/server --pace 2 > server.txt 2>&1 & echo $! > server.pid
# until [ -s server.txt ]; do sleep 1; done
# entrenous federation link club --uses 150 --an-hour 150 > link.txt 2> said.txt
# cut -d "#" -f 1 link.txt

# %% [markdown]
# ## A shop, and a reader
#
# A shop joins with its customers' rows, each customer with a key and a lot. The rows stay in its
# folder.

# %% [bash]
# head -1500 books.csv > shop.csv
# entrenous federation join shop --link "$(cat link.txt)" --data shop.csv --people 20 2>&1 | tail -1
# entrenous node shop > shop.txt 2>&1 & echo $! > shop.pid

# %% [markdown]
# A reader joins without any row, and is handed the newest model between two rounds.

# %% [bash]
# entrenous federation join phone --link "$(cat link.txt)" --people 20 2>&1 | tail -1
# entrenous node phone > phone.txt 2>&1 & echo $! > phone.pid
# until entrenous federation status phone 2>/dev/null | grep -Eq "model_round +│ [1-9]"; do sleep 1; done

# %% [markdown]
# An app on the phone opens the same folder. What the reader consumes counts from the next round on,
# and is never recommended again.

# %%
import entrenous

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
# until [ -e phone/longer-items.json ]; do sleep 1; done

# %%
with entrenous.Device("phone") as device:
    device.forget()
    rows = device.export()
rows

# %% [bash]
# kill $(cat phone.pid shop.pid) && sleep 1 && kill $(cat server.pid)

# %% [markdown]
# [The design](../living.md) says what is guaranteed, [the contract](../participation.md) why there
# are lots and budgets, and [Operate](../operate.md) how to watch a server.
