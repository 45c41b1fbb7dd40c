"""Peers without a server: the gossip state machine over real sockets.

port.py       what a transport is, and what a machine offers: the only things below that a peer knows about
memory.py     both in memory and in virtual time, for tests: the same run again gives the same bytes
iroh_link.py  the transport over QUIC; the only importer of iroh
charter.py    what the peers of one federation have agreed on, and its name
identity.py   keys, tickets (this number belongs to this key), records (this key is at these addresses)
frames.py     control frames
book.py       whose records a peer holds
conduct.py    who may ask how often, and who is banned
intake.py     the receiver's decisions         serving.py  the receiver
lines.py      connections to others            sending.py  the sender
node.py       one node of a gossip algorithm   keeping.py  its state on disk
peer.py       all of it under supervision      folder.py   a peer's folder: invitation, key, rows, items
founding.py   a federation for trying it out   showing.py  `make gossip`
"""
