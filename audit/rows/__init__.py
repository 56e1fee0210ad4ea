"""The rows of the table, a module for each tool.

A module here is all it takes to add rows: it has a function ``rows(machine)`` which yields
them, and which may raise ApplianceError when its tool cannot be run. ``machine`` is a booted
machine that is thrown away afterwards, so a tool may be installed into it.
A control that ``make test`` tries already needs a line in ``tests.py`` only.
"""
