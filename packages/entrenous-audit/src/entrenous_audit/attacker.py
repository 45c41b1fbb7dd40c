"""The process in which attacks run, begun by
`python -I -m entrenous_audit.attacker TRANSCRIPT FOLDER [NAME ...]`.

It is given the transcript and nothing else: it begins with an empty environment, and `guard`
refuses it every other file, the network and other processes. It writes the claims of every attack
that applies to FOLDER, and one line of JSON on stdout for each.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from .guard import guard


def main(arguments: Sequence[str]) -> None:
    """Runs attacks on a transcript. arguments: its file, the folder for the claims, and the names
    of attacks (none = all).
    """
    file = Path(arguments[0])
    folder = Path(arguments[1])
    names = arguments[2:]
    # Before anything else is loaded, since imports may begin threads.
    guard([file], [folder])
    from .claims import write_claims
    from .known import applying
    from .transcript import read_transcript

    transcript = read_transcript(file)
    attacks = [attack for attack in applying(transcript) if not names or attack.name in names]
    _tell({"attacks": [attack.name for attack in attacks]})
    for attack in attacks:
        failed = ""
        try:
            write_claims(folder / attack.name, attack.run(transcript))
        except Exception as fault:  # the others go on, and the audit says that this one failed
            failed = f"{type(fault).__name__}: {fault}"
        _tell({"attack": attack.name, "failed": failed})


def _tell(line: dict[str, object]) -> None:
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
