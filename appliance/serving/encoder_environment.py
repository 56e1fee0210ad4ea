"""Environment variables that the forward pass needs before PyTorch is loaded."""

from __future__ import annotations

# A forward is about 100 parallel regions, after each of which a thread waits for the other and for
# the next. Asleep at once, it has to be woken 100 times: a sixth of a short query. By default it
# spins for 15 ms, and when anything else wants a core (the event loop, a tokenizer, nginx) a region
# waits for whole scheduler slices: with one busy process beside it on two cores a short query took
# 62-1,000 ms. Two thousand turns are some 100 us: 20 ms then, where sleeping takes 14.
ENVIRONMENT = {"GOMP_SPINCOUNT": "2000"}
