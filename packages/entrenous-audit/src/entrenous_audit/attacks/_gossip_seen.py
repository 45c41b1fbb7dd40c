"""Common parts of attacks on the messages of peers: item vectors of a model, and how far they have
moved along one direction.
"""

from __future__ import annotations

import numpy as np

from entrenous.core.types import Array, Float64Array
from entrenous.federation.recorder import Seen
from entrenous.kernels.gmf_node import shape_of

from ..transcript import Transcript


def gossiped(transcript: Transcript) -> bool:
    """Checks whether the transcript is of models that peers push to each other."""
    return any(
        (sent["way"], sent["name"]) == ("pushed", "model") for sent in transcript.about["sends"]
    )


def item_vectors(transcript: Transcript, model: Array) -> Float64Array:
    """The item vectors in a model of GMF or PRME-G, float64 [items, numbers], without the output
    layer.
    """
    items = transcript.items
    factors = int(transcript.setting("factors"))
    shape = shape_of(items, factors)
    row = np.asarray(model, np.float64).reshape(-1)
    if len(row) == shape.width:
        # GMF: factor by factor, each row padded to the stride.
        padded = row[: factors * shape.stride].reshape(factors, shape.stride)
        return padded[:, :items].T
    # PRME-G: item by item.
    numbers = len(row) // items
    return row[: numbers * items].reshape(items, -1)


def base_vectors(transcript: Transcript) -> Float64Array:
    """The item vectors that every node begins with, float64 [items, numbers]."""
    return item_vectors(transcript, transcript.rounds[0].received["model"])


def sent_vectors(transcript: Transcript, seen: Seen) -> Float64Array:
    """The item vectors in a message, float64 [items, numbers]."""
    return item_vectors(transcript, seen.sent["model"][0])


def centred_popularity(popularity: Array) -> Float64Array:
    """Square roots of the popularity around their mean, float64 [items]."""
    roots = np.sqrt(popularity.astype(np.float64))
    return roots - roots.mean()


def along(moves: Float64Array, popularity: Array) -> Float64Array:
    """The distance that items have moved along the direction that most moves have in common,
    float64 [items].

    A step moves consumed items along the user vector and drawn ones against it. The end at which
    items are more popular is that of the consumed ones: drawn items are any.
    """
    moved = moves[np.any(moves != 0, axis=1)]
    if not len(moved):
        return np.zeros(len(moves))
    # The first right singular vector; its sign is arbitrary.
    common = np.linalg.svd(moved, full_matrices=False)[2][0]
    way = moves @ common
    towards_popular = float(way @ centred_popularity(popularity))
    if towards_popular >= 0:
        return way
    return -way
