"""``HOST:PORT``, as the servers of a log and the place of an HTTP endpoint are written."""

from __future__ import annotations

import ipaddress
import re

__all__ = ["parse_address"]

_ADDRESS = re.compile(r"(?:\[(?P<ipv6>[^\[\]]+)\]|(?P<host>[^\[\]:]+)):(?P<port>[0-9]{1,5})")
_LABEL = r"(?!-)[A-Za-z0-9_-]{1,63}(?<!-)"  # underscores are no part of DNS, and of many a container's name
_HOST_NAME = re.compile(rf"(?=.{{1,253}}$){_LABEL}(?:\.{_LABEL})*\.?", re.ASCII)


def parse_address(text: str) -> tuple[str, int] | None:
    """Host (an IPv6 address without its brackets) and port, 0 to 65535; None where `text` is no address."""
    found = _ADDRESS.fullmatch(text)
    if found is None or int(found["port"]) > 65535:
        return None
    host = found["ipv6"] or found["host"]
    return (host, int(found["port"])) if _is_host(host, ipv6=found["ipv6"] is not None) else None


def _is_host(host: str, *, ipv6: bool) -> bool:
    try:
        if ipv6:
            ipaddress.IPv6Address(host)
        elif not host.strip("0123456789."):  # numbers alone are an address, or a slip
            ipaddress.IPv4Address(host)
    except ValueError:
        return False
    return ipv6 or _HOST_NAME.fullmatch(host) is not None
