"""What happens to the fleet under load, step by step, and what each step has to show."""

from __future__ import annotations

import http.client
import time

import openai

from tests.bench.rows import Row, at_least, at_most
from tests.fleet.balancer import PROBE_INTERVAL, SHORTENED, UNHEALTHY
from tests.fleet.fleet import KEY, NEW_KEY, Fleet, load_for, wait
from tests.fleet.load import CLIENTS, PATIENCE, Event
from tests.fleet.member import cut_power

SOME = 40  # calls after a change
# Seconds. HAProxy gives up on a target that does not connect when the next probe would be due.
NOTICED = UNHEALTHY * 2 * PROBE_INTERVAL / SHORTENED
TIMER = 145.0  # infinity-fleet-sync.timer: two minutes and at most 20 s more, and the work


def scale_out(fleet: Fleet, to: int) -> list[Row]:
    began = time.monotonic()
    while len(fleet.members) < to:
        fleet.enter()
    entered = time.monotonic()
    load_for(fleet, SOME)
    return [
        *undisturbed(fleet, f"scale out to {to}", began),
        at_least(f"scale out to {to}: members that answer", float(len(fleet.served(entered))), to),
    ]


def scale_in(fleet: Fleet, to: int) -> list[Row]:
    began = time.monotonic()
    cut = [not fleet.leave(machine) for machine in fleet.members[to:]]
    load_for(fleet, SOME)
    name = f"scale in to {to}"
    return [
        *undisturbed(fleet, name, began),
        at_most(f"{name}: members that had not finished when they ended", float(sum(cut)), 0),
    ]


def replace(fleet: Fleet) -> list[Row]:
    """Instance refresh: for each member a new one gets ready, then the old one drains and ends."""
    began, old = time.monotonic(), fleet.members
    cut = []
    for machine in old:
        fleet.enter()
        cut.append(not fleet.leave(machine))
    load_for(fleet, SOME)
    name = f"replace all {len(old)}"
    return [
        *undisturbed(fleet, name, began),
        at_most(f"{name}: members that had not finished when they ended", float(sum(cut)), 0),
    ]


def kill(fleet: Fleet) -> list[Row]:
    """One member loses its power; the group replaces it."""
    dead = fleet.members[0]
    cut = time.monotonic()
    cut_power(dead)
    noticed = cut + wait(lambda: not fleet.balancer.healthy(dead.address), "notice of it")
    wait(lambda: time.monotonic() > noticed + PATIENCE, "the end of what was under way")
    calls, attempts = fleet.load.since(cut - PATIENCE)
    failed = [event for event in attempts if event.failure and event.ended >= cut]
    log = fleet.balancer.log()
    alive = [event for event in failed if log[event.id].target != dead.address]
    late = [event for event in failed if event.began > noticed]
    address = dead.address
    fleet.balancer.deregister(address)
    fleet.enter()
    fleet.group.terminate(dead)
    return [
        at_most("kill one: seconds until the balancer notices", noticed - cut, NOTICED + 2),
        at_most("kill one: failed attempts on it until then", float(len(failed)), 2 * CLIENTS),
        at_most("kill one: failed attempts on another member", float(len(alive)), 0),
        at_most("kill one: failed attempts later", float(len(late)), 0),
        at_most("kill one: failed calls of a client that asks again", failures(calls), 0),
    ]


def rotate(fleet: Fleet, *, by_timer: bool) -> list[Row]:
    """Let both keys in, have the clients change theirs, take the old one away.

    Args:
        fleet: all of whose members follow.
        by_timer: only the first member is told; the timers of the others have to do it. Otherwise
            each is told.
    """
    began, count = time.monotonic(), len(fleet.members)
    fleet.secret.change({"api_keys": {"search": [NEW_KEY, KEY]}})
    taken_over = _follow(fleet, by_timer=by_timer, new=NEW_KEY)
    both = len(fleet.accepts(KEY)) + len(fleet.accepts(NEW_KEY))
    fleet.load.key = NEW_KEY
    load_for(fleet, SOME)
    fleet.secret.change({"api_keys": {"search": NEW_KEY}})
    for machine in fleet.members:
        machine.exec("infinity-fleet-sync")
    load_for(fleet, SOME)
    calls, attempts = fleet.load.since(began)
    refused = [event for event in attempts if event.failure.startswith("401")]
    rows = [
        at_least("rotate: members that take both keys, twice each", float(both), 2 * count),
        at_most("rotate: members that take the old key in the end", len(fleet.accepts(KEY)), 0),
        at_most("rotate: attempts that were refused", float(len(refused)), 0),
        # A reload ends connections that are kept: what is just then on its way on one is lost.
        at_most(f"rotate: failed attempts of {len(attempts)}", failures(attempts), 2.0 * count),
        at_most(f"rotate: failed calls of {len(calls)}", failures(calls), 0),
    ]
    if by_timer:
        rows.append(at_most("rotate: seconds until the last timer", taken_over, TIMER))
    return rows


def _follow(fleet: Fleet, *, by_timer: bool, new: str) -> float:
    """Seconds until all members take the new key."""
    told = fleet.members[:1] if by_timer else fleet.members
    for machine in told:
        machine.exec("infinity-fleet-sync")
    assert {machine.name for machine in told} <= set(fleet.accepts(new))
    return wait(lambda: len(fleet.accepts(new)) == len(fleet.members), "the last timer")


def nobody_healthy(fleet: Fleet) -> list[Row]:
    """Without a load: no model answers, so the balancer asks everybody, and they say what is."""
    for machine in fleet.members:
        machine.exec("systemctl stop infinity.service")
    wait(
        lambda: not any(fleet.balancer.healthy(machine.address) for machine in fleet.members),
        "notice of it",
    )
    began = time.monotonic()
    explained = False
    try:
        client = fleet.load.client(NEW_KEY, retries=0)
        client.embeddings.create(model=fleet.load.model, input="anybody there?")
    except openai.InternalServerError as error:
        explained = (
            error.status_code == http.client.SERVICE_UNAVAILABLE
            and "retry-after" in error.response.headers
            and isinstance(error.body, dict)
        )
    asked = [seen for seen in (fleet.balancer.log().get(event.id) for event in
             fleet.load.since(began)[1]) if seen]  # fmt: skip
    by_member = {seen.target for seen in asked} <= {one.address for one in fleet.members}
    for machine in fleet.members:
        machine.exec("systemctl start --no-block infinity.service")
    wait(
        lambda: all(fleet.balancer.healthy(machine.address) for machine in fleet.members),
        "their recovery",
    )
    return [
        at_least("no member healthy: they say so themselves, with Retry-After",
                 float(explained and by_member), 1)]  # fmt: skip


def undisturbed(fleet: Fleet, name: str, began: float) -> list[Row]:
    """Nothing failed, and something was asked."""
    calls, attempts = fleet.load.since(began)
    return [
        at_most(f"{name}: failed attempts of {len(attempts)}", failures(attempts), 0),
        at_least(f"{name}: calls meanwhile", float(len(calls)), SOME),
    ]


def failures(events: list[Event]) -> float:
    return float(sum(bool(event.failure) for event in events))
