"""Prints what `make lock` resolves: the package's own dependencies and its extras, read from pyproject.toml."""

from __future__ import annotations

import sys
import tomllib

with open(sys.argv[1], "rb") as file:
    project = tomllib.load(file)["project"]
print(
    *project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra), sep="\n"
)
