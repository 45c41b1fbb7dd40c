"""The links of a release, and its README, whose links lead to the repository. All are made of the
one address in pyproject.toml.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

# {label on the page of an index: path below the address}
PATHS = {
    "Homepage": "",
    "Source": "",
    "Issues": "/issues",
    "Changelog": "/blob/main/CHANGELOG.md",
    "Security": "/security/policy",
}
# A link to a file of the repository, and whether it is a picture.
RELATIVE = re.compile(r"(?P<before>!?\[[^\]]*\]\()(?P<path>(?![a-z]+:|#)[^)]+)")


class CustomMetadataHook(MetadataHookInterface):
    """Adds the links and the README to the metadata of a distribution."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Sets `urls` and `readme`. Called by hatchling."""
        address = str(self.config["repository"]).rstrip("/")
        metadata["urls"] = {label: f"{address}{path}" for label, path in PATHS.items()}
        readme = Path(self.root, "README.md").read_text(encoding="utf-8")
        text = absolute(readme, address)
        metadata["readme"] = {"content-type": "text/markdown", "text": text}


def absolute(text: str, address: str) -> str:
    """Returns Markdown whose relative links lead to the repository at an address."""

    def found(link: re.Match[str]) -> str:
        kind = "raw" if link["before"].startswith("!") else "blob"
        return f"{link['before']}{address}/{kind}/main/{link['path']}"

    return RELATIVE.sub(found, text)
