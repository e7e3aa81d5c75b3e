"""Who may ask, and how often."""

from __future__ import annotations

import pytest

from pellucid.server import limits as limits_module
from pellucid.server.limits import Buckets, Keys, client_address, is_this_machine
from pellucid.server.refusal import Refusal


def test_a_bucket_fills_up_evenly():
    now = [0.0]
    buckets = Buckets(60, lambda: now[0])
    buckets.take("a", 60)
    with pytest.raises(Refusal) as refused:
        buckets.take("a", 5)
    assert (refused.value.status, refused.value.retry_after) == (429, 5)
    buckets.take("b", 60)  # another client has its own
    now[0] = 4.9
    with pytest.raises(Refusal):
        buckets.take("a", 5)
    now[0] = 5.0
    buckets.take("a", 5)  # those that were refused cost nothing


def test_what_costs_more_than_a_bucket_is_granted_to_a_full_one_only():
    now = [0.0]
    buckets = Buckets(60, lambda: now[0])
    buckets.take("a", 1_000)
    now[0] = 59.0
    with pytest.raises(Refusal):
        buckets.take("a", 1_000)
    now[0] = 61.0
    buckets.take("a", 1_000)


def test_no_rate_is_no_limit():
    buckets = Buckets(0)
    for _ in range(1_000):
        buckets.take("a", 1_000)


def test_clients_are_forgotten_in_time(monkeypatch):
    monkeypatch.setattr(limits_module, "MOST_CLIENTS", 10)
    buckets = Buckets(60)
    for i in range(1_000):
        buckets.take(str(i), 1)
    assert len(buckets._buckets) == 10


def test_keys():
    keys = Keys(["first", "sécond"])
    assert keys and not Keys()
    assert keys.knows("first") and keys.knows("sécond")
    assert not any(keys.knows(wrong) for wrong in ("", "firs", "first ", "First", "\ud800", "x" * 100_000))


@pytest.mark.parametrize("peer, forwarded, proxies, address", [
    ("9.9.9.9", "", (), "9.9.9.9"),
    ("9.9.9.9", "1.1.1.1", (), "9.9.9.9"),  # nobody chooses their own address
    ("10.0.0.1", "1.1.1.1", ("10.0.0.1",), "1.1.1.1"),
    ("10.0.0.1", "6.6.6.6, 1.1.1.1", ("10.0.0.1",), "1.1.1.1"),  # what stood there before the proxy is not believed
    ("10.0.0.1", "1.1.1.1, 10.0.0.2", ("10.0.0.1", "10.0.0.2"), "1.1.1.1"),
    ("10.0.0.1", "", ("10.0.0.1",), "10.0.0.1"),
    ("2001:db8:1:2:3:4:5:6", "", (), "2001:db8:1:2::/64"),
    ("::ffff:9.9.9.9", "", (), "9.9.9.9"),
    ("10.0.0.1", "x" * 999, ("10.0.0.1",), "x" * 60),
])  # fmt: skip
def test_addresses(peer, forwarded, proxies, address):
    headers = {"x-forwarded-for": forwarded} if forwarded else {}
    assert client_address(peer, headers, proxies) == address


def test_a_proxy_on_this_machine_is_not_this_machine():
    assert is_this_machine("127.0.0.1", {}) and is_this_machine("::1", {})
    assert not is_this_machine("127.0.0.1", {"x-forwarded-for": "9.9.9.9"})
    assert not is_this_machine("192.168.0.5", {}) and not is_this_machine("", {})
