"""The matrix-product peak of this machine, in this run."""

from __future__ import annotations

import time

import torch

_SIZE, _SECONDS = 1024, 0.5


def matrix_product_peak() -> float:
    """Floating-point operations a second of the best large float32 product seen."""
    a, b = torch.randn(_SIZE, _SIZE), torch.randn(_SIZE, _SIZE)
    best, end = float("inf"), time.perf_counter() + _SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        torch.mm(a, b)
        best = min(best, time.perf_counter() - start)
    return 2.0 * _SIZE**3 / best
