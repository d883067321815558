"""The certificate that the webhook shows and the authority that the API server trusts: wrong, over, and replaced."""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import pytest
from bed import keys
from bed.api import ApiError
from bed.drawbridge import NAMESPACE, SERVICE
from bed.space import wait_for
from bench import Bench, Names, container, own_entries, pod
from test_check import check

OURS = pod("p", container(gpu="1", gpumem="1000"))
NAME = f"{SERVICE}.{NAMESPACE}.svc"


def present(bench: Bench, certificate: Path, key: Path) -> None:
    """Writes what the webhook shows into its Secret, and lets the kubelet bring it to the pods."""
    data = {"data": {"tls.crt": keys.encoded(certificate), "tls.key": keys.encoded(key)}}
    path = f"/api/v1/namespaces/{NAMESPACE}/secrets/{SERVICE}-tls"
    bench.api.call("PATCH", path, data, "application/merge-patch+json")
    # It looks every minute or so, and at once at a pod that has changed.
    version = bench.api.get(path)["metadata"]["resourceVersion"]
    touched = {"metadata": {"annotations": {"drawbridge.test/secret": version}}}
    for each in bench.installation.pods():
        path = f"/api/v1/namespaces/{NAMESPACE}/pods/{each['metadata']['name']}"
        bench.api.call("PATCH", path, touched, "application/merge-patch+json")


def restart(bench: Bench) -> None:
    """Other pods of the webhook, which show what there is, good or not."""
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods?labelSelector=app.kubernetes.io/component%3Dwebhook"
    before = {each["metadata"]["uid"] for each in bench.installation.pods()}
    bench.api.call("DELETE", pods)

    def renewed() -> bool:
        found = bench.installation.pods()
        fresh = [each for each in found if each["metadata"]["uid"] not in before]
        return len(fresh) == len(found) == len(before) and all(
            each["status"].get("phase") == "Running" for each in fresh)  # fmt: skip

    wait_for(renewed, "a new webhook")


def shows(bench: Bench, authority: keys.Authority) -> bool:
    """Whether the webhook shows a certificate of this authority that is good for its name."""
    service = bench.api.get(f"/api/v1/namespaces/{NAMESPACE}/services/{SERVICE}")["spec"]["clusterIP"]
    context = ssl.create_default_context(cafile=str(authority.file))
    with contextlib.suppress(OSError), bench.cluster.space.connect(service, 443) as plain:
        context.wrap_socket(plain, server_hostname=NAME).close()
        return True
    return False


@pytest.fixture
def trusted(bench: Bench) -> Iterator[None]:
    """Whatever the webhook showed, behind the test it shows what is trusted."""
    yield
    bench.installation.direct()
    if not shows(bench, bench.installation.authority()):
        present(bench, *bench.installation.certificate())
        restart(bench)
    bench.installation.wait_until_serving()


def refusal(names: Names) -> str | None:
    try:
        names.create(OURS, dry_run=True)
    except ApiError as error:
        return error.message
    return None


def test_an_expired_certificate_refuses_our_pods_until_it_is_renewed(
    bench: Bench, names: Names, trusted: None
) -> None:
    present(bench, *bench.installation.certificate("webhook-expired", timedelta(minutes=-5)))
    restart(bench)
    assert "failed calling webhook" in wait_for(lambda: refusal(names), "a refusal")
    names.create(pod("other"))
    assert check(bench.cluster)[1]["webhook"][0] == "bad"
    present(bench, *bench.installation.certificate())
    restart(bench)
    bench.installation.wait_until_serving()
    names.create(OURS)


def test_a_certificate_for_another_name_refuses_our_pods_and_is_told_by_check(
    bench: Bench, names: Names, trusted: None
) -> None:
    wrong = keys.Identity("elsewhere", addresses=(f"elsewhere.{NAMESPACE}.svc",))
    present(bench, *bench.installation.authority().issue("webhook-elsewhere", wrong))
    restart(bench)
    told = f"certificate is valid for elsewhere.{NAMESPACE}.svc, not {NAME}"
    assert told in wait_for(lambda: (said := refusal(names)) and "x509" in said and said, "a refusal for the name")
    names.create(pod("other"))
    status, found = check(bench.cluster)
    assert status == 2
    assert found["webhook"][0] == "bad" and told in found["webhook"][1]


class Stream:
    """Pods of ours, one after the other without an end, as dry runs; what became of each."""

    def __init__(self, names: Names) -> None:
        self.answered = 0
        self.failed: list[str] = []
        self._names = names
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                made = self._names.create(OURS, dry_run=True)
                if not own_entries(made):
                    self.failed.append("taken as it was")
            except (ApiError, OSError) as error:
                self.failed.append(str(error))
            self.answered += 1

    def more(self, count: int = 10) -> None:
        """Waits until so many more were answered."""
        wanted = self.answered + count
        wait_for(lambda: self.answered >= wanted, "more pods to be answered")

    @contextmanager
    def running(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            self._ended.set()
            self._thread.join()


def test_an_authority_is_replaced_without_a_failed_call(bench: Bench, names: Names, trusted: None) -> None:
    """First both are trusted, then the webhook shows a certificate of the new one, then the old one is forgotten."""
    installation = bench.installation
    old, new = installation.authority(), keys.Authority(bench.cluster.place.keys, f"webhook-ca-{names.name}")
    identity = keys.Identity(NAME, addresses=(NAME,))

    def trust(*authorities: keys.Authority) -> None:
        installation.trust(*(authority.file for authority in authorities))
        bench.configurations_known(names.name)
        stream.more()

    stream = Stream(names)
    with stream.running():
        trust(old, new)
        assert not shows(bench, new)
        present(bench, *new.issue(f"webhook-{names.name}", identity))
        wait_for(lambda: shows(bench, new) and not shows(bench, old), "the webhook to show its new certificate")
        # The connection of before needs no trust any more; another list, though of the same, makes a new one.
        trust(new, old)
        trust(new)
    assert not stream.failed
