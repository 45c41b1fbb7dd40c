"""The versions of Flower that these apps run on."""

from __future__ import annotations

from importlib.metadata import version

from entrenous.core.errors import InputError

LEAST, BELOW = (1, 41), (2, 0)  # (major, minor)
EXPECTED = f"{LEAST[0]}.{LEAST[1]} or later, below {BELOW[0]}"


def check_flower() -> None:
    """Raise InputError for a version of flwr that these apps do not run on, and
    PackageNotFoundError where none is installed.
    """
    if not is_supported(found := version("flwr")):
        raise InputError(
            "flwr", f"version {found}", expected=EXPECTED, fix="pip install entrenous-flower"
        )


def is_supported(found: str) -> bool:
    """Tells whether these apps run on a version.

    >>> [is_supported(found) for found in ("1.40.1", "1.41.0", "1.50.0.dev20270101", "2.0.0",
    ...     "nightly")]
    [False, True, True, False, False]
    """
    major, _, rest = found.partition(".")
    minor = rest.partition(".")[0]
    return major.isdigit() and minor.isdigit() and LEAST <= (int(major), int(minor)) < BELOW
