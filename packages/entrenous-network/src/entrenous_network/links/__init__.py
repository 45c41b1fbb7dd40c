"""Links: how frames travel between a server and its nodes."""
