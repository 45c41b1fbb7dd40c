"""What every algorithm ends with on real data after a few rounds: the model's hash, its metrics,
the bytes it sent.

python tests/golden/record.py            compares with results.json beside this file; exit code 1
where something differs python tests/golden/record.py --write    writes results.json anew: only for
a change that is meant to change results, and says so python tests/golden/record.py fpl fcf    only
the cases whose names begin so

A change of form must not change a result. `test_results.py` runs the same cases, one test each.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).with_name("results.json")


class Case(NamedTuple):
    """One run. protocol: None = the usual one."""

    algorithm: str
    rounds: int | None = 3
    data: str = "ml-100k"
    protocol: str | None = "loo-99"
    settings: dict[str, Any] = {}  # noqa: RUF012  # never written to
    network: dict[str, Any] = {}  # noqa: RUF012


NCF = {"cohort": 100}
SLOW = {
    "clock": "random",
    "loss": 0.2,
    "churn": 0.2,
    "latency": "exponential:0.5",
    "restarts": 0.02,
    "bad": 0.1,
}


def cases() -> dict[str, Case]:
    """{name: case}: every algorithm, and those settings that take another way through the code."""
    found: dict[str, Case] = {
        "fpl": Case("fpl"),
        "fpl-once": Case("fpl", settings={"user_step": "once", "pi": 0.5, "cohort": 200}),
        "sfpl": Case("sfpl", 3000),
        "sfpl+": Case("sfpl+", 300),
        "pfpl": Case("pfpl"),
        "pfpl+": Case("pfpl+", settings={"pi": 0.3}),
        "fcf": Case("fcf", 2),
        "fcf-huawei": Case("fcf-huawei", 2),
        "fcf-newton": Case("fcf-newton", 2, settings={"factors": 32}),
        "fedcold": Case("fedcold"),
    }
    for system in ("cali3f", "ditto", "fedavg", "fedfast", "reptile"):
        for model in ("gmf", "mlp", "neumf"):
            found[f"{system}-{model}"] = Case(f"{system}-{model}", 2, settings=NCF)
    found["fedrecon"] = Case("fedrecon", 2)
    found["fedrecon-printed"] = Case("fedrecon-printed", 3, settings={"start_std": 0.1})
    for name in ("gpfedrec", "gpfedrec-as-run", "fedncf", "fedncf-printed"):
        found[name] = Case(name, 2, settings=NCF)
    for name in (
        "pfedrec",
        "pfedrec-printed",
        "fedrap",
        "fedrap-printed",
        "colr",
        "colr-printed",
        "fedmf",
        "fedmf-printed",
    ):
        found[name] = Case(name, 2)
    found["pfedrec-alone"] = Case("pfedrec", 2, settings={"aggregation": "off", "cohort": 100})
    as_run = {"reading": "as-run", "aggregation": "off", "cohort": 100}
    found["fedrap-as-run-alone"] = Case("fedrap", 2, settings=as_run)
    found["cali3f-plain"] = Case(
        "cali3f-neumf", 2, settings={**NCF, "fast": False, "personalised": False, "sampled": False}
    )
    found["fedavg-sgd"] = Case(
        "fedavg-neumf", 2, settings={**NCF, "optimiser": "sgd", "learning_rate": 0.05}
    )
    for name in (
        "fedmf-ratings",
        "metamf",
        "rfrec",
        "rfrecf",
        "fbalf",
        "fbalf-bayes",
        "fedrec",
        "fedrec++",
    ):
        found[name] = Case(name, 3 if name != "fbalf" else 2000, protocol="random-80-20")
    for name in ("fedrec", "fedrec++"):
        stochastic = {"style": "stochastic", "predict_after": 1, "rounds": 2}
        found[f"{name}-stochastic"] = Case(name, 1500, protocol="random-80-20", settings=stochastic)
    found["fedrec++-no-pads"] = Case(
        "fedrec++", 3, protocol="random-80-20", settings={"pads": False, "predict_after": 1}
    )
    svd = {"style": "stochastic", "model": "svd++", "predict_after": 1, "rounds": 2}
    found["fedrec-svd++"] = Case("fedrec", 1500, protocol="random-80-20", settings=svd)
    found["fedrec-redraw"] = Case(
        "fedrec", 3, protocol="random-80-20", settings={"redraw": True, "filling": "average"}
    )
    point = {"members": 1, "noise": 0, "threshold": 1}
    found["fbalf-bayes-point"] = Case("fbalf-bayes", 3, protocol="random-80-20", settings=point)
    for policy in ("pepper", "gossip-age", "gossip-average", "gossip-reptile"):
        meta = {"meta_epochs": 3} if policy == "gossip-reptile" else {}
        found[f"{policy}-gmf"] = Case(f"{policy}-gmf", 8, protocol="pepper-85-15", settings=meta)
        found[f"{policy}-prme-g"] = Case(f"{policy}-prme-g", 8, "gowalla-nyc-pepper", None, meta)
    found["pepper-gmf-loo"] = Case(
        "pepper-gmf", 6, settings={"measure": "hr-ndcg", "memory": "ever", "redraw": 2}
    )
    found["pepper-gmf-network"] = Case(
        "pepper-gmf", 12, protocol="pepper-85-15", settings={"redraw": 3}, network=SLOW
    )
    for name in ("fedavg-prme-g", "reptile-prme-g", "fedfast-prme-g"):
        found[name] = Case(name, 2, "gowalla-nyc-pepper", None, {"cohort": 50})
    found["fedavg-prme-g-last"] = Case(
        "fedavg-prme-g", 2, "gowalla-nyc-pepper", None, {"cohort": 50, "visits": "last"}
    )
    found["pepper-prme-g-last"] = Case(
        "pepper-prme-g", 8, "gowalla-nyc-pepper", None, {"visits": "last"}
    )
    for name in ("popular", "random", "user-knn", "item-knn", "nearest-place", "ease", "ials"):
        found[name] = Case(name, None)
    found["nearest-place"] = Case("nearest-place", None, "gowalla-nyc-pepper", None)
    found["bpr-mf"] = Case("bpr-mf", None, settings={"epochs": 2})
    found["user-mean"] = Case("user-mean", None, protocol="random-80-20")
    found["pepper-evidence-gmf"] = Case("pepper-evidence-gmf", 8, protocol="pepper-85-15")
    for model in ("gmf", "mlp", "neumf"):
        found[f"central-{model}"] = Case(f"central-{model}", None, settings={"epochs": 1})
    for name in ("pmf", "biased-mf", "svd++"):
        found[name] = Case(name, None, protocol="random-80-20", settings={"epochs": 2})
    return found


def result(case: Case) -> dict[str, Any]:
    """The manifest's parts that a change of form must leave as they are."""
    import entrenous

    run = entrenous.run(
        case.algorithm,
        case.data,
        protocol=case.protocol,
        rounds=case.rounds,
        settings=case.settings,
        network=case.network,
    )
    return {name: run.manifest[name] for name in ("model_sha256", "metrics", "ledger")}


def main(arguments: list[str]) -> int:
    """Runs the cases that were asked for; returns the exit code."""
    asked = [argument for argument in arguments if not argument.startswith("--")]
    before = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    chosen = {
        name: case for name, case in cases().items() if not asked or name.startswith(tuple(asked))
    }
    found, differ = dict(before), []
    for name, case in chosen.items():
        try:
            found[name] = result(case)
        except Exception as error:  # one that cannot run must not hide the others
            print(f"{name:20} FAILED {type(error).__name__}: {error}", flush=True)
            differ.append(name)
            continue
        same = found[name] == before.get(name)
        print(
            f"{name:20} {found[name]['model_sha256'][:16]} {'same' if same else 'DIFFERENT'}",
            flush=True,
        )
        differ += [] if same else [name]
    if "--write" in arguments:
        RESULTS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
        return 0
    print(f"{len(differ)} of {len(chosen)} differ" + (f": {', '.join(differ)}" if differ else ""))
    return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
