"""`python -m entrenous_lab.search ALGORITHM --search name=a..b ...`: searches settings on
validation rows. The commands of lab/notes repeat the searches behind the papers' tables with it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from entrenous.core.contract.settings import parse_assignments

from .tpe import TRIALS, SearchRequest, try_space


def main(words: Sequence[str] | None = None) -> None:
    """Prints the best settings as JSON. --out keeps the trials; --resume goes on with them."""
    parser = argparse.ArgumentParser(prog="python -m entrenous_lab.search")
    parser.add_argument("algorithm")
    parser.add_argument("--data", default="ml-100k")
    parser.add_argument("--protocol")
    parser.add_argument(
        "--search", action="append", required=True, help="name=a..b[:log], name=x,y"
    )
    parser.add_argument("--set", action="append", default=[], help="name=value, of all trials")
    parser.add_argument("--load", action="append", default=[], help="name=value, of the file")
    parser.add_argument("--trials", type=int, default=TRIALS)
    parser.add_argument("--search-seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--every", type=int, default=0)
    parser.add_argument("--workers", type=int)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--resume", action="store_true")
    asked = vars(parser.parse_args(words))
    space = parse_assignments(asked.pop("search"), "--search")
    settings = parse_assignments(asked.pop("set"), "--set")
    load = parse_assignments(asked.pop("load"), "--load")
    found = try_space(SearchRequest(**asked, space=space, settings=settings, load=load))
    print(json.dumps(found["rows"][0], indent=1))


if __name__ == "__main__":
    main()
