"""Published federated recommenders that the papers of Entrenous do not compare with, one file for
each system, and recipes of published data sets. `ALGORITHMS` in each file maps the public names to
classes and preset settings.
"""

from pathlib import Path

# The entry point `entrenous.recipes`.
RECIPES = Path(__file__).with_name("recipes.toml")
