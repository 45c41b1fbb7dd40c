"""What a sum of so many devices can be, whether one node sent it or it is that of a secure sum."""

from __future__ import annotations

from typing import NoReturn

from ...core.contract.declared import Contract
from ...core.contract.update import LIMIT, STEP, Total
from .codes import Code, FrameRefused

ONE = int(1 / STEP)  # the weight of a device, in steps of the fixed point
MOST = int(LIMIT / STEP)  # one value of one device, in steps of the fixed point


def check_total(total: Total, contract: Contract, m: int) -> None:
    """Raise FrameRefused for a sum that m devices cannot have."""
    if int(total.senders.min(initial=0)) < 0 or int(total.senders.max(initial=0)) > m:
        _refuse(Code.WRONG_COUNT, "an item with fewer than no or more than all senders")
    for name, array in (*total.rows.items(), *total.dense.items()):
        if (
            max(int(array.max(initial=0)), -int(array.min(initial=0))) > m * MOST
        ):  # of the least int64 abs is the least int64
            _refuse(Code.TOO_LARGE, f"'{name}'")
    if int(total.weight.min(initial=0)) < 0 or int(total.weight.max(initial=0)) >= m * MOST:
        _refuse(Code.WRONG_WEIGHT, "a weight below 0, or more than the devices can have")
    if not contract.weighs and int(total.weight.sum()) != m * ONE:
        _refuse(Code.WRONG_WEIGHT, "weights where every device weighs 1")


def check_sent(total: Total) -> None:
    """Raise FrameRefused for a sum with rows that nobody has sent: a member that lies about senders
    would have its rows measured by nobody, and they count where noise hides who sent what."""
    nobody = total.senders == 0
    if any(rows[nobody].any() for rows in total.rows.values()):
        _refuse(Code.WRONG_COUNT, "rows that nobody has sent")


def _refuse(code: Code, text: str) -> NoReturn:
    raise FrameRefused(code, text)
