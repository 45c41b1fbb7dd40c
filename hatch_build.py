"""The links of a release, all made of the one address in pyproject.toml."""

from __future__ import annotations

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


class CustomMetadataHook(MetadataHookInterface):
    """Adds the links to the metadata of a distribution."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Sets `urls`. Called by hatchling."""
        address = str(self.config["repository"]).rstrip("/")
        metadata["urls"] = {label: f"{address}{path}" for label, path in PATHS.items()}
