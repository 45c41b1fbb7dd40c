"""The operator's calls on a SuperLink, through its private port: register a node's key, start and stop the run of our program."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, final

from .gate import SECRET_HEADER

if TYPE_CHECKING:
    import httpx
    from flwr.supercore.control import ControlHttpClient

PROJECT = """[project]
name = "entrenous-server"
version = "0.1.0"
license = "Apache-2.0"
dependencies = []
[tool.flwr.app]
publisher = "entrenous"
[tool.flwr.app.components]
serverapp = "entrenous_shim:app"
clientapp = "entrenous_shim:nothing"
[tool.flwr.app.config]
state = ""
target = ""
"""
SHIM = """from flwr.clientapp import ClientApp
from entrenous.deploy.flower.server_app import make_app
app = make_app()
nothing = ClientApp()
"""


@final
class SecretAuth:
    """HTTP authentication that sends the secret of the state folder with every call."""

    def __init__(self, secret: str) -> None:
        self._secret = secret

    def intercept(self, context: Any, call_next: Any) -> httpx.Response:
        context.request.headers[SECRET_HEADER] = self._secret
        answer: httpx.Response = call_next(context)
        return answer


@contextmanager
def operator(address: str, ca: bytes | None, secret: str) -> Iterator[ControlHttpClient]:
    """A client for the calls below. address: the private one, `host:port`; ca: PEM, None = plain text."""
    from flwr.supercore.control import ControlHttpClient
    from flwr.supercore.interceptors import RuntimeVersionHttpInterceptor

    seen: list[Any] = [RuntimeVersionHttpInterceptor(component_name="flwr CLI"), SecretAuth(secret)]
    with ControlHttpClient.from_server_address(address, ca is None, ca, seen) as client:
        yield client


def register(client: ControlHttpClient, publics: Iterable[bytes]) -> tuple[set[bytes], set[bytes]]:
    """Lets the owners of `publics` (PEM) in; returns those who were not in before, and those whom Flower refuses.

    It refuses keys that were shut out once: they never come back. Raises httpx.HTTPError for anything else.
    """
    import httpx
    from flwr.proto.control_pb2 import RegisterNodeRequest

    new, refused = set(publics) - {public for public, _ in registered(client)}, set()
    for public in new:
        try:
            client.RegisterNode(RegisterNodeRequest(public_key=public))
        except httpx.HTTPStatusError as error:
            if error.response.status_code >= 500:
                raise
            refused.add(public)
    return new - refused, refused


def registered(client: ControlHttpClient) -> list[tuple[bytes, int]]:
    """Public keys (PEM) and numbers of the nodes that are let in."""
    from flwr.proto.control_pb2 import ListNodesRequest

    return [
        (node.public_key, node.node_id)
        for node in client.ListNodes(ListNodesRequest()).nodes_info
        if node.status != "unregistered"
    ]


def unregister(client: ControlHttpClient, public: bytes) -> bool:
    """Shuts the owner of `public` (PEM) out from now on; False if it was not known."""
    from flwr.proto.control_pb2 import UnregisterNodeRequest

    found = [node for known, node in registered(client) if known == public]
    for node in found:
        client.UnregisterNode(UnregisterNodeRequest(node_id=node))
    return bool(found)


def start_run(client: ControlHttpClient, config: Mapping[str, str]) -> int:
    """Submits a run of our shim with `config` (keys of PROJECT's last table); its number."""
    from hashlib import sha256

    from flwr.cli.build import build_fab_from_files
    from flwr.common.serde import fab_to_proto, user_config_to_proto
    from flwr.proto.control_pb2 import StartRunRequest
    from flwr.supercore.fab import Fab

    content, _ = build_fab_from_files({"pyproject.toml": PROJECT.encode(), "entrenous_shim.py": SHIM.encode()})
    fab = fab_to_proto(Fab(sha256(content).hexdigest(), content, {}))
    return int(client.StartRun(StartRunRequest(fab=fab, override_config=user_config_to_proto(dict(config)))).run_id)


def stop_run(client: ControlHttpClient, run: int) -> None:
    """Ends a run; one that has ended or never was is fine."""
    import httpx
    from flwr.proto.control_pb2 import StopRunRequest

    try:
        client.StopRun(StopRunRequest(run_id=run))
    except httpx.HTTPStatusError as error:
        if error.response.status_code >= 500:
            raise


def code_of(error: httpx.HTTPStatusError) -> int:
    """Flower's own number for what it refused; 0 where the refusal is not Flower's."""
    from flwr.supercore.error import FlowerError

    known = FlowerError.from_json(error.response.text)
    return int(known.code) if known else 0
