"""A cluster's namespaces from outside: starting them, asking the first process, entering them."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import struct
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bed import residue
from bed.place import Place

INIT = Path(__file__).resolve().parent / "init.py"
LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000
# Longer than anything takes that works, on a machine with far too much to do; shorter where it is known to fail.
PATIENCE = float(os.environ.get("CLUSTER_PATIENCE", "180"))


class NotUp(Exception):
    """There is no such cluster, or its first process is gone."""


class Failed(Exception):
    """Something about a cluster did not work; the text is for people."""


class Space:
    """The namespaces of a cluster and the daemons in them."""

    def __init__(self, place: Place) -> None:
        self.place = place

    def ask(self, do: str, **request: Any) -> Any:
        """One request to the cluster's first process; `NotUp` where there is none."""
        with self._connect() as connection, connection.makefile("rw", encoding="utf-8") as stream:
            try:
                print(json.dumps({"do": do, **request}), file=stream, flush=True)
                line = stream.readline()
            except OSError:
                line = ""
        if not line:
            raise NotUp(f"the first process of cluster {self.place.name} ended while it was asked")
        answer = json.loads(line)
        if "error" in answer:
            raise Failed(f"{do} {request.get('name', '')}: {answer['error']}")
        return answer["value"]

    def _connect(self) -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(self.place.socket)
        except OSError:
            connection.close()
            raise NotUp(f"cluster {self.place.name} is not up") from None
        return connection

    def is_up(self) -> bool:
        with contextlib.suppress(NotUp), self._connect():
            return True
        return False

    def pid(self) -> int:
        """The first process, as this process counts them."""
        with self._connect() as connection:
            size = struct.calcsize("3i")
            credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
        return struct.unpack("3i", credentials)[0]

    # ------------------------------------------------------------------------------------------ life

    def begin(self) -> int:
        """Starts the namespaces. The cluster ends when the descriptor that is returned is closed before `keep`."""
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(self.place.socket)
        read_end, write_end = os.pipe()
        # --kill-child: a kill of this helper is a kill of the first process.
        child = subprocess.Popen(
            ["unshare", "--pid", "--fork", "--kill-child", "--net", "--mount", "--propagation", "private", "--mount-proc",
             "/usr/bin/python3", "-B", str(INIT), self.place.name, str(listener.fileno()), str(read_end)],
            pass_fds=(listener.fileno(), read_end), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE, cwd="/", start_new_session=True)  # fmt: skip
        listener.close()
        os.close(read_end)
        wait_for(lambda: self.is_up() or child.poll() is not None, "the namespaces")
        if child.poll() is not None:
            raise Failed(f"the namespaces could not be made:\n{child.stderr.read().decode(errors='replace')}")
        child.stderr.close()
        return write_end

    def keep(self) -> None:
        """From now on the cluster stays when whoever started it goes."""
        self.ask("keep")

    def end(self) -> None:
        """Ends every process of the cluster and takes away what it leaves, whatever state it is in."""
        with contextlib.suppress(NotUp, ProcessLookupError):
            gone = os.pidfd_open(self.pid())
            self.ask("end")
            os.close(gone)
        wait_for(lambda: not self.is_up(), "the first process to end")
        residue.clear(self.place)

    # ------------------------------------------------------------------------------------------ daemons

    def start(self, name: str, command: list[str], environment: dict[str, str]) -> None:
        """Starts a daemon, unless it runs already."""
        self.ask("start", name=name, command=command, environment=environment)

    def signal(self, name: str, number: int) -> bool:
        """Sends a signal to a daemon; false where it does not run."""
        return self.ask("signal", name=name, signal=int(number))

    def stop(self, name: str, seconds: float = 10.0) -> None:
        """Ends a daemon: asked first, killed after `seconds`."""
        if self.signal(name, signal.SIGTERM) and self.ask("wait", name=name, seconds=seconds) is None:
            self.kill(name)

    def kill(self, name: str) -> None:
        """Ends a daemon by kill -9, and waits until it is gone."""
        if self.signal(name, signal.SIGKILL):
            self.ask("wait", name=name, seconds=PATIENCE)

    def daemons(self) -> dict[str, str]:
        """Every daemon that was started, and what it does now."""
        return self.ask("list")

    def log(self, name: str, lines: int = 0) -> str:
        """What a daemon has said, or the last `lines` of it."""
        file = self.place.logs / f"{name}.log"
        text = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
        return "\n".join(text.splitlines()[-lines:]) if lines else text

    # ------------------------------------------------------------------------------------------ entering

    def entering(self, *, mounts: bool = False, tied: bool = False) -> list[str]:
        """What to put before a command to run it in the cluster's network, with `mounts` among its processes. `tied`: who is
        on the way in is killed with the thread that sent him, lest he come when the cluster has been taken away."""
        # Not `ip netns exec`: that mounts a /sys of its own, without control groups.
        choice = ["--net", "--mount", "--pid"] if mounts else ["--net"]
        rope = ["setpriv", "--pdeathsig", "KILL", "--"] if tied else []
        return [*rope, "nsenter", "--target", str(self.pid()), *choice, "--"]

    def connect(self, host: str, port: int, seconds: float = 10.0) -> socket.socket:
        """A TCP connection made inside the cluster's network."""
        made = self._socket_inside()
        made.settimeout(seconds)
        try:
            made.connect((host, port))
        except OSError:
            made.close()
            raise
        return made

    def listen(self, host: str) -> socket.socket:
        """A listening TCP socket inside the cluster's network, on a port that is free."""
        made = self._socket_inside()
        made.bind((host, 0))
        made.listen(64)
        return made

    def _socket_inside(self) -> socket.socket:
        """A socket belongs to the network in which it is made, whoever uses it; made in a thread of its own."""
        result: list[socket.socket | OSError] = []

        def make() -> None:
            try:
                with open(f"/proc/{self.pid()}/ns/net", encoding="utf-8") as network:
                    if LIBC.setns(network.fileno(), CLONE_NEWNET) != 0:
                        raise OSError(ctypes.get_errno(), "setns")
                result.append(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            except OSError as error:
                result.append(error)

        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        if not result or isinstance(result[0], OSError):
            raise NotUp(f"the network of cluster {self.place.name} cannot be entered")
        return result[0]


def wait_for(condition, what: str | Callable[[], str], seconds: float = PATIENCE, between: float = 0.05) -> Any:
    """Asks until the answer is true, and returns it; `Failed` when that takes longer than only a fault would. Where `what`
    is called for its text, that is what there is to say at the end."""
    limit = time.monotonic() + seconds
    while True:
        answer = condition()
        if answer:
            return answer
        if time.monotonic() > limit:
            raise Failed(f"waited {seconds:.0f} s for {what() if callable(what) else what}")
        time.sleep(between)


@contextlib.contextmanager
def changing(place: Place, seconds: float = 0.0) -> Iterator[None]:
    """Lets one process at a time change a cluster, waiting for another; the lock is gone when its holder is."""
    lock = socket.socket(socket.AF_UNIX)

    def taken() -> bool:
        try:
            lock.bind(place.lock)
        except OSError:
            return False
        return True

    if not taken():
        try:
            wait_for(taken, "the lock", seconds)
        except Failed:
            text = f"another `cluster up` or `cluster down` of {place.name} is at work"
            raise Failed(text) from None
    with lock:
        yield
