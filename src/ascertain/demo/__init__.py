"""The demo: supplier payments through a lossy network to a provider that nobody here wrote.

Needs the extra ``demo``: the official ``stripe`` client, and ``localstripe``, which is run as a
program of its own and never imported.
"""
