"""Sparse matrices to a table: NPZ files of SciPy, and HDF5 files, which take the package h5py.

The rows of the matrix are users and its columns items, or, by `format=sparse-items`, the other way
round. Ids are the numbers of rows and columns.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ...core.errors import InputError
from ...core.types import Array, Int64Array
from ..files import LIMIT, Format, RawFile
from ..options import LoadOptions
from ..table import ColumnTable, NoRows

EXPECTED = "a sparse matrix by rows (CSR), by columns (CSC) or by entries (COO)"
HDF5 = b"\x89HDF"
# The arrays of a compressed matrix in HDF5, by rows; MATLAB has them by columns, as ir and jc.
BY_ROWS = ("data", "indices", "indptr")
BY_COLUMNS = ("data", "ir", "jc")


class Entries(NamedTuple):
    """The entries of a sparse matrix."""

    row: Int64Array
    """The row of each entry, int64 [n]."""
    column: Int64Array
    """The column of each entry, int64 [n]."""
    value: Array
    """The value of each entry, [n]."""


def recognises(head: bytes, name: str) -> bool:
    """Returns True for files that are named .npz, and for HDF5."""
    return name.endswith(".npz") or name.endswith((".h5", ".hdf5", ".hdf"))


def read(file: RawFile, options: LoadOptions) -> ColumnTable:
    """Returns one row for each entry of a matrix of users by items. Raises InputError for a file
    without one whole sparse matrix.
    """
    return _table(file, "user_id", "item_id", "sparse-items reads the rows as items")


def read_by_items(file: RawFile, options: LoadOptions) -> ColumnTable:
    """Returns one row for each entry of a matrix of items by users, as `read` does."""
    return _table(file, "item_id", "user_id", "sparse-matrix reads the rows as users")


def _table(file: RawFile, of_rows: str, of_columns: str, other: str) -> ColumnTable:
    import polars as pl

    arrays = _hdf5(file) if file.content.startswith(HDF5) else _npz(file)
    try:
        entries = _entries(arrays)
    except (KeyError, ValueError, TypeError, IndexError, OverflowError) as wrong:
        _refuse(file, f"it holds no sparse matrix that can be read ({wrong})")
    if not len(entries.row):
        raise NoRows(file.source, "there are no entries", expected="at least one")
    # Which side has the users is told by the format, since nothing in the file tells it.
    columns = {of_rows: entries.row, of_columns: entries.column, "rating": entries.value}
    # Whoever is asked for the user comes first.
    frame = pl.DataFrame({name: columns[name] for name in ("user_id", "item_id", "rating")})
    what = {"user_id": "users", "item_id": "items"}
    note = f"the rows of the matrix are {what[of_rows]} (format={other})"
    return ColumnTable(frame=frame, source=file.source, notes=(note,))


def _npz(file: RawFile) -> Mapping[str, Array]:
    """Returns the arrays of an NPZ file by name; nothing in it is executed."""
    try:
        with zipfile.ZipFile(io.BytesIO(file.content)) as archive:
            # The size that the archive claims, before anything is unpacked.
            size = sum(member.file_size for member in archive.infolist())
        if size > LIMIT:
            raise ValueError(f"it unpacks to {size:,} bytes")
        with np.load(io.BytesIO(file.content), allow_pickle=False) as arrays:
            return {name: arrays[name] for name in arrays.files}
    # zipfile, zlib and NumPy raise a dozen kinds for damaged files.
    except Exception as wrong:
        _refuse(file, f"the NPZ file cannot be read ({wrong})")


def _hdf5(file: RawFile) -> Mapping[str, Array]:
    """Returns the arrays of the only compressed matrix in an HDF5 file by name."""
    try:
        import h5py
    except ImportError:
        raise InputError(
            file.source,
            "h5py is not installed, and files of HDF5 are read with it",
            expected="the package h5py",
            fix="pip install h5py, or write the matrix with scipy.sparse.save_npz",
        ) from None
    try:
        with h5py.File(io.BytesIO(file.content), "r") as content:
            found = list(_matrices(content, h5py.Group))
            if len(found) != 1:
                raise ValueError(f"there are {len(found)} sparse matrices in it")
            # Other parts of the group are not read, however large they are.
            parts = {name: part for name, part in found[0].items() if name in _PARTS}
            size = sum(part.nbytes for part in parts.values())
            if size > LIMIT:
                raise ValueError(f"it unpacks to {size:,} bytes")
            return {name: np.asarray(part) for name, part in parts.items()}
    # HDF5 raises a dozen kinds for damaged files.
    except Exception as wrong:
        _refuse(file, f"the HDF5 file cannot be read ({wrong})")


def _refuse(file: RawFile, problem: str) -> NoReturn:
    raise InputError(
        file.source,
        problem[:200],
        expected=EXPECTED,
        fix="get it again, or write it with scipy.sparse.save_npz",
    ) from None


_PARTS = {*BY_ROWS, *BY_COLUMNS}


def _matrices(group: Any, kind: type) -> Iterator[Any]:
    """Yields the groups at or directly below a group that hold the arrays of a matrix."""
    for place in (group, *(part for part in group.values() if isinstance(part, kind))):
        if set(BY_ROWS) <= set(place) or set(BY_COLUMNS) <= set(place):
            yield place


def _entries(arrays: Mapping[str, Array]) -> Entries:
    """Returns the entries of a matrix. Raises ValueError for arrays that do not fit together."""
    # Arrays of strangers: each is checked before it is used as a place.
    layout = _layout_of(arrays)
    if layout not in _READERS:
        raise ValueError(f"its form is '{layout}'")
    entries = _READERS[layout](arrays)
    value = entries.value
    if value.dtype.kind not in "biuf":
        raise ValueError(f"its values are {value.dtype}")
    # Row, column and value of the same entries.
    sizes = {part.shape for part in entries}
    if len(sizes) != 1 or value.ndim != 1:
        raise ValueError("its arrays differ in length")
    limit = _shape_of(arrays)
    for part, size in zip(entries[:2], limit, strict=True):
        if len(part) and (part.min() < 0 or part.max() >= size):
            raise ValueError("an index is outside the matrix")
    return entries._replace(value=value.astype(np.float64))


def _layout_of(arrays: Mapping[str, Array]) -> str:
    """Returns csr, csc, coo or what else SciPy names."""
    # SciPy writes the layout as text; AnnData and MATLAB do not.
    if "format" in arrays:
        return bytes(arrays["format"].item()).decode("ascii", "replace")
    if set(BY_COLUMNS) <= arrays.keys():
        return "matlab"
    return "csr" if set(BY_ROWS) <= arrays.keys() else "none"


def _shape_of(arrays: Mapping[str, Array]) -> tuple[int, int]:
    """Returns the declared size of the matrix; the largest that a number can have without one."""
    if "shape" not in arrays:
        return 1 << 31, 1 << 31
    rows, columns = arrays["shape"].tolist()
    return int(rows), int(columns)


def _compressed(arrays: Mapping[str, Array], names: tuple[str, str, str]) -> Entries:
    value, index, ptr = (arrays[name] for name in names)
    # Row r has the entries starts[r] to starts[r + 1].
    starts = _whole(ptr)
    counts = np.diff(starts)
    if not len(starts) or starts[0] != 0 or (counts < 0).any() or starts[-1] != len(value):
        raise ValueError("the starts of its rows do not ascend to the number of entries")
    return Entries(np.repeat(np.arange(len(counts)), counts), _whole(index), value)


def _turned(entries: Entries) -> Entries:
    return Entries(entries.column, entries.row, entries.value)


def _whole(array: Array) -> Int64Array:
    # A fraction would be cut off without a word.
    if array.dtype.kind not in "iu" or array.ndim != 1:
        raise ValueError("its indices are no whole numbers")
    return array.astype(np.int64)


_READERS: dict[str, Callable[[Mapping[str, Array]], Entries]] = {
    "csr": lambda arrays: _compressed(arrays, BY_ROWS),
    "csc": lambda arrays: _turned(_compressed(arrays, BY_ROWS)),
    "coo": lambda arrays: Entries(_whole(arrays["row"]), _whole(arrays["col"]), arrays["data"]),
    "matlab": lambda arrays: _turned(_compressed(arrays, BY_COLUMNS)),
}
FORMATS = {
    "sparse-matrix": Format(
        "a sparse matrix, users by items: NPZ of SciPy (.npz), or HDF5 (.h5) with the package h5py",
        recognises,
        read,
    ),
    # Recognised by no content: nothing tells users from items.
    "sparse-items": Format(
        "the same, items by users, as implicit publishes its data",
        lambda head, name: False,
        read_by_items,
    ),
}
