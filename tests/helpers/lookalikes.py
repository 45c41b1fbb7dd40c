"""Look-alikes of files as they are published, small and made up, by the name of their preset."""

from __future__ import annotations

import gzip
import hashlib
import json
import random
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

USERS = 40
ITEMS = 60


def rows(seed: int = 7) -> Iterator[tuple[int, int, int]]:
    """User, item and time in seconds, each pair once; popular items come first."""
    drawn = random.Random(seed)
    for user in range(USERS):
        items = dict.fromkeys(int(ITEMS * drawn.random() ** 2) for _ in range(12))
        time = 1_300_000_000 + drawn.randrange(10**8)
        for item in items:
            time += drawn.randrange(60, 10**6)
            yield user, item, time


def date(time: int, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    return datetime.fromtimestamp(time, UTC).strftime(form)


def digest(text: object) -> str:
    return hashlib.sha1(str(text).encode()).hexdigest()


def lines(template: str, header: str = "", end: str = "\n") -> str:
    """A file with one line for each row; the template may use u, i, t, r (1 to 5) and z (0 to 5)."""
    made = [header] if header else []
    for user, item, time in rows():
        names: dict[str, Any] = {"u": user, "i": item, "t": time}
        names |= {"r": 1 + (user + item) % 5, "z": (user * item) % 6}
        names |= {"asin": f"B0{item:08d}", "who": f"A{user:013d}", "sha": digest(user)}
        names |= {"day": date(time, "%Y-%m-%d"), "iso": date(time, "%Y-%m-%dT%H:%M:%S")}
        names |= {"twitter": date(time, "%a %b %d %H:%M:%S +0000 %Y")}
        made.append(template.format(**names))
    return end.join(made) + end


def objects(make: Any, write: Any = json.dumps) -> str:
    return "".join(write(make(*row)) + "\n" for row in rows())


def amazon(user: int, item: int, time: int) -> dict[str, Any]:
    about = {"reviewerName": "J. Doe", "helpful": [0, 0], "reviewText": 'so "good"\nyes'}
    return {
        "reviewerID": f"A{user:013d}",
        "asin": f"B0{item:08d}",
        "overall": 1.0 + (user + item) % 5,
        "unixReviewTime": time,
        **about,
    }


def amazon_2023(user: int, item: int, time: int) -> dict[str, Any]:
    return {
        "rating": 1.0 + (user + item) % 5,
        "title": "x, y",
        "text": "a\u2028b",
        "images": [],
        "asin": "B0VARIANT0",
        "parent_asin": f"B0{item:08d}",
        "user_id": f"A{user:026d}",
        "timestamp": time * 1000 + 7,
        "verified_purchase": True,
    }


def yelp(user: int, item: int, time: int) -> dict[str, Any]:
    about = {"useful": 0, "text": "Nice\nplace", "date": date(time)}
    return {
        "review_id": digest((user, item)),
        "user_id": digest(user)[:22],
        "business_id": digest(-item)[:22],
        "stars": 1.0 + (user + item) % 5,
        **about,
    }


def steam(user: int, item: int, time: int) -> dict[str, Any]:
    about = {"hours": 0.5, "early_access": False, "text": "it's good"}
    return {
        "username": f"player{user}",
        "product_id": str(10 + item),
        "date": date(time, "%Y-%m-%d"),
        **about,
    }


def goodreads(user: int, item: int, time: int) -> dict[str, Any]:
    return {
        "user_id": digest(user)[:32],
        "book_id": str(1000 + item),
        "is_read": True,
        "rating": (user * item) % 6,
        "date_added": date(time, "%a %b %d %H:%M:%S -0700 %Y"),
        "read_at": "",
    }


def of_items() -> dict[int, list[tuple[int, int]]]:
    items: dict[int, list[tuple[int, int]]] = {}
    for user, item, time in rows():
        items.setdefault(item, []).append((user, time))
    return items


def of_users() -> dict[int, list[int]]:
    users: dict[int, list[int]] = {}
    for user, item, _ in rows():
        users.setdefault(user, []).append(item)
    return users


def mind() -> str:
    """Impressions with a history; the first user has none."""
    made = []
    for number, (user, items) in enumerate(of_users().items(), 1):
        history = " ".join(f"N{item}" for item in items[:-2]) if user else ""
        shown = f"N{items[-1]}-1 N{ITEMS + user}-0 N{items[-2]}-1"
        time = f"11/{1 + user % 28}/2019 {1 + user % 12}:05:0{user % 10} {'AP'[user % 2]}M"
        made.append(f"{number}\tU{user}\t{time}\t{history}\t{shown}\n")
    return "".join(made)


def tenrec(others: str) -> str:
    """Clicks, and beside each one an item that was shown and not clicked."""
    zeros = ",0" * (others.count(",") + 1)
    header = f"user_id,item_id,click,{others}"
    return lines(f"{{u}},{{i}},1{zeros}\n{{u}},9{{i}},0{zeros}", header)


def item_lists(counted: bool) -> str:
    users = of_users().items()
    first = [len(items) if counted else user for user, items in users]
    return "".join(
        f"{number} {' '.join(map(str, items))}\n"
        for number, (_, items) in zip(first, users, strict=True)
    )


FILES: dict[str, tuple[str, Any]] = {
    "amazon-2014": ("ratings_Beauty.csv", lambda: lines("{who},{asin},{r}.0,{t}")),
    "amazon-2014 reviews": ("reviews_Beauty_5.json.gz", lambda: objects(amazon)),
    "amazon-2018": ("All_Beauty.csv", lambda: lines("{asin},{who},{r}.0,{t}")),
    "amazon-2023": ("All_Beauty.jsonl.gz", lambda: objects(amazon_2023)),
    "anime": ("rating.csv", lambda: lines("{u},{i},{r}", "user_id,anime_id,rating")),
    "book-crossing": (
        "BX-Book-Ratings.csv",
        lambda: lines('"{u}";"\xfc{i}";"{z}"', '"User-ID";"ISBN";"Book-Rating"', "\r\n"),
    ),
    "citeulike": ("users.dat", lambda: item_lists(counted=True)),
    "diginetica": (
        "train-item-views.csv",
        lambda: lines("{u};NA;{i};{z};{day}", "sessionId;userId;itemId;timeframe;eventdate"),
    ),
    "douban": (
        "moviereviews_cleaned.txt",
        lambda: lines(
            '"{sha}"\t"{i}"\t"{r}"\t"nice"\t"{day}"\t"a|b"\t"0"',
            '"user_id"\t"movie_id"\t"rating"\t"comment"\t"time"\t"labels"\t"useful_num"',
        ),
    ),
    "filmtrust": ("ratings.txt", lambda: lines("{u} {i} {r}.5")),
    "foursquare-tsmc": (
        "dataset_TSMC2014_NYC.txt",
        lambda: lines("{u}\t{i:024x}\t{i:024x}\tCaf\xe9\t40.7\t-74.0\t-240\t{twitter}"),
    ),
    "goodreads": (
        "goodreads_interactions.csv",
        lambda: lines("{u},{i},1,{z},0", "user_id,book_id,is_read,rating,is_reviewed"),
    ),
    "goodreads poetry": ("goodreads_interactions_poetry.json.gz", lambda: objects(goodreads)),
    "gowalla": ("Gowalla_totalCheckins.txt", lambda: lines("{u}\t{iso}Z\t30.2\t-97.7\t{i}")),
    "hetrec-movielens": (
        "user_ratedmovies-timestamps.dat",
        lambda: lines("{u}\t{i}\t{r}\t{t}000", "userID\tmovieID\trating\ttimestamp"),
    ),
    "hm": (
        "transactions_train.csv",
        lambda: lines(
            "{day},{sha},0{i},0.05,2", "t_dat,customer_id,article_id,price,sales_channel_id"
        ),
    ),
    "kuairec": (
        "big_matrix.csv",
        lambda: lines(
            "{u},{i},500,900,{iso},20200705,{t}.25,0.5",
            "user_id,video_id,play_duration,video_duration,time,date,timestamp,watch_ratio",
        ),
    ),
    "lastfm-360k": (
        "usersha1-artmbid-artname-plays.tsv",
        lambda: lines('{sha}\t\thalf "open" band {i}\t{r}'),
    ),
    "lastfm-hetrec": (
        "user_artists.dat",
        lambda: lines("{u}\t{i}\t{r}", "userID\tartistID\tweight"),
    ),
    "lightgcn": ("train.txt", lambda: item_lists(counted=False)),
    "mind": ("behaviors.tsv", mind),
    "movielens": (
        "ratings.csv",
        lambda: lines("{u},{i},{r}.5,{t}", "userId,movieId,rating,timestamp", "\r\n"),
    ),
    "movielens 1m": ("ratings.dat", lambda: lines("{u}::{i}::{r}::{t}")),
    "movielens 100k": ("u.data", lambda: lines("{u}\t{i}\t{r}\t{t}")),
    "msd": (
        "train_triplets.txt",
        lambda: lines("{sha}\tSO{i:016X}\t{r}"),
    ),
    "retailrocket": (
        "events.csv",
        lambda: lines("{t}123,{u},view,{i},", "timestamp,visitorid,event,itemid,transactionid"),
    ),
    "steam": ("steam_reviews.json.gz", lambda: objects(steam, repr)),
    "taobao": ("UserBehavior.csv", lambda: lines("{u},{i},99,pv,{t}")),
    "tenrec": ("QB-article.csv", lambda: tenrec("read,read_time,share,like,follow,favorite")),
    "tenrec video": ("QK-video.csv", lambda: tenrec("follow,like,share,watching_times,gender,age")),
    "yelp": ("yelp_academic_dataset_review.json", lambda: objects(yelp)),
    "yoochoose": ("yoochoose-clicks.dat", lambda: lines("{u},{iso}.277Z,{i},0")),
    "yoochoose buys": ("yoochoose-buys.dat", lambda: lines("{u},{iso}.277Z,{i},12,1")),
}
LATIN = ("book-crossing", "foursquare-tsmc")


def write(kind: str, folder: Path) -> Path:
    """Writes the file of a kind in a folder."""
    name, make = FILES[kind]
    raw = make().encode("latin-1" if kind in LATIN else "utf-8")
    path = folder / name
    path.write_bytes(gzip.compress(raw, mtime=0) if name.endswith(".gz") else raw)
    return path
