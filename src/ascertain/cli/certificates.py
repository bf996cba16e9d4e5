"""`certificate` and `verify`: issue what a reviewer can check, and check it."""

from __future__ import annotations

import os
import secrets
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ascertain.cli.failing import ATTENTION, FINE
from ascertain.cli.invocation import Invocation, command

if TYPE_CHECKING:
    from ascertain.signing.verify import Verified


def register(group: typer.Typer) -> None:
    """Add the commands of this group."""
    command(group, "certificate", "account", "session")(certificate)
    command(group, "verify", journal=False)(verify)


def certificate(
    invocation: Invocation,
    action_id: Annotated[str, typer.Argument(metavar="ID", help="The action's id.")],
    target: Annotated[
        Path | None, typer.Option("--output", "-o", metavar="FILE", help="Where to write it.")
    ] = None,
) -> int:
    """Issue the certificate of an action.

    It is about the action as it stands now; where a certificate is not possible, a signed
    report says why. Without --output the file's exact bytes go to stdout. Exit code 1 for a report.
    """
    from ascertain.cli import output, session
    from ascertain.cli.account import find

    with session.writing(invocation) as opened:
        find(opened, action_id)
        kept = opened.certificate(action_id)
        issuer: Any = opened.runtime.issuer
        key, manifest, made = issuer.key_path, issuer.manifest_path, issuer.created
    if target is not None:
        _write(target, kept.body)
    if made:
        output.notice(
            f"made the signing key {key}: keep it, and keep it secret. Whoever has it can issue "
            f"in this journal's name. Verifiers need {manifest}"
        )
    if invocation.json:
        output.document(
            {
                "action_id": action_id,
                "form": kept.form,
                "digest": kept.digest,
                "position": kept.position,
                "file": None if target is None else str(target),
                "manifest": str(manifest),
                "key_created": made,
            }
        )
    elif target is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(kept.body)
        sys.stdout.buffer.flush()
    else:
        print(f"{kept.form} {kept.digest} written to {target}")
        again = ("ascertain", "verify", str(target), "--manifest", str(manifest))
        print(f"check it: {shlex.join(again)}")
    if kept.form == "report":
        output.notice("this is a report, no certificate: `ascertain show` says what is in the way")
        return ATTENTION
    return FINE


def _write(target: Path, body: bytes) -> None:
    """Write the file whole or not at all. Raises InputRefused."""
    from ascertain.errors import InputRefused
    from ascertain.signing.disk import write_new

    if target.exists() and not target.is_file():
        raise InputRefused(f"{target} is not a file", fix="Name a file to write to.")
    draft = target.with_name(f".{target.name}.{secrets.token_hex(6)}.new")
    try:
        write_new(draft, body, mode=0o644)
        os.replace(draft, target)
    except OSError as error:
        raise InputRefused(
            f"{target} cannot be written: {error.strerror}",
            fix="Name a file in a directory that exists and is writable. The certificate is kept "
            "in the journal; the same command returns it again.",
        ) from error


def verify(
    invocation: Invocation,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The certificate.")],
    manifest: Annotated[
        Path, typer.Option("--manifest", metavar="FILE", help="The key manifest you trust.")
    ],
    action: Annotated[
        str | None, typer.Option("--action", metavar="ID", help="Expect this action.")
    ] = None,
    lineage: Annotated[
        str | None, typer.Option("--lineage", metavar="ID", help="Expect this lineage.")
    ] = None,
    audience: Annotated[
        str | None, typer.Option("--audience", metavar="NAME", help="Expect this audience.")
    ] = None,
    report: Annotated[bool, typer.Option("--report", help="A signed report will do, too.")] = False,
) -> int:
    """Check a certificate offline.

    Nothing is needed but the file and a key manifest that you trust. Exit code 1 where
    it does not verify.
    """
    import time

    from ascertain.cli import output
    from ascertain.errors import VerificationFailed
    from ascertain.signing.manifest import KeyManifest
    from ascertain.signing.verify import CERTIFICATES, CERTIFICATES_AND_REPORTS
    from ascertain.signing.verify import verify as check

    trusted = KeyManifest.load(manifest)
    raw = _read(file)
    try:
        found = check(
            raw,
            trusted,
            expect_action=action,
            expect_lineage=lineage,
            expect_audience=audience,
            at_us=time.time_ns() // 1000,
            accept=CERTIFICATES_AND_REPORTS if report else CERTIFICATES,
        )
    except VerificationFailed as error:
        if invocation.json:
            output.document(
                {
                    "verified": False,
                    "file": str(file),
                    "manifest": trusted.digest,
                    "error": {
                        "kind": type(error).__name__,
                        "message": error.message,
                        "fix": error.fix,
                    },
                }
            )
        raise
    if invocation.json:
        output.document(_shape(found, file, trusted.digest))
    else:
        _show(found, file)
    return FINE


def _read(file: Path) -> bytes:
    from ascertain.errors import InputRefused
    from ascertain.signing.disk import read_bounded
    from ascertain.signing.dsse import ENVELOPE_BYTES_MAX

    try:
        return read_bounded(file, ENVELOPE_BYTES_MAX)[0]
    except OSError as error:
        raise InputRefused(
            f"{file} cannot be read: {error.strerror}", fix="Name the certificate's file."
        ) from error


def _said(found: Verified, *path: str) -> Any:
    value: Any = found.predicate
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _shape(found: Verified, file: Path, manifest: str) -> dict[str, Any]:
    from ascertain.cli.wording import utc

    return {
        "verified": True,
        "file": str(file),
        "manifest": manifest,
        "type": "report" if found.is_report else "certificate",
        "digest": found.digest,
        "action_id": found.action_id,
        "lineage": found.lineage,
        "audience": found.audience,
        "issued_at": utc(found.issued_at_us),
        "outcome": _said(found, "outcome", "word"),
        "finding": _said(found, "outcome", "finding"),
        "decision": _said(found, "recovery_decision"),
        "row": _said(found, "decision", "row"),
        "decided_again": found.decided_again,
        "keys": [
            {"key_id": key.key_id, "control_domain": key.control_domain} for key in found.keys
        ],
        "unchecked": list(found.unchecked),
        "cautions": list(found.cautions),
        "limitations": _said(found, "limitations") or [],
    }


def _show(found: Verified, file: Path) -> None:
    import time

    from rich.padding import Padding

    from ascertain.cli.output import console, styled
    from ascertain.cli.wording import moment, verdict_words
    from ascertain.core.facts import Finding

    out = console()
    kind = "report" if found.is_report else "certificate"
    out.print(styled(f"{file} verifies: a {kind} about {found.action_id}", "bold green"))
    now = time.time_ns() // 1000
    signers = ", ".join(f"{key.control_domain} ({key.key_id[:16]})" for key in found.keys)
    lines = [f"signed by {signers}, {moment(found.issued_at_us, now)}", f"digest {found.digest}"]
    known = {item.value: item for item in Finding}.get(str(_said(found, "outcome", "finding")))
    if known is not None:
        lines.insert(0, verdict_words(known))
    if found.unchecked:
        lines.append(f"nothing was expected of: {', '.join(found.unchecked)}")
    lines.extend(f"caution: {text}" for text in found.cautions)
    lines.extend(f"mind that {text}" for text in _said(found, "limitations") or [])
    for line in lines:
        out.print(Padding(styled(line), (0, 0, 0, 2)))
