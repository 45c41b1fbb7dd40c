"""Which addresses of a record a peer dials: those that can be another peer's. A record is its
owner's word, and whoever has it dials it.

So one member could have all others send packets to services of their own machines, which are open
to nobody else, or to a whole network at once. What is left are up to four addresses a record that
may be a stranger's: a peer dials them twice and forgets the record.
"""

from __future__ import annotations

import ipaddress
from typing import TypeAlias

from ..agreement.address import port_of

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
NOWHERE = ipaddress.ip_network("0.0.0.0/8")  # this machine or network, as Linux takes it


def can_be_a_peers(address: str, on_loopback: bool) -> bool:
    """Whether HOST:PORT can be the address of another peer. on_loopback: whether this peer listens
    at this machine alone, and so has others there."""
    host, _, digits = address.rpartition(":")
    if not port_of(digits):
        return False
    try:
        found = ipaddress.ip_address(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        return False
    if (isinstance(found, ipaddress.IPv6Address)) != host.startswith("["):
        return False
    return _is_of_one_machine(getattr(found, "ipv4_mapped", None) or found, on_loopback)


def _is_of_one_machine(found: Address, on_loopback: bool) -> bool:
    """Whether an IP address is that of another machine, or of this one where `on_loopback`."""
    if found.is_loopback:
        return on_loopback
    if found.is_multicast or found.is_unspecified or found.is_link_local:
        return False
    # of IPv4 the reserved ones end with the broadcast address
    return found.version == 6 or not (found.is_reserved or found in NOWHERE)
