"""docs/sizing.md, written from a measurement, the scaling law and AWS's price list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.bench.law import FLEET_SHARE, Law
from tests.bench.tables import spread, table

HOURS = 730  # of a month, as AWS's calculator counts
PRICES_OF = "2026-11"


@dataclass(frozen=True)
class Instance:
    """One size; ``dollars`` is an hour of Linux on demand in us-east-1, without the listing's."""

    type: str
    vcpus: int
    cores: int
    memory: int  # GiB
    dollars: float


# https://aws.amazon.com/ec2/instance-types/ and https://aws.amazon.com/ec2/pricing/on-demand/.
# Intel's have two vCPUs a core; c7a has one.
INSTANCES = (
    Instance("m5.large", 2, 1, 8, 0.096),
    Instance("m7i.large", 2, 1, 8, 0.1008),
    Instance("c6i.large", 2, 1, 4, 0.085),
    Instance("c7i.large", 2, 1, 4, 0.08925),
    Instance("c7a.large", 2, 2, 4, 0.10264),
    Instance("c6i.xlarge", 4, 2, 8, 0.17),
    Instance("c7i.xlarge", 4, 2, 8, 0.1785),
    Instance("c7a.xlarge", 4, 4, 8, 0.20528),
    Instance("c7i.2xlarge", 8, 4, 16, 0.357),
    Instance("c7i.4xlarge", 16, 8, 32, 0.714),
)
FLEETS = (("c7i.large", 2), ("c7i.large", 4), ("c7i.large", 8), ("c7i.xlarge", 2),
          ("c7i.xlarge", 4), ("c7i.2xlarge", 2))  # fmt: skip

_HEAD = """\
# Sizing

Written by `make bench ARGS="--sizing --write-docs"`; change nothing here by hand. It says
what to expect of an instance type, and how to compute it again from a figure of your own, which is
always better.

## What was measured

{cpu}, {model}, {rounds} rounds in turns, medians. The client runs on the same cores, so what all of
them together reach is a little low:

{measured}
## The law

Tokens of a batch are computed one forward pass at a time, with one thread on each physical core; a
second vCPU of the same core adds nothing to matrix products. With `c` physical cores:

    tokens/s(c) = T1 / ((1 - p) + p / c)        T1 = {one_core:.0f} tokens/s, p = {parallel:.3f}

T1 is the rate on one core. p, the share of the work that cores divide among them, comes from both
figures above: p = (1 - T1/T{most}) / (1 - 1/{most}). Above {most} cores this is an extrapolation;
measure before you buy a larger type, and prefer more instances to larger ones: these share nothing,
so their rates add up.

A core here is not a core of every type. Another generation computes at another T1, and the table
takes T1 as it is for all: compare its rows within one generation, or put in your own T1 (below).

## Instance types

Linux on demand in us-east-1 ({prices_of}), {hours} hours a month, without the listing's own fee,
disk and traffic. "$ per million tokens" is at full use: dollars per hour / (tokens/s x 3,600) x
1,000,000.

{instances}
Memory: the server held at most {resident:,.0f} MB of it during these loads; each type above has
more.

## Fleets

Planned with {share:.0%} of the sum, so that bursts and the loss of a member find room:
tokens/s = count x tokens/s(c) x {share:g}. The load balancer and the secret cost extra.

{fleets}
## With your own figure

On an instance, send what you will send, and divide the tokens by the seconds:

```sh
time curl -s --cacert /etc/ssl/infinity/infinity.crt https://$HOST/embeddings \\
  -H @<(printf 'Authorization: Bearer %s' "$KEY") \\
  -H 'Content-Type: application/json' -d @batch.json | \\
  python3 -c 'import json, sys; print(json.load(sys.stdin)["usage"]["prompt_tokens"], "tokens")'
```

That is tokens/s(c) of this type. How many instances a load needs is
load / (tokens/s(c) x {share:g}), rounded up. `make bench ARGS=--sizing` measures
T1 and p on any computer.
"""


def page(found: dict[str, Any], law: Law) -> str:
    """The document.

    Args:
        found: cpu, model, rounds, resident_mb and runs (load -> cores -> what each round measured).
        law: fitted to it.
    """
    runs = found["runs"]
    counts = sorted({int(count) for by_count in runs.values() for count in by_count})
    return _HEAD.format(
        cpu=found["cpu"],
        model=found["model"],
        rounds=found["rounds"],
        resident=found["resident_mb"],
        measured=table(
            ["load", *(f"{n} core{'s' if n > 1 else ''}" for n in counts)],
            [[load, *(spread(by[str(n)]) for n in counts)] for load, by in runs.items()],
        ),
        one_core=law.one_core,
        parallel=law.parallel,
        most=counts[-1],
        prices_of=PRICES_OF,
        hours=HOURS,
        instances=table(
            ["type", "vCPU", "cores", "GiB", "tokens/s", "$ a month", "$ per million tokens"],
            [_instance(each, law) for each in INSTANCES],
        ),
        share=FLEET_SHARE,
        fleets=table(["members", "tokens/s", "$ a month"], [_fleet(*f, law) for f in FLEETS]),
    )


def per_million(dollars: float, rate: float) -> float:
    """Dollars for a million tokens.

    Args:
        dollars: an hour.
        rate: tokens a second.
    """
    return dollars / (rate * 3600) * 1e6


def _instance(each: Instance, law: Law) -> list[str]:
    rate = law.rate(each.cores)
    size = [each.type, str(each.vcpus), str(each.cores), str(each.memory)]
    cost = [f"{each.dollars * HOURS:.0f}", f"{per_million(each.dollars, rate):.4f}"]
    return [*size, f"{rate:,.0f}", *cost]


def _fleet(name: str, members: int, law: Law) -> list[str]:
    each = next(instance for instance in INSTANCES if instance.type == name)
    month = f"{members * each.dollars * HOURS:,.0f}"
    return [f"{members} x {name}", f"{law.fleet(each.cores, members):,.0f}", month]
