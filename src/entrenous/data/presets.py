"""Presets: how to read the files that others published, each under the name of its data set
(`format=book-crossing`). A preset is one file as it is published, untouched.

An option that the user gives comes before that of a preset.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple, final

from ..core.errors import InputError
from ..core.registry.discover import pick
from .files import first_line, formats
from .folders import first_file
from .options import LoadOptions


@final
class PublishedFile(NamedTuple):
    """A file of a data set as it was published."""

    name: str
    """Its name."""
    begins: str
    """The form of its first line without quotes, a regular expression."""
    options: Mapping[str, Any]
    """The options of loading by name."""


@final
class Preset(NamedTuple):
    """The published files of a data set, each of which is one table of interactions."""

    about: str
    """The rows, one line."""
    files: tuple[PublishedFile, ...]
    """The files, told apart by their first lines."""


def preset_options(path: Path, options: LoadOptions) -> LoadOptions:
    """Returns the options with those of the preset that `options.format` names, as far as the user
    left them at their default; `options` itself if it names a format or nothing.

    Raises InputError for an unknown name, and for a file that does not begin like the published
    one.
    """
    if options.format is None or options.format in formats():
        return options
    preset = pick("format", options.format, {**formats(), **PRESETS})
    rows = first_file(path) if path.is_dir() else path
    line = first_line(rows).replace('"', "")
    for published in preset.files:
        if re.match(published.begins, line):
            # The name of the preset gives way to the format of its file, if that has to be said.
            unnamed = options.model_copy(update={"format": None})
            return _filled(unnamed, published.options)
    names = " or ".join(dict.fromkeys(published.name for published in preset.files))
    raise InputError(
        f"{rows}:1",
        f"the file does not begin like {names}",
        expected=f"the published file of {options.format}",
        fix="leave format out, and name the columns (user=, item=, ...)",
    )


def _filled(options: LoadOptions, values: Mapping[str, Any]) -> LoadOptions:
    default = LoadOptions()
    preset = LoadOptions.parse(values, "format")
    # These judge the values of the preset's own column, not those of another one.
    judging = ("likes", "not_rated") if options.value is not None else ()
    left = {
        name: getattr(preset, name)
        for name in values
        if getattr(options, name) == getattr(default, name) and name not in judging
    }
    return options.model_copy(update=left)


def _json(name: str, **options: Any) -> PublishedFile:
    """Returns a file of JSON lines."""
    return PublishedFile(name, r"\s*\{", options)


def _headed(name: str, header: str, **options: Any) -> PublishedFile:
    """Returns a text file by the beginning of its header."""
    return PublishedFile(name, re.escape(header), options)


# Pieces of first lines.
_DATE = r"\d{4}-\d\d-\d\d"
_ASIN = r"[0-9A-Z]{10}"

PRESETS = {
    "amazon-2014": Preset(
        "ratings or reviews of products, by category (McAuley, 2014)",
        (
            _json(
                "reviews_*.json.gz",
                user="reviewerID",
                item="asin",
                value="overall",
                time="unixReviewTime",
                # Some users reviewed a product twice.
                duplicates="last",
            ),
            PublishedFile(
                "ratings_*.csv",
                rf"\w{{11,}},{_ASIN},[\d.]+,\d+$",
                {"names": "user_id,item_id,rating,timestamp", "duplicates": "last"},
            ),
        ),
    ),
    "amazon-2018": Preset(
        "ratings or reviews of products, by category (Ni, 2018); the item comes first in the CSV",
        (
            _json(
                "*.json.gz",
                user="reviewerID",
                item="asin",
                value="overall",
                time="unixReviewTime",
                duplicates="last",
            ),
            PublishedFile(
                "*.csv",
                rf"{_ASIN},\w{{11,}},[\d.]+,\d+$",
                {"names": "item_id,user_id,rating,timestamp", "duplicates": "last"},
            ),
            PublishedFile(
                "*.csv",
                rf"\w{{11,}},{_ASIN},[\d.]+,\d+$",
                {"names": "user_id,item_id,rating,timestamp", "duplicates": "last"},
            ),
        ),
    ),
    "amazon-2023": Preset(
        "ratings or reviews of products, by category (Hou, 2023); products by parent_asin",
        (
            _json(
                "*.jsonl.gz",
                user="user_id",
                item="parent_asin",
                value="rating",
                time="timestamp",
                duplicates="last",
                # A few times of the published files are negative.
                bad_times="missing",
            ),
            _headed(
                "*.csv.gz",
                "user_id,parent_asin,rating,timestamp",
                user="user_id",
                item="parent_asin",
                value="rating",
                time="timestamp",
                duplicates="last",
                bad_times="missing",
            ),
        ),
    ),
    "anime": Preset(
        "ratings of anime; those of -1 are none, and are left out (MyAnimeList)",
        (
            _headed(
                "rating.csv",
                "user_id,anime_id,rating",
                user="user_id",
                item="anime_id",
                value="rating",
                likes="any",
                not_rated="-1",
                duplicates="last",
            ),
        ),
    ),
    "book-crossing": Preset(
        "ratings of books; those of 0 are none, and are left out (value= keeps them, all alike)",
        (
            _headed(
                "BX-Book-Ratings.csv",
                "User-ID;ISBN;Book-Rating",
                delimiter=";",
                encoding="latin-1",
                user="User-ID",
                item="ISBN",
                value="Book-Rating",
                time="",
                likes="any",
                not_rated="0",
                duplicates="last",
            ),
        ),
    ),
    "citeulike": Preset(
        "libraries of articles, one user a line with the number of articles first",
        (PublishedFile("users.dat", r"\d+( \d+)*$", {"format": "counted-item-lists"}),),
    ),
    "diginetica": Preset(
        "views of products by session (CIKM Cup 2016)",
        (
            _headed(
                "train-item-views.csv",
                "sessionId;userId;itemId;timeframe;eventdate",
                delimiter=";",
                user="sessionId",
                item="itemId",
                value="",
                time="eventdate",
            ),
            _headed(
                "train-item-views.csv",
                "session_id;user_id;item_id;timeframe;eventdate",
                delimiter=";",
                user="session_id",
                item="item_id",
                value="",
                time="eventdate",
            ),
        ),
    ),
    "douban": Preset(
        "ratings of films, books or music (Douban)",
        tuple(
            PublishedFile(
                f"{kind}reviews_cleaned.txt",
                rf"(?=.*\b{kind}_id\b)(?=.*\buser_id\b)(?=.*\brating\b)",
                {
                    "delimiter": "tab",
                    "user": "user_id",
                    "item": f"{kind}_id",
                    "value": "rating",
                    "time": "time",
                    "duplicates": "last",
                    "bad_rows": "drop",
                },
            )
            for kind in ("movie", "book", "music")
        ),
    ),
    "filmtrust": Preset(
        "ratings of films",
        (
            PublishedFile(
                "ratings.txt",
                r"\d+ \d+ [\d.]+$",
                {"names": "user_id,item_id,rating", "delimiter": "blank", "duplicates": "last"},
            ),
        ),
    ),
    "foursquare-tsmc": Preset(
        "check-ins at venues in New York or Tokyo",
        (
            PublishedFile(
                "dataset_TSMC2014_*.txt",
                r"\d+\t[0-9a-f]{24}\t",
                {
                    "delimiter": "tab",
                    "encoding": "latin-1",
                    "names": "user_id,venue_id,category_id,category,latitude,longitude,offset,"
                    "utc_time",
                    "item": "venue_id",
                    "value": "",
                    "time": "utc_time",
                },
            ),
        ),
    ),
    "goodreads": Preset(
        "ratings of books; those of 0 are none, and are left out (value= keeps them, all alike)",
        (
            _json(
                "goodreads_interactions_*.json.gz",
                user="user_id",
                item="book_id",
                value="rating",
                time="date_added",
                likes="any",
                not_rated="0",
            ),
            _headed(
                "goodreads_interactions.csv",
                "user_id,book_id,is_read,rating,is_reviewed",
                user="user_id",
                item="book_id",
                value="rating",
                time="",
                likes="any",
                not_rated="0",
            ),
        ),
    ),
    "gowalla": Preset(
        "check-ins at places (SNAP); Brightkite's file too",
        (
            PublishedFile(
                "Gowalla_totalCheckins.txt",
                rf"\d+\t{_DATE}T[^\t]*\t",
                {
                    "delimiter": "tab",
                    "names": "user_id,time,latitude,longitude,location_id",
                    "item": "location_id",
                    "value": "",
                    "time": "time",
                    "bad_rows": "drop",
                },
            ),
        ),
    ),
    "hetrec-movielens": Preset(
        "ratings of films (HetRec 2011)",
        (
            _headed(
                "user_ratedmovies-timestamps.dat",
                "userID\tmovieID\trating\ttimestamp",
                delimiter="tab",
                user="userID",
                item="movieID",
                value="rating",
                time="timestamp",
            ),
        ),
    ),
    "hm": Preset(
        "purchases of articles (H&M)",
        (
            _headed(
                "transactions_train.csv",
                "t_dat,customer_id,article_id,price,sales_channel_id",
                user="customer_id",
                item="article_id",
                value="",
                time="t_dat",
            ),
        ),
    ),
    "kuairec": Preset(
        "views of videos; the value is the share watched",
        (
            _headed(
                "big_matrix.csv or small_matrix.csv",
                "user_id,video_id,play_duration,video_duration,time,date,timestamp,watch_ratio",
                user="user_id",
                item="video_id",
                value="watch_ratio",
                # The column `time` is a date of China, without its zone.
                time="timestamp",
                duplicates="last",
            ),
        ),
    ),
    "lastfm-360k": Preset(
        "plays of artists; the item is the name, since ids are missing",
        (
            PublishedFile(
                "usersha1-artmbid-artname-plays.tsv",
                r"[^\t]+\t[-0-9a-f]*\t[^\t]*\t\s*\d+\s*$",
                {
                    "delimiter": "tab",
                    "names": "user_id,artist_mbid,artist_name,plays",
                    "item": "artist_name",
                    "value": "plays",
                    "likes": "positive",
                    # An artist with two ids has two rows, whose plays add up.
                    "duplicates": "sum",
                    "bad_rows": "drop",
                },
            ),
        ),
    ),
    "lastfm-hetrec": Preset(
        "plays of artists (HetRec 2011)",
        (
            _headed(
                "user_artists.dat",
                "userID\tartistID\tweight",
                delimiter="tab",
                user="userID",
                item="artistID",
                value="weight",
            ),
        ),
    ),
    "lightgcn": Preset(
        "a user and that user's items in each line, as LightGCN and NGCF publish their splits",
        (PublishedFile("train.txt or test.txt", r"\d+( \d+)* ?$", {"format": "item-lists"}),),
    ),
    "mind": Preset(
        "news that users had read or clicked",
        (PublishedFile("behaviors.tsv", r"\d+\tU\d+\t[^\t]+[AP]M\t", {"format": "impressions"}),),
    ),
    "movielens": Preset(
        "ratings of films, in any of the published sizes",
        (
            _headed(
                "ratings.csv",
                "userId,movieId,rating,timestamp",
                user="userId",
                item="movieId",
                value="rating",
                time="timestamp",
            ),
            PublishedFile(
                "ratings.dat",
                r"\d+::\d+::[\d.]+::\d+$",
                {"delimiter": "::", "names": "user_id,item_id,rating,timestamp"},
            ),
            PublishedFile(
                "u.data",
                r"\d+\t\d+\t\d\t\d+$",
                {"delimiter": "tab", "names": "user_id,item_id,rating,timestamp"},
            ),
        ),
    ),
    "msd": Preset(
        "plays of songs (Million Song Dataset, Echo Nest)",
        (
            PublishedFile(
                "train_triplets.txt",
                r"[0-9a-f]{40}\tSO\w{16}\t\d+$",
                {
                    "delimiter": "tab",
                    "names": "user_id,song_id,plays",
                    "item": "song_id",
                    "value": "plays",
                },
            ),
        ),
    ),
    "netflix": Preset(
        "ratings of films in blocks, one film each; a folder of combined_data_*.txt too",
        (PublishedFile("combined_data_*.txt", r"\d+:$", {"format": "netflix-blocks"}),),
    ),
    "retailrocket": Preset(
        "views, carts and purchases in a shop",
        (
            _headed(
                "events.csv",
                "timestamp,visitorid,event,itemid,transactionid",
                user="visitorid",
                item="itemid",
                value="",
                time="timestamp",
            ),
        ),
    ),
    "steam": Preset(
        "reviews of games",
        (
            _json(
                "steam_reviews.json.gz",
                user="username",
                item="product_id",
                value="",
                time="date",
                bad_rows="drop",
            ),
        ),
    ),
    "taobao": Preset(
        "views, carts, favourites and purchases in a shop (UserBehavior)",
        (
            PublishedFile(
                "UserBehavior.csv",
                r"\d+,\d+,\d+,(pv|buy|cart|fav),-?\d+$",
                {
                    "names": "user_id,item_id,category_id,behavior,timestamp",
                    "bad_times": "missing",
                },
            ),
        ),
    ),
    "tenrec": Preset(
        "clicks on videos or articles; rows of what was shown and not clicked are left out",
        (
            _headed(
                "QK-video.csv, QB-video.csv, QK-article.csv or QB-article.csv",
                "user_id,item_id,click,",
                user="user_id",
                item="item_id",
                value="",
                time="",
                likes="click",
            ),
        ),
    ),
    "yelp": Preset(
        "reviews of businesses",
        (
            _json(
                "yelp_academic_dataset_review.json",
                user="user_id",
                item="business_id",
                value="stars",
                time="date",
                duplicates="last",
            ),
        ),
    ),
    "yoochoose": Preset(
        "clicks or purchases by session (RecSys Challenge 2015)",
        (
            PublishedFile(
                "yoochoose-clicks.dat",
                rf"\d+,{_DATE}T[^,]*,\d+,[^,]*$",
                {
                    "delimiter": ",",
                    "names": "session_id,timestamp,item_id,category",
                    "user": "session_id",
                    "value": "",
                },
            ),
            PublishedFile(
                "yoochoose-buys.dat",
                rf"\d+,{_DATE}T[^,]*,\d+,\d+,\d+$",
                {
                    "delimiter": ",",
                    "names": "session_id,timestamp,item_id,price,quantity",
                    "user": "session_id",
                    "value": "",
                },
            ),
        ),
    ),
}
