"""Peers without a server: the gossip state machine over real sockets. Terms, keys, invitations and
stores are those of every federation.

iroh_link.py     the transport over QUIC; the only importer of iroh port.py          what a
transport is, and what a machine offers: the only things below that a peer knows about messages.py
what peers say to each other       records.py      a peer's word where it is, and who checks it
address_book.py  whose records a peer has           rate_limits.py  who may ask how often, and who
is banned intake.py        the receiver's decisions           serving.py      the receiver
connections.py   connections to others              sending.py      the sender node.py          one
node of a gossip algorithm     state.py        its state on disk ages.py          how old a model is
believed to be   reachable.py     which addresses are dialled peer.py          all of it under
supervision        folder.py       a peer's folder, opened running.py       a peer's process, its
status, and a replay of what all have recorded"""
