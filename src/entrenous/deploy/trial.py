"""A federation on this machine, over real sockets, compared with the simulation that has the same plan and seed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, final

from ..privacy.secure_sum.terms import Floors
from ..runs import pipeline
from ..runs.pipeline import material
from ..runs.plan import RunPlan, check, usual_protocol
from .files import read_json, write_json
from .founding import FoundedFederation, Place, found, free_ports
from .recommend import recommend
from .running import gathered, run_all, status


@final
@dataclass(frozen=True)
class TrialPlan:
    """The plan of a federation that a simulation can repeat. protocol: None = the usual one for algorithm and data."""

    algorithm: str
    data: str = "ml-100k"
    protocol: str | None = None
    seed: int = 0
    rounds: int = 20
    settings: Mapping[str, Any] = field(default_factory=dict)
    load: Mapping[str, Any] = field(default_factory=dict)

    def plan(self) -> RunPlan:
        """The plan of the same training in a simulation, as `entrenous run` would make it."""
        protocol = self.protocol or usual_protocol(self.data, self.algorithm)
        return RunPlan(algorithm=self.algorithm, data=self.data, protocol=protocol, seed=self.seed, rounds=self.rounds,
                    settings=self.settings, load=self.load)  # fmt: skip


def begin(folder: Path, trial: TrialPlan, *, nodes: int, secure: str = "none") -> FoundedFederation:
    """Make a federation in `folder` whose nodes each have the training rows of a part of the users. Raises InputError.

    The floors of secure sums are lowered to what so few nodes can meet: for trying it out only.
    """
    plan = trial.plan()
    check(plan)
    train = material(plan).parts[0].final_train
    floors = Floors(people=2, parties=max(2, (2 * nodes) // 3), occupancy=0.0)
    made = found(
        folder, train, nodes=nodes, floors=floors, place=Place(port=free_ports()[0]), algorithm=trial.algorithm,
        settings=dict(trial.settings), rounds=trial.rounds, seed=trial.seed, draws="public", secure=secure,
    )  # fmt: skip
    write_json(folder / "trial.json", asdict(trial))
    return made


def carry_out(folder: Path, say: Callable[[str], None]) -> dict[str, Any]:
    """Run a federation to its end, then the same training in a simulation. Returns how they compare, and what a node
    recommends to its first user. lost: rounds that were not counted, since an interrupted secure sum is never tried again;
    then the models differ."""
    trial = TrialPlan(**read_json(folder / "trial.json"))
    plan = trial.plan()
    if not (folder / "server" / "model.safetensors").exists():
        run_all(folder, say)
    say("the same in one process, for comparison")
    simulated = pipeline.run(
        plan.algorithm,
        plan.data,
        protocol=plan.protocol,
        seed=plan.seed,
        rounds=plan.rounds,
        settings=plan.settings,
        load=plan.load,
    )
    lost = len(re.findall(r" round \d+: 0 of ", (folder / "server" / "server.log").read_text(encoding="utf-8")))
    network, node = gathered(folder).sha256, sorted((folder / "nodes").iterdir())[0]
    user, number, items = recommend(node, None, 10)
    return {
        "network": network, "simulation": simulated.manifest["model_sha256"], "same": network == simulated.manifest["model_sha256"],
        "rounds": trial.rounds, "lost": lost, "seconds_a_round": status(folder / "server")["seconds_a_round"],
        "protocol": plan.protocol, "metrics": simulated.metrics, "node": node.name, "user": user, "round": number, "items": items,
    }  # fmt: skip
