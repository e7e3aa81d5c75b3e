"""How much a client may ask for, who may ask, and how often. All limits are on unless switched off."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass

from pellucid.server.refusal import Refusal


@dataclass(frozen=True)
class Limits:
    """Of one request, and of all that wait."""

    body: int = 1 << 20
    """Bytes of a request with text."""
    file: int = 10 << 20
    """Bytes of a file to translate."""
    characters: int = 5_000
    """Of one text."""
    texts: int = 100
    """In one request."""
    alternatives: int = 5
    waiting_tokens: int = 50_000
    """Of all texts that wait for a model; see :func:`~pellucid.server.batcher.tokens_about`."""
    queue_seconds: float = 15.0
    """How long a request waits for room among those that wait, or for a model that is still being loaded."""
    deadline: float = 60.0
    """Seconds for a request as a whole."""
    file_deadline: float = 900.0
    """Seconds for a file."""
    body_seconds: float = 20.0
    """How long a client may take to send a body."""
    file_seconds: float = 120.0
    """The same for a file."""
    rate: int | None = None
    """Texts a minute for each key or address; 0: any number; None: `DEFAULT_RATE`, and any number for programs on this
    machine, which only hinder themselves."""


DEFAULT_RATE = 6_000
MOST_CLIENTS = 10_000
"""Buckets that are remembered. A client that was forgotten has a full one again, which is little harm."""


class Keys:
    """The keys that open the server; none: it is open."""

    def __init__(self, keys: Iterable[str] = ()) -> None:
        self._digests = [_digest(key) for key in keys]

    def __bool__(self) -> bool:
        return bool(self._digests)

    def knows(self, given: str) -> bool:
        """Whether `given` is one of the keys: takes the same time whichever it is, or none."""
        digest = _digest(given)
        found = False
        for known in self._digests:
            found |= hmac.compare_digest(known, digest)
        return found


def _digest(key: str) -> bytes:
    """Of one length for all keys, so that a comparison does not tell theirs."""
    return hashlib.sha256(key.encode("utf-8", "replace")).digest()


class Buckets:
    """A token bucket for each client: it holds what may be used in a minute and fills up evenly."""

    def __init__(self, a_minute: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._size = float(a_minute)
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def take(self, client: str, cost: int) -> None:
        """Use `cost` tokens of `client`.

        A request that costs more than a whole bucket is granted when the bucket is full: it could never be otherwise.

        Raises:
            Refusal: 429, so many are not there yet.
        """
        if not self._size:
            return
        now = self._clock()
        left, since = self._buckets.pop(client, (self._size, now))
        left = min(self._size, left + (now - since) * self._size / 60)
        needed = min(float(cost), self._size)
        enough = left >= needed
        self._buckets[client] = (left - needed if enough else left, now)
        while len(self._buckets) > MOST_CLIENTS:
            self._buckets.popitem(last=False)
        if not enough:
            seconds = math.ceil((needed - left) * 60 / self._size)
            raise Refusal(f"Slowdown: {self._size:.0f} per 1 minute", 429, retry_after=max(1, seconds))


def client_address(peer: str, headers: Mapping[str, str], proxies: Collection[str]) -> str:
    """The address that a request came from, for counting: an IPv6 network counts as one.

    Args:
        peer: the address at the other end of the connection.
        proxies: addresses whose `X-Forwarded-For` is believed. Whoever else sends one cannot choose their address.
    """
    address = peer
    if peer in proxies:
        for forwarded in reversed(headers.get("x-forwarded-for", "").split(",")):
            address = forwarded.strip() or address
            if address not in proxies:
                break
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address[:60]
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.ipv4_mapped:
            return str(parsed.ipv4_mapped)
        return str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)


def is_this_machine(peer: str, headers: Mapping[str, str]) -> bool:
    """Whether a program on this machine asks for itself, and is no proxy that asks for others."""
    try:
        return ipaddress.ip_address(peer).is_loopback and {"x-forwarded-for", "forwarded"}.isdisjoint(headers)
    except ValueError:
        return False
