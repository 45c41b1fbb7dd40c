"""Lists of items, as graph recommenders publish their splits."""

from __future__ import annotations

from pathlib import Path

from read_files import pairs, put, refused, said

from entrenous.data.load import load


def test_lists_of_items(tmp_path: Path) -> None:
    """Case 14: LightGCN-PyTorch#9, NGCF-PyTorch#10."""
    path = put(tmp_path, "train.txt", "0 5 6 7 9\n1 5 8\n2\n3 6 8 9 10\n")
    data = load(path)
    assert len(data) == 10 and said(
        data, "users without items, who are left out: 1; the first is at"
    )
    assert load(put(tmp_path, "even.txt", "0 5 6 7\n1 5 8 9\n2 6 8 10\n"), format="item-lists")
    counted = put(tmp_path, "users.dat", "2 5 6\n3 5 7 8\n1 9\n")
    assert "format=counted-item-lists" in refused(counted)
    assert pairs(load(counted, format="counted-item-lists"))[-1] == ("2", "9")
    assert pairs(load(counted, format="item-lists"))[-1] == ("3", "8")
    broken = put(tmp_path, "b.dat", "2 5 6\n3 5 7\n")
    assert "b.dat:2: the line begins with 3" in refused(broken, format="counted-item-lists")
