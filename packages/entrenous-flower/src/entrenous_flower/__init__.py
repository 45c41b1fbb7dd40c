"""Entrenous as a Flower app, for those who run SuperLink and SuperNodes already. It uses Flower's
public interface alone.
"""

from .versions import check_flower

check_flower()  # before anything of flwr is imported: another version may lack it

from .apps import client_app, server_app  # noqa: E402

__all__ = ["client_app", "server_app"]
