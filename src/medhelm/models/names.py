"""Names of models, as far as they tell which model it is."""

from __future__ import annotations


def plain_name(name: str) -> str:
    """What a model is called without the vendor before its name, the address after it, and without case.

    >>> plain_name("meta-llama/Llama-3.3-70B-Instruct@http://127.0.0.1:8000/v1")
    'llama-3.3-70b-instruct'
    """
    return name.partition("@")[0].rpartition("/")[2].lower()
