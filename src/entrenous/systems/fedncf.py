"""FedNCF and FedMF: federated averaging with a private user factor, the baselines that papers on
federated recommendation from implicit feedback compare with.

V. Perifanis, P. S. Efraimidis, "Federated neural collaborative filtering", Knowledge-Based Systems
242, 2022 (arXiv:2106.04405). Each device k of a round takes E local epochs from the server's model
w[I, N]: the item embeddings, and the weights of the network. Its user embedding p_u learns there
and never leaves. The server averages the rest (fedavg.py has both halves of that),

    w <- w + eta_s sum_k (n_k / n) (w_k - w),   eta_s = 1 as printed.

The model is GMF, MLP or NeuMF (kernels/ncf.py), with L = binary cross-entropy:

    fedmf        y_ui = sigma(h . (p_u * q_i) + h_0)
    fedncf-mlp   y_ui = sigma(h . a_L + h_0),   a_0 = [p_u ; q_i]
    fedncf       both together

FedMF is what later papers call the first of these; they cite D. Chai et al. 2021, whose own system
predicts ratings (fedmf_ratings.py) and ranks below a list of popular items.

Names without more have the settings that do best here: more factors, Adam, half of the devices in a
round, and a server that moves items further than their mean (eta_s = 16), since that mean counts
devices which did not touch an item. Names with `-printed` have the protocol that the field prints:
32 factors, 4 negatives, batches of 256, 100 rounds, all devices in each, plain SGD, eta_s = 1;
FedNCF is the MLP 64-32-16-8-1 there. Papers search the rates of these; the rates here were chosen
on the validation rows of MovieLens-100K.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar, Final, final

from ..core.contract.declarations import SentArray
from ..kernels.averaging import HOW_MUCH
from ._federated_ncf import AveragedNCF
from .fedavg import FedAvgRounds


@final
class FedNCF(FedAvgRounds, AveragedNCF):
    """Federated averaging of GMF (FedMF), MLP or NeuMF (FedNCF) from implicit feedback: the user
    factor is private, the rest is averaged.
    """

    sends: ClassVar[tuple[SentArray, ...]] = (
        *AveragedNCF.declared_moves("n_k times the move"),
        HOW_MUCH,
    )


PRINTED: Final[dict[str, Any]] = {
    # The protocol of the field.
    "negatives": 4,
    "batch": 256,
    "rounds": 100,
    "cohort": 0,
    "local_epochs": 1,
    "optimiser": "sgd",
    "reg": 0.0,
    "server_rate_item": 1.0,
    # Chosen on validation rows.
    "learning_rate": 0.5,
    "learning_rate_item": 100.0,
    "learning_rate_network": 0.05,
}

ALGORITHMS = {
    "fedmf": partial(FedNCF, layers=()),
    "fedmf-printed": partial(FedNCF, factors=32, layers=(), **PRINTED),
    "fedncf": FedNCF,
    "fedncf-mlp": partial(FedNCF, factors=0),
    "fedncf-printed": partial(FedNCF, factors=0, layers=(32, 16, 8), **PRINTED),
}
