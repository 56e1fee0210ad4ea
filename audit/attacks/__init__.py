"""Attacks on nginx that want its time or its room, and a client who must not notice them.

``python -m audit.attacks NAME ADDRESS HOST`` is one attacker; ``launch`` starts it where attackers
are, and ``witness`` measures meanwhile.
"""
