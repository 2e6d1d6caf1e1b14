"""Sign requests to a bucket with what the pod has, with nothing but the standard library.

Keys from a Secret in the environment; else the role that an account's web identity token stands for
(IRSA, or any cluster whose issuer the store's STS trusts); else what EKS Pod Identity hands out.
Without any of them a request goes out as nobody's, to a bucket that anybody may read.
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import json
import os
import re
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

Json = dict[str, Any]
Keys = dict[str, str]

TIMEOUT_S = 60
NO_PAYLOAD = hashlib.sha256(b"").hexdigest()
ROLE_S = 3600  # how long the keys of a role hold: what every role allows
MAX_ANSWER_BYTES = 64 * 1024
# STS's words for what may be over in a moment.
PASSING = ("IDPCommunicationError", "Throttling", "ServiceUnavailable", "InternalFailure")


class NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follow no one elsewhere: urllib would take the signature and the session token along."""

    def redirect_request(self, *_: Any) -> None:
        """Refuse; the answer becomes an HTTPError."""


OPENER = urllib.request.build_opener(NoRedirect)


class BucketError(Exception):
    """The bucket cannot give what it should; `passes`: asking again may help."""

    def __init__(self, message: str, *, passes: bool = False) -> None:
        super().__init__(message)
        self.passes = passes


def signature(bucket: Json, url: str) -> dict[str, str]:
    """Sign a GET (AWS documentation, "Create a signed AWS API request"); {} without keys."""
    keys = credentials(bucket)
    if keys is None:
        return {}
    parts = urlsplit(url)
    now = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    signed = {"host": parts.netloc, "x-amz-content-sha256": NO_PAYLOAD, "x-amz-date": now}
    if keys.get("token"):
        signed["x-amz-security-token"] = keys["token"]
    names = ";".join(sorted(signed))
    lines = "".join(f"{name}:{signed[name]}\n" for name in sorted(signed))
    canonical = f"GET\n{parts.path}\n{parts.query}\n{lines}\n{names}\n{NO_PAYLOAD}"
    scope = f"{now[:8]}/{bucket['region']}/s3/aws4_request"
    digest = hashlib.sha256(canonical.encode()).hexdigest()
    key = f"AWS4{keys['secret']}".encode()
    for step in (*scope.split("/"), f"AWS4-HMAC-SHA256\n{now}\n{scope}\n{digest}"):
        key = hmac.new(key, step.encode(), hashlib.sha256).digest()
    proof = f"Credential={keys['id']}/{scope}, SignedHeaders={names}, Signature={key.hex()}"
    del signed["host"]  # urllib sends it
    return {**signed, "Authorization": f"AWS4-HMAC-SHA256 {proof}"}


def credentials(bucket: Json) -> Keys | None:
    """Find the keys that the pod has; None: nobody gave it any."""
    if key_id := os.environ.get("AWS_ACCESS_KEY_ID"):
        secret, token = os.environ["AWS_SECRET_ACCESS_KEY"], os.environ.get("AWS_SESSION_TOKEN", "")
        return {"id": key_id, "secret": secret, "token": token}
    if os.environ.get("AWS_ROLE_ARN") and os.environ.get("AWS_WEB_IDENTITY_TOKEN_FILE"):
        return ROLE.keys(bucket["sts"])
    if url := os.environ.get("AWS_CONTAINER_CREDENTIALS_FULL_URI"):
        return pod_identity(url)
    return None


class RoleKeys:
    """The keys of a role, asked for anew when half of their time is over.

    By a clock that only goes on: that of a node may be wrong, and STS says dates.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()  # eight files ask at once
        self._keys: Keys = {}
        self._until_s = 0.0

    def keys(self, sts: str) -> Keys:
        """Give keys that hold for half an hour at least."""
        with self._lock:
            if not self._keys or self._clock() >= self._until_s:
                asked_s = self._clock()
                self._keys = assume_role(sts)
                self._until_s = asked_s + ROLE_S / 2
            return self._keys


ROLE = RoleKeys()


def assume_role(sts: str) -> Keys:
    """Trade the account's token for keys of the role; the token is read anew: kubelet renews it."""
    role = os.environ["AWS_ROLE_ARN"]
    where = f"{sts}: {role}"
    asked = {
        "Action": "AssumeRoleWithWebIdentity",
        "Version": "2011-06-15",
        "RoleArn": role,
        "RoleSessionName": "k3fleet-weights-stage",
        "DurationSeconds": str(ROLE_S),
    }
    try:
        token = Path(os.environ["AWS_WEB_IDENTITY_TOKEN_FILE"]).read_text().strip()
        body = urlencode({**asked, "WebIdentityToken": token}).encode()
        with OPENER.open(f"{sts}/", data=body, timeout=TIMEOUT_S) as answer:
            said = answer.read(MAX_ANSWER_BYTES).decode(errors="replace")
    except urllib.error.HTTPError as error:
        code = element(error.read(MAX_ANSWER_BYTES).decode(errors="replace"), "Code")
        raise BucketError(
            f"{where}: HTTP {error.code} {code[:64]!a}. Check the role's trust policy: "
            "the cluster's issuer, and the account weights-stage of this namespace.",
            passes=error.code >= 500 or error.code == 429 or code in PASSING,
        ) from error
    except (OSError, http.client.HTTPException) as error:
        told = f"{where}: {type(error).__name__}. Check the token's file and the way to STS."
        raise BucketError(told, passes=True) from error
    names = {"id": "AccessKeyId", "secret": "SecretAccessKey", "token": "SessionToken"}
    keys = {name: element(said, tag) for name, tag in names.items()}
    if not all(keys.values()):
        raise BucketError(f"{where}: the answer holds no keys. Look for a proxy on the way.")
    return keys


def element(text: str, tag: str) -> str:
    """Take the text of an element that occurs once; empty: it is not there."""
    found = re.search(rf"<{tag}>([^<]*)</{tag}>", text)
    return found[1].strip() if found else ""


def pod_identity(url: str) -> Keys:
    """Ask the agent of EKS Pod Identity, anew each time: it is on this node, and renews them."""
    token = Path(os.environ["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"]).read_text()
    request = urllib.request.Request(url, headers={"Authorization": token})  # noqa: S310
    try:
        with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:  # noqa: S310
            found = json.load(answer)
        return {
            "id": found["AccessKeyId"],
            "secret": found["SecretAccessKey"],
            "token": found["Token"],
        }
    except (OSError, ValueError, KeyError) as error:
        told = f"Pod Identity: {type(error).__name__}. Check its agent on this node."
        raise BucketError(told, passes=True) from error
