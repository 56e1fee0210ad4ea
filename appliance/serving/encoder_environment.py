"""Environment variables that the forward pass needs before PyTorch is loaded."""

from __future__ import annotations

# A forward is about 100 parallel regions. By default the OpenMP threads spin at the end of
# each, so when anything else wants a core (the event loop, a tokenizer, nginx) a region waits
# for whole scheduler slices: with one busy process beside it on two cores a short query took
# 62-1,000 ms, with passive waiting 16 ms. Alone it costs under 1 ms (9.0 against 10.4 ms).
ENVIRONMENT = {"OMP_WAIT_POLICY": "passive"}
