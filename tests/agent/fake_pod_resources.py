"""The kubelet's PodResources: which container has which share."""

from __future__ import annotations

from concurrent import futures
from types import TracebackType
from typing import Any

import grpc
from fake_kubelet import DRIVER, wire
from material import Agent


class PodResources:
    def __init__(self, agent: Agent) -> None:
        self._pods: list[Any] = []
        socket = agent.root / "pod-resources" / "kubelet.sock"
        socket.parent.mkdir()
        self._server = grpc.server(futures.ThreadPoolExecutor(1))
        handler = grpc.unary_unary_rpc_method_handler(
            lambda request, context: wire().ListPodResourcesResponse(pod_resources=self._pods),
            request_deserializer=bytes, response_serializer=wire().ListPodResourcesResponse.SerializeToString)  # fmt: skip
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("v1.PodResourcesLister", {"List": handler}),))
        self._server.add_insecure_port(f"unix:{socket}")
        self._server.start()

    def runs(self, claim: dict[str, Any], container: str) -> None:
        """From now on a container of the claim's pod has the claim's first share."""
        name = claim["metadata"]
        device = wire().CdiDevice(name=f"k8s.{DRIVER}/claim={name['uid']}-0")
        resource = wire().DynamicResource(
            claim_name=name["name"], claim_namespace=name["namespace"],
            claim_resources=[wire().ClaimResource(cdi_devices=[device], driver_name=DRIVER)])  # fmt: skip
        pod = claim["status"]["reservedFor"][0]["name"]
        self._pods.append(wire().PodResources(
            name=pod, namespace=name["namespace"],
            containers=[wire().ContainerResources(name=container, dynamic_resources=[resource])]))  # fmt: skip

    def __enter__(self) -> PodResources:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._server.stop(None).wait()
