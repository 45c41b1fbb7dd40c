"""Peers without a server: the gossip state machine over real sockets. Terms, keys, invitations and
stores are those of every federation.

iroh_link.py     the transport over QUIC; the only importer of iroh
reachable.py     which addresses are dialled
port.py          what a transport is, and what a machine offers: a peer knows nothing else of them
messages.py      what peers say to each other
records.py       a peer's word where it is, and the checks of such words
address_book.py  the records that a peer has
rate_limits.py   how often peers may ask, and bans
intake.py        the receiver's decisions
serving.py       the receiver
connections.py   connections to others
sending.py       the sender
node.py          one node of a gossip algorithm
events.py        what it records, from which its training can be repeated
state.py         its state on disk
peer.py          all of it under supervision
folder.py        a peer's folder, opened
running.py       a peer's process, and its status
"""
