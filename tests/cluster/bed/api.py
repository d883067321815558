"""A small client of the cluster's API server, for what kubectl is too slow or too polite for."""

from __future__ import annotations

import http.client
import json
import ssl
from typing import Any

from bed.place import API_ADDRESS, API_PORT
from bed.space import PATIENCE, Space


class ApiError(Exception):
    """An answer that is no success."""

    def __init__(self, status: int, body: str) -> None:
        self.status = status
        self.body = body
        try:
            self.message = json.loads(body).get("message", body)
        except (ValueError, AttributeError):
            self.message = body
        super().__init__(f"{status}: {self.message}")


class Api:
    """Calls as the administrator, or as whoever a token belongs to."""

    def __init__(self, space: Space, token: str = "") -> None:
        self.space = space
        self.token = token

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """One call; the answer read as JSON where it is JSON. `ApiError` for what is no success."""
        status, _, text = self.exchange(method, path, body, kind)
        if status >= 300:
            raise ApiError(status, text)
        try:
            return json.loads(text)
        except ValueError:
            return text

    def exchange(
        self, method: str, path: str, body: Any = None, kind: str = "application/json"
    ) -> tuple[int, dict[str, list[str]], str]:
        """One call: status, headers (each with all its values, names in small letters), text."""
        connection = self._connection()
        headers = {"Content-Type": kind, "Accept": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        sent = body if body is None or isinstance(body, (str, bytes)) else json.dumps(body)
        try:
            connection.request(method, path, sent, headers)
            answer = connection.getresponse()
            text = answer.read().decode("utf-8", errors="replace")
            received: dict[str, list[str]] = {}
            for name, value in answer.getheaders():
                received.setdefault(name.lower(), []).append(value)
            return answer.status, received, text
        finally:
            self._release(connection)

    def _connection(self) -> http.client.HTTPConnection:
        connection = http.client.HTTPConnection(API_ADDRESS)
        connection.sock = self._secure(self.space.connect(API_ADDRESS, API_PORT, PATIENCE))
        return connection

    def _release(self, connection: http.client.HTTPConnection) -> None:
        connection.close()

    def _secure(self, plain) -> ssl.SSLSocket:
        keys = self.space.place.keys
        context = ssl.create_default_context(cafile=str(keys / "ca.crt"))
        if not self.token:
            context.load_cert_chain(keys / "client-admin.crt", keys / "client-admin.key")
        return context.wrap_socket(plain, server_hostname=API_ADDRESS)

    def get(self, path: str) -> Any:
        return self.call("GET", path)

    def find(self, path: str) -> Any:
        """The object, or None where there is none."""
        try:
            return self.call("GET", path)
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    def answers(self, path: str) -> bool:
        """Whether the server is there and says yes."""
        try:
            return self.exchange("GET", path)[0] == 200
        except (OSError, http.client.HTTPException):
            return False

    def apply(self, path: str, document: dict) -> Any:
        """Server-side apply of one object, by its full path."""
        return self.call(
            "PATCH", f"{path}?fieldManager=bed&force=true", document, "application/apply-patch+yaml")  # fmt: skip


class KeptApi(Api):
    """The same over one connection that is kept, for one thread that calls often."""

    _kept: http.client.HTTPConnection | None = None

    def _connection(self) -> http.client.HTTPConnection:
        # A connection that broke has no socket any more.
        if self._kept is None or self._kept.sock is None:
            self._kept = super()._connection()
        return self._kept

    def _release(self, connection: http.client.HTTPConnection) -> None:
        pass

    def close(self) -> None:
        if self._kept is not None:
            self._kept.close()
