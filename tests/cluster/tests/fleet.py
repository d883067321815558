"""Cards beside those of the test fleet, on nodes that are played."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager

import yaml
from bench import CLAIMS, Bench
from conftest import FLEET

A_NODE = 8  # cards


@contextmanager
def more_cards(bench: Bench, product: str, nodes: int) -> Iterator[None]:
    """So many nodes with eight equal cards of a product of their own, `card-0` to `card-7` on each."""
    (first, *_) = yaml.safe_load(FLEET.read_text(encoding="utf-8"))["items"]
    names = [f"{product.lower()}-{number}" for number in range(nodes)]
    for node in names:
        bench.cluster.add_fake_node(node)
        bench.api.apply(f"{CLAIMS}/resourceslices/{node}", slice_of(first, node, product))
    try:
        yield
    finally:
        for node in names:
            for path in (f"{CLAIMS}/resourceslices/{node}", f"/api/v1/nodes/{node}"):
                bench.api.call("DELETE", path)


def slice_of(model: dict, node: str, product: str) -> dict:
    """A slice like the model, of another node and with eight cards like its first."""
    made = copy.deepcopy(model)
    made["metadata"]["name"] = node
    made["spec"] |= {"nodeName": node, "pool": model["spec"]["pool"] | {"name": node}}
    made["spec"]["devices"] = [copy.deepcopy(model["spec"]["devices"][0]) for _ in range(A_NODE)]
    for number, card in enumerate(made["spec"]["devices"]):
        card["name"] = f"card-{number}"
        card["attributes"]["uuid"] = {"string": f"GPU-{node}-{number}"}
        card["attributes"]["productName"] = {"string": f"NVIDIA {product}"}
    return made
