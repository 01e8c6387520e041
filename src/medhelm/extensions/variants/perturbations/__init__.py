"""The built-in perturbations, by name; the module of a perturbation is imported when it is used."""

from __future__ import annotations

from functools import cache
from importlib import import_module

from medhelm.errors import UserError, suggestion
from medhelm.extensions.variants.types import Perturbation

_MODULES: tuple[str, ...] = ("options", "noise", "abbreviations", "clinical", "units", "demographics")
"""Modules with a tuple `PERTURBATIONS`, in the order of lists."""

GROUPS = {"options_order": tuple(f"options_rotated_{by}" for by in range(1, 5))}
"""Name of a group on the command line -> its perturbations, of which those that apply are used. With the plain run,
`options_order` puts each of up to five options once in each place."""


@cache
def perturbations() -> dict[str, Perturbation]:
    """Return name -> perturbation, in the order of lists."""
    modules = (import_module(f"{__name__}.{module}") for module in _MODULES)
    return {perturbation.name: perturbation for module in modules for perturbation in module.PERTURBATIONS}


def find_perturbation(name: str) -> Perturbation:
    """Return the perturbation with this name. Raises: UserError."""
    known = perturbations()
    if name not in known:
        near = suggestion(name, [*known, *GROUPS])
        raise UserError(
            f"--perturb: `{name}` is not a perturbation. {near} `medhelm variants` lists all. Nothing was sent."
        )
    return known[name]
