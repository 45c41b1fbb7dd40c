"""How peers reach each other: iroh.py over QUIC, memory.py in one process and in virtual time. The server's link is in the folder above."""
