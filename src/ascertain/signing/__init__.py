"""Signing and offline verification. No journal, no network, no clock: bytes and a key manifest.

Sign with :func:`~ascertain.signing.statement.statement` and :func:`~ascertain.signing.dsse.seal`,
under a :class:`~ascertain.signing.keys.SigningKey`. Verify with
:func:`~ascertain.signing.verify.verify`, against a
:class:`~ascertain.signing.manifest.KeyManifest`.
"""
