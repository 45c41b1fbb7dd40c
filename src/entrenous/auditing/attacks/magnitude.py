"""Rows of decoys are short once their ratings are predictions: the model is nearly right about
ratings that it made up itself.

From `threshold` (FBALF) or `predict_after` (FedRec) passes on, a decoy's rating is the device's own
prediction, so that its error is only what the last visit changed; errors of real ratings stay. Rows
are ranked by the logarithm of their length, without the regularisation. Source: ours; hybrid
filling is G. Lin, F. Liang, W. Pan, Z. Ming, "FedRec", IEEE Intelligent Systems 36(5), 2021. It
claims nothing: it ranks.
"""

from __future__ import annotations

import numpy as np

from ...core.types import Float64Array
from ..claims import Attack, Claims
from ..transcript import Transcript
from ._rating_rows import untouched_denied
from ._rows_seen import RowsSeen, chances, claims_of, empty_tally, odds_of, rounds_of_rows, sends


def applies(transcript: Transcript) -> bool:
    """Checks whether devices send plain rows for ratings and decoys."""
    rows = sends(transcript, "q") or sends(transcript, "v")
    decoys = bool(transcript.settings.get("rho"))
    return rows and decoys and not sends(transcript, "noise")


def run(transcript: Transcript) -> Claims:
    """Ranks the items with rows by the mean length of their rows in the rounds whose decoys have
    predicted ratings.
    """
    tally = empty_tally(transcript)
    chance = chances(transcript)
    settings = transcript.settings
    threshold = int(settings.get("threshold", settings.get("predict_after", 0)))
    predicted = 0
    for rows in rounds_of_rows(transcript):
        untouched_denied(tally, rows, transcript.items)
        if passes(rows) < threshold:
            continue
        predicted += 1
        length = _standard(rows, _log_lengths(rows, transcript))
        for part in rows.each_device():
            item = rows.item[part]
            odds = odds_of(length[part], 1.0, chance[item])
            tally.add(rows.who[part], item, odds)
    note = f"{predicted} rounds in which decoys are rated by prediction"
    return claims_of(transcript, tally, note)


def passes(rows: RowsSeen) -> int:
    """The passes over the users before this round."""
    received = rows.seen.received
    if "iteration" in received:
        return int(received["iteration"][0])
    return int(received["step"][0] // received["epoch"][0])


def _log_lengths(rows: RowsSeen, transcript: Transcript) -> Float64Array:
    """Logarithms of the lengths of rows, less lambda times the item factors where rows hold it."""
    name = "q" if "q" in rows.seen.received else "v"
    table = rows.seen.received[name]
    reg = 0.0
    if table.ndim != 3:
        reg = float(transcript.setting("reg"))
    factors = table.reshape(len(table), -1)
    push = rows.array(name) - reg * factors[rows.item]
    length = np.linalg.norm(push.astype(np.float64), axis=1)
    return np.log(np.maximum(length, 1e-9))  # type: ignore[no-any-return]


def _standard(rows: RowsSeen, length: Float64Array) -> Float64Array:
    """Each device's lengths around their mean, in standard deviations."""
    devices = len(rows.seen.users)
    count = np.maximum(np.bincount(rows.device, minlength=devices), 1)
    mean = np.bincount(rows.device, length, minlength=devices) / count
    away = length - mean[rows.device]
    variance = np.bincount(rows.device, away**2, minlength=devices) / count
    deviation = np.sqrt(np.maximum(variance, 1e-12))
    return away / deviation[rows.device]  # type: ignore[no-any-return]


ATTACK = Attack("magnitude", ("individual",), "ours", applies, run)
