"""The attacked door: where it is, from which addresses it is tried, and what was met there."""

from __future__ import annotations

import functools
import ipaddress
import random
import re
import socket
import ssl
import threading
from collections import Counter
from dataclasses import dataclass, field

PATIENCE = 5.0  # seconds for one read or write
STATUS = re.compile(rb"HTTP/1\.1 (\d{3}) ")


@functools.cache
def _blind(protocol: str) -> ssl.SSLContext:
    """An attacker does not mind whose certificate it is."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols([protocol])
    return context


@dataclass
class Door:
    """A host behind an address and port, attacked until ``over`` is set.

    ``sources`` is a network of addresses to call from, all of them ours; "" is the usual one.
    ``met`` counts what came back: statuses, and in words what is none.
    """

    address: str
    host: str
    sources: str = ""
    port: int = 443
    over: threading.Event = field(default_factory=threading.Event)
    met: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def open(self) -> bool:
        return not self.over.is_set()

    def connect(self, protocol: str = "http/1.1") -> ssl.SSLSocket:
        """A new connection, from another one of ``sources`` each time."""
        context = _blind(protocol)
        plain = socket.create_connection((self.address, self.port), PATIENCE, self._source())
        try:
            return context.wrap_socket(plain, server_hostname=self.host)
        except OSError:
            plain.close()
            raise

    def send(self, *parts: bytes) -> None:
        """Send on a connection of its own, read all answers, and count their statuses."""
        answers = b""
        try:
            with self.connect() as connection:
                for part in parts:
                    connection.sendall(part)
                while chunk := connection.recv(65536):
                    answers += chunk
        except OSError as error:
            if not answers:
                self.count(type(error).__name__)
        for status in STATUS.findall(answers):
            self.count(status.decode())
        self.count("Retry-After", answers.count(b"Retry-After: "))

    def count(self, what: str, times: int = 1) -> None:
        """Note what was met; many threads do."""
        with self._lock:
            self.met[what] += times

    def _source(self) -> tuple[str, int] | None:
        if not self.sources:
            return None
        network = ipaddress.ip_network(self.sources)
        # An attacker's choice, not a secret.
        return str(network[random.randrange(1, network.num_addresses - 1)]), 0  # noqa: S311
