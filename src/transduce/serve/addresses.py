"""Addresses of clients and proxies. Who listens on `::` sees IPv4 within IPv6, as ::ffff:10.0.0.1: it is IPv4."""

from __future__ import annotations

import ipaddress

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

MAPPED = ipaddress.IPv6Network("::ffff:0:0/96")
OWN_NETWORK = 64
"""Bits of an IPv6 address that everyone has for themselves."""


def parse_address(text: str) -> Address:
    """What an address means; a ValueError, if it is none."""
    found = ipaddress.ip_address(text)
    return found.ipv4_mapped or found if isinstance(found, ipaddress.IPv6Address) else found


def parse_network(text: str) -> Network:
    """An address or a network; a ValueError, if it is neither."""
    found = ipaddress.ip_network(text, strict=False)
    if isinstance(found, ipaddress.IPv6Network) and found.subnet_of(MAPPED):
        address = found.network_address.ipv4_mapped
        return ipaddress.IPv4Network((int(address or 0), found.prefixlen - MAPPED.prefixlen))
    return found


def neighbourhood(address: str) -> str:
    """Whom an address counts for; what is no address, for itself."""
    try:
        found = parse_address(address)
    except ValueError:
        return address
    if found.version == 4:
        return str(found)
    return str(ipaddress.ip_network((int(found), OWN_NETWORK), strict=False))


def printable(address: str) -> str:
    """An address as it is; what a proxy let through instead of one is not told."""
    try:
        return str(parse_address(address))
    except ValueError:
        return "-"
