"""An algorithm's first rounds, held to its declaration: what devices receive, keep and send."""

from __future__ import annotations

from typing import Any

import numpy as np

from entrenous.core.contract.declared import Contract, bound, followed
from entrenous.core.contract.enforce import check_kept, check_received, check_update
from entrenous.core.contract.update import add_update
from entrenous.core.keys import fold_name, key
from entrenous.data.interactions import Interactions


def within_contract(algorithm: Any, data: Interactions, rounds: int = 3) -> Contract:
    """Runs some rounds and checks each delivery, private state and update. Returns the contract
    that all kept to, whose `most_bytes` no device exceeded."""
    algorithm = algorithm.configured(data.catalogue)
    contract, everybody = bound(algorithm, data.catalogue), np.arange(len(data.users))
    server, devices = (
        algorithm.init_server(data.catalogue, key(1, "server")),
        algorithm.init_devices(everybody, data.catalogue, key(1, "devices")),
    )
    assert type(server) is contract.declaration.holds
    check_kept(contract, devices, len(everybody))
    for number in range(rounds):
        users = algorithm.select(server, data.catalogue, fold_name(key(1, "select"), number))
        download = contract.delivered(algorithm.download(server), users)
        check_received(contract, download, len(users))
        before = type(devices)(*(array[users].copy() for array in devices))
        after, update = algorithm.local(
            followed(algorithm, download),
            before,
            data.histories(users),
            users,
            key(1, "round", number),
        )
        check_update(contract, update, users, after, before)
        for array, new in zip(devices, after, strict=True):
            array[users] = new
        once = sum(array[0].nbytes for array in (*update.dense.values(), *update.shown.values()))
        assert int(np.diff(update.ptr).max()) * contract.row_bytes + once <= contract.most_bytes
        total = contract.empty_total()
        assert total.rows.keys() == update.rows.keys() and total.dense.keys() == update.dense.keys()
        server = algorithm.aggregate(server, add_update(total, update))
    check_received(
        contract, contract.delivered(algorithm.download(server), everybody), len(everybody)
    )
    return contract
