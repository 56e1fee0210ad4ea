"""Requests to the gate on loopback: what a client would see, as statuses."""

from __future__ import annotations

import http.client
import re
import socket
import ssl
import time
from collections.abc import Mapping

from appliance.errors import ApplianceError
from appliance.glance import look
from appliance.names import as_address
from appliance.paths import Paths
from appliance.settings import Settings

LOOPBACK = "127.0.0.1"
PATIENCE = 5.0  # seconds until nginx's workers must accept
ANSWER_TIMEOUT = 3.0  # seconds; a refusal comes at once
CLOSED = 0  # the status of a connection that was closed unanswered
PENDING = -1  # let through: the model has not answered yet
_NO_CHECK_TIME = 0x200000  # X509_V_FLAG_NO_CHECK_TIME, which ssl has no name for
_STRICT = ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN | ssl.VerifyFlags(_NO_CHECK_TIME)
_PEM = re.compile("-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)


def wait_until_listening(port: int) -> None:
    """Return when nginx accepts connections."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            socket.create_connection((LOOPBACK, port), timeout=1).close()
        except OSError as error:
            if time.monotonic() > deadline:
                raise ApplianceError(
                    f"Nothing accepts connections on port {port}.", "See `journalctl -u nginx`."
                ) from error
            time.sleep(0.02)
        else:
            return


class Asker:
    """A client of the gate that knows the certificate on the disk.

    A certificate of ours must convince a strict client, but for its dates: it is renewed in time
    or as soon as a wrong clock is put right, and is no reason to stop nginx meanwhile. The
    operator's is only compared: whether it fits the name, is in date or has its chain is the
    operator's business.
    """

    def __init__(self, settings: Settings, paths: Paths) -> None:
        self._ports = settings.ports
        self._host = settings.hostname
        self._name = self._host.strip("[]") if as_address(self._host) else self._host
        self._certificate = _first_certificate(paths)
        seen = look(paths.certificate)
        self._context = ssl.create_default_context(cadata=self._certificate)
        if seen and seen.ours and not seen.may_sign:
            self._context.verify_flags |= _STRICT
        else:
            self._context.check_hostname = False
            self._context.verify_mode = ssl.CERT_NONE

    def tls(
        self, method: str, headers: Mapping[str, str] | None = None, path: str = "/models"
    ) -> int:
        """The status of one request by our name (or by a Host header among ``headers``)."""
        connection = http.client.HTTPConnection(LOOPBACK)
        connection.sock = self._connect()
        try:
            connection.request(method, path, headers={"Host": self._host, **(headers or {})})
            return connection.getresponse().status
        except TimeoutError:
            return PENDING
        except (OSError, http.client.HTTPException):
            return CLOSED
        finally:
            connection.close()

    def plain(self) -> tuple[int, str]:
        """Status and Location of a request without TLS."""
        connection = http.client.HTTPConnection(LOOPBACK, self._ports.http, timeout=ANSWER_TIMEOUT)
        try:
            connection.request("GET", "/models", headers={"Host": self._host})
            response = connection.getresponse()
            return response.status, response.getheader("Location") or ""
        except (OSError, http.client.HTTPException):
            return CLOSED, ""
        finally:
            connection.close()

    def _connect(self) -> ssl.SSLSocket:
        raw = None
        try:
            raw = socket.create_connection((LOOPBACK, self._ports.https), timeout=ANSWER_TIMEOUT)
            secured = self._context.wrap_socket(raw, server_hostname=self._name)
        except OSError as error:
            if raw is not None:
                raw.close()
            reason = error.reason if isinstance(error, ssl.SSLError) else str(error)
            raise ApplianceError(
                f"The TLS handshake as {self._name} failed: {reason}.",
                "Check that /etc/ssl/infinity/infinity.crt covers the host name and is in date.",
            ) from error
        if secured.getpeercert(binary_form=True) != self._certificate:
            secured.close()
            raise ApplianceError(
                "nginx serves another certificate than the one in /etc/ssl/infinity.",
                "Run `systemctl reload nginx`.",
            )
        return secured


def _first_certificate(paths: Paths) -> bytes:
    """DER of the certificate that the file starts with."""
    try:
        text = paths.certificate.read_text("ascii", "replace")
        found = _PEM.search(text)
        return ssl.PEM_cert_to_DER_cert(found[0] if found else "")
    except ValueError as error:
        raise ApplianceError(
            f"{paths.certificate} holds no certificate in PEM.",
            "Put the certificate there, or remove it and its key; first boot makes new ones.",
        ) from error
