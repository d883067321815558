"""Drawbridge in the cluster, installed as its users install it: the image, manifests/base, a certificate."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import subprocess
from datetime import timedelta
from pathlib import Path

from bed import images, keys
from bed.cluster import Cluster
from bed.hooks import Recorder
from bed.node import Node
from bed.space import Failed, wait_for

ROOT = Path(__file__).resolve().parent.parent.parent.parent
NAMESPACE = "drawbridge-system"
SERVICE = "drawbridge-webhook"
IMAGE = "drawbridge.test/webhook"
CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/zz-drawbridge"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{SERVICE}"
# Fake nodes run nothing; the webhook must really run.
REAL_NODES = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
    {"matchExpressions": [{"key": "drawbridge.test/fake", "operator": "DoesNotExist"}]}]}}}  # fmt: skip


def program() -> Path:
    """The program that is installed: DRAWBRIDGE, or the release build of this tree."""
    return Path(os.environ.get("DRAWBRIDGE") or ROOT / "build" / "release" / "bin" / "drawbridge")


class Installation:
    """The webhook of one cluster."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.folder = cluster.place.root / "drawbridge"

    def install(self, binary: Path | None = None, replicas: int = 1) -> None:
        """Builds the image from a program, brings it to the nodes, applies the manifests, waits until it serves."""
        tag = self.load_image(binary or program())
        self.write_overlay(tag, replicas)
        done = self.cluster.kubectl("apply", "--server-side", "--force-conflicts", "-k", str(self.folder))
        if done.returncode != 0:
            raise Failed(f"the manifests were not accepted:\n{done.stderr}")
        self.wait_until_serving()

    def load_image(self, binary: Path) -> str:
        """The tag of the image that holds this program: its content's, so that another build is another image."""
        if not binary.exists():
            raise Failed(f"{binary} is missing; build it first (cmake --build --preset release)")
        tag = hashlib.sha256(binary.read_bytes()).hexdigest()[:12]
        self.folder.mkdir(exist_ok=True)
        archive = self.folder / f"webhook-{tag}.tar"
        if not archive.exists():
            # Among the cluster's processes and files, so that it ends and goes with them.
            done = subprocess.run(
                [*self.cluster.space.entering(mounts=True, tied=True), ROOT / "manifests" / "image" / "build", binary, archive,
                 f"{IMAGE}:{tag}"],
                env=os.environ | {"TMPDIR": str(self.cluster.place.temporary)}, capture_output=True, text=True)  # fmt: skip
            if done.returncode != 0:
                raise Failed(f"the image did not build:\n{done.stdout}{done.stderr}")
        release = self.cluster.release()
        for number in range(1, self.cluster.wish().nodes + 1):
            node = Node(self.cluster.place, number)
            loaded = node.root / f"webhook-{tag}-loaded"
            if not loaded.exists():
                images.load(self.cluster.space, node, release, archive)
                loaded.touch()
        return tag

    def authority(self) -> keys.Authority:
        return keys.Authority(self.cluster.place.keys, "webhook-ca")

    def certificate(self, file: str = "webhook", lifetime: timedelta = keys.A_WHILE) -> tuple[Path, Path]:
        """A certificate for the Service's names, and its key."""
        names = (f"{SERVICE}.{NAMESPACE}.svc", f"{SERVICE}.{NAMESPACE}.svc.cluster.local")
        return self.authority().issue(file, keys.Identity(names[0], addresses=names, lifetime=lifetime))

    def write_overlay(self, tag: str, replicas: int) -> None:
        """What an installer adds to manifests/base: image, certificate, authority, and where it may run."""
        certificate, key = self.certificate()
        (self.folder / "tls.crt").write_bytes(certificate.read_bytes())
        (self.folder / "tls.key").write_bytes(key.read_bytes())
        bundle = keys.encoded(self.authority().file)
        # The machine's processors are for the pods of tests, some of which ask for all that a small machine has.
        affinity = [{"op": "add", "path": "/spec/template/spec/affinity", "value": REAL_NODES},
                    {"op": "remove", "path": "/spec/template/spec/containers/0/resources/requests/cpu"},
                    {"op": "replace", "path": "/spec/replicas", "value": replicas}]  # fmt: skip
        trust = [{"op": "add", "path": "/webhooks/0/clientConfig/caBundle", "value": bundle}]
        base = os.path.relpath(ROOT / "manifests" / "base", self.folder)
        overlay = {
            "apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization", "resources": [base],
            "images": [{"name": "drawbridge/webhook", "newName": IMAGE, "newTag": tag}],
            "secretGenerator": [{"name": f"{SERVICE}-tls", "namespace": NAMESPACE, "type": "kubernetes.io/tls",
                                 "files": ["tls.crt", "tls.key"]}],
            "generatorOptions": {"disableNameSuffixHash": True},
            "patches": [{"target": {"kind": "Deployment"}, "patch": json.dumps(affinity)},
                        {"target": {"kind": "MutatingWebhookConfiguration"}, "patch": json.dumps(trust)}]}  # fmt: skip
        (self.folder / "kustomization.yaml").write_text(json.dumps(overlay, indent=1), encoding="utf-8")

    def wait_until_serving(self) -> None:
        """Until every pod of the newest roll-out is ready and a review comes back through the Service."""
        wait_for(self.rolled_out, "the webhook's pods to be ready")
        wait_for(self.answers, "the webhook to answer through its Service")

    def rolled_out(self) -> bool:
        found = self.cluster.api.get(DEPLOYMENT)
        status, replicas = found.get("status", {}), found["spec"]["replicas"]
        current = status.get("observedGeneration") == found["metadata"]["generation"]
        counts = [status.get(name, 0) for name in ("replicas", "updatedReplicas", "availableReplicas")]
        return current and counts == [replicas] * 3

    def answers(self) -> bool:
        """A dry run reaches the webhook, and comes back changed or denied rather than failed."""
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"generateName": "asking-", "namespace": "default"},
            "spec": {"containers": [{"name": "a", "image": "a", "resources": {"limits": {"nvidia.com/gpu": "0"}}}]},
        }
        path = "/api/v1/namespaces/default/pods?dryRun=All"
        status, _, text = self.cluster.api.exchange("POST", path, pod)
        return status == 201 and "nvidia.com/gpu" not in json.loads(text)["spec"]["containers"][0]["resources"]

    def pods(self) -> list[dict]:
        listed = self.cluster.api.get(
            f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io/component%3Dwebhook"
        )
        return listed["items"]

    def logs(self) -> str:
        """What the webhook's pods have said."""
        path = f"/api/v1/namespaces/{NAMESPACE}/pods"
        return "".join(self.cluster.api.get(f"{path}/{pod['metadata']['name']}/log") for pod in self.pods())

    def record(self) -> Recorder:
        """From now on reviews go by way of a recorder, until `direct`; they are in the cluster's reviews.jsonl too."""
        service = self.cluster.api.get(f"/api/v1/namespaces/{NAMESPACE}/services/{SERVICE}")
        recorder = Recorder(
            self.cluster.space,
            service["spec"]["clusterIP"],
            443,
            f"{SERVICE}.{NAMESPACE}.svc",
            str(self.authority().file),
            self.cluster.place.root / "reviews.jsonl",
        )
        self.set_client(recorder.client)
        return recorder

    def direct(self) -> None:
        """Reviews go through the Service, as installed."""
        self.trust(self.authority().file)

    def trust(self, *authorities: Path) -> None:
        """Reviews go through the Service, which must show a certificate of one of these."""
        bundle = base64.b64encode(b"".join(file.read_bytes() for file in authorities)).decode()
        target = {"name": SERVICE, "namespace": NAMESPACE, "path": "/mutate", "port": 443}
        self.set_client({"service": target, "caBundle": bundle})

    def set_client(self, client: dict) -> None:
        operations = [{"op": "replace", "path": "/webhooks/0/clientConfig", "value": client}]
        self.cluster.api.call("PATCH", CONFIGURATION, operations, "application/json-patch+json")
