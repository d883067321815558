"""RFC 6902 for the tests: written from the RFC alone, so that a mistake of the program's own patch code shows."""

from __future__ import annotations

import copy
from typing import Any


def apply(document: Any, patch: list[dict[str, Any]]) -> Any:
    """The patched document; raises LookupError or ValueError where the patch does not fit it."""
    document = copy.deepcopy(document)
    for operation in patch:
        tokens = _tokens(operation["path"])
        if not tokens:
            if operation["op"] != "replace":
                raise ValueError(f"{operation['op']} of the whole document")
            document = copy.deepcopy(operation["value"])
            continue
        parent = document
        for token in tokens[:-1]:
            parent = parent[_index(parent, token)] if isinstance(parent, list) else parent[token]
        _change(parent, tokens[-1], operation)
    return document


def _change(parent: Any, token: str, operation: dict[str, Any]) -> None:
    kind = operation["op"]
    if kind == "add":
        value = copy.deepcopy(operation["value"])
        if isinstance(parent, list):
            parent.insert(len(parent) if token == "-" else _index(parent, token, last=1), value)
        else:
            _object(parent)[token] = value
    elif kind in ("remove", "replace", "test"):
        key = _index(parent, token) if isinstance(parent, list) else token
        found = parent[key] if isinstance(parent, list) else _object(parent)[key]  # must exist
        if kind == "remove":
            del parent[key]
        elif kind == "replace":
            parent[key] = copy.deepcopy(operation["value"])
        elif found != operation["value"]:
            raise ValueError(f"test of {operation['path']} failed")
    else:
        raise ValueError(f"unknown operation {kind}")


def _object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"{type(value).__name__} is no object")
    return value


def _index(array: list[Any], token: str, last: int = 0) -> int:
    if not token.isdecimal() or (len(token) > 1 and token[0] == "0") or int(token) >= len(array) + last:
        raise LookupError(f"no element {token} in an array of {len(array)}")
    return int(token)


def _tokens(pointer: str) -> list[str]:
    if pointer and not pointer.startswith("/"):
        raise ValueError(f"{pointer!r} is no JSON pointer")
    return [token.replace("~1", "/").replace("~0", "~") for token in pointer.split("/")[1:]]
