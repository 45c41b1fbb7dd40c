"""The addresses of a record that a peer dials: those that can be another peer's.

A record is its owner's word, and every peer that has it dials it. So one member could have all
others send packets to services of the victims' machines, which are open to nobody else, or to a
whole network at once. Up to four addresses a record are left that may be a stranger's: a peer
dials them twice and forgets the record.
"""

from __future__ import annotations

import ipaddress

from ..agreement.address import parted, port_of

NOWHERE = ipaddress.ip_network("0.0.0.0/8")  # this machine or network, as Linux takes it


def can_be_a_peers(address: str, on_loopback: bool) -> bool:
    """Returns whether HOST:PORT can be the address of another peer. on_loopback: whether this peer
    listens at this machine alone, and so has others there."""
    host, digits = parted(address)
    if not port_of(digits):
        return False
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return False
    if isinstance(ip, ipaddress.IPv6Address) != address.startswith("["):
        return False
    # ::ffff:127.0.0.1 is this machine too.
    ip = getattr(ip, "ipv4_mapped", None) or ip
    if ip.is_loopback:
        return on_loopback
    if ip.is_multicast or ip.is_unspecified or ip.is_link_local:
        return False
    # Of IPv4 the reserved addresses end with the broadcast address.
    return ip.version == 6 or not (ip.is_reserved or ip in NOWHERE)
