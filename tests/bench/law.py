"""How tokens per second grow with cores and with instances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

# Of a fleet's capacity that is planned for: the rest absorbs bursts, and one member's loss.
FLEET_SHARE = 0.8


@dataclass(frozen=True)
class Law:
    """Amdahl's law, https://en.wikipedia.org/wiki/Amdahl%27s_law.

    Attributes:
        one_core: tokens a second on one core.
        parallel: the share of that core's time that more cores divide among them, 0 to 1.
    """

    one_core: float
    parallel: float

    @classmethod
    def fit(cls, rates: Mapping[int, float]) -> Law:
        """The law through the rate on one core and the one on the most.

        Args:
            rates: number of cores -> tokens a second; with 1 and at least one more.

        Raises:
            ValueError: only one number of cores was measured.
        """
        most = max(rates)
        if most == 1:
            raise ValueError("one core alone says nothing about two")
        share = (1 - rates[1] / rates[most]) / (1 - 1 / most)
        return cls(rates[1], min(max(share, 0.0), 1.0))

    def rate(self, cores: int) -> float:
        """Tokens a second of an instance with so many physical cores."""
        return self.one_core / (1 - self.parallel + self.parallel / cores)

    def fleet(self, cores: int, members: int) -> float:
        """Tokens a second to plan with; members share nothing, so they add up."""
        return members * self.rate(cores) * FLEET_SHARE
