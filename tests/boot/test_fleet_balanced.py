"""Members behind a load balancer, under the load of a real client: nothing fails when one comes,
when one goes, or when the fleet's key is changed. `make fleet` is the long form.
"""

from __future__ import annotations

from contextlib import AbstractContextManager

import pytest

from tests.bench.rows import Row
from tests.fleet import steps
from tests.fleet.fleet import Fleet, fleet, steady
from tests.fleet.load import Load

pytestmark = [pytest.mark.boot, pytest.mark.timeout(1200)]


# Other tests run beside these on the same cores: the balancer gives targets, and the clients the
# balancer, more time than in `make fleet`.
BUSY, PATIENCE = 2.0, 120.0


def busy(made: Fleet) -> AbstractContextManager[Load]:
    made.load.patience = PATIENCE
    return steady(made.load)


@pytest.fixture(scope="module")
def rows(
    tmp_path_factory: pytest.TempPathFactory,
    machine_host: None,  # noqa: ARG001 - decides before anything is made
) -> list[Row]:
    """One comes, the key is changed, the first one goes."""
    with fleet(tmp_path_factory.mktemp("fleet"), "test-fleet", BUSY) as made, busy(made):
        found = [*steps.scale_out(made, 2), *steps.rotate(made, by_timer=False)]
        made.group.members.reverse()  # so that the one that stays is the new one
        return [*found, *steps.scale_in(made, 1)]


@pytest.mark.parametrize("step", ["scale out", "rotate", "scale in"])
def test_nothing_fails_while_the_fleet_changes(rows: list[Row], step: str) -> None:
    of_it = [row for row in rows if row.name.startswith(step)]
    assert of_it
    assert [row for row in of_it if not row.holds] == []
