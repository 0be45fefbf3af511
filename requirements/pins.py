"""Prints what `make lock` resolves, read from pyproject.toml: the package's own dependencies and its extras; with
``--build`` what builds the wheel."""

from __future__ import annotations

import sys
import tomllib

with open(sys.argv[1], "rb") as file:
    settings = tomllib.load(file)
project = settings["project"]
if "--build" in sys.argv:
    found = settings["build-system"]["requires"]
else:
    found = [*project["dependencies"], *(line for extra in project["optional-dependencies"].values() for line in extra)]
print(*found, sep="\n")
