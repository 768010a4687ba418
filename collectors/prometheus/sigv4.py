"""Signed requests for Amazon Managed Service for Prometheus: AWS Signature Version 4.

The keys come from where AWS's tools find them: environment, files, the instance's role. Finding
and renewing them may wait for the network, so that it happens in a thread.
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING

import httpx

from trntop.core.errors import TrntopError
from trntop.core.text import clean

if TYPE_CHECKING:
    from botocore.credentials import Credentials

SERVICE = "aps"


class SigningError(TrntopError):
    """There are no keys to sign with."""


class SigV4(httpx.Auth):
    """Signs each request; its body is part of the signature.

    Args:
        region: of the workspace.
    """

    requires_request_body = True

    def __init__(self, region: str) -> None:
        self._region = region
        self._credentials: Credentials | None = None

    async def async_auth_flow(
        self, request: httpx.Request
    ) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Puts the signature into a request.

        Raises:
            SigningError: there are no keys.
        """
        await request.aread()
        signed = await asyncio.to_thread(
            self._sign, request.method, str(request.url), request.content,
            request.headers.get("Content-Type", ""),
        )  # fmt: skip
        for name in ("Authorization", "X-Amz-Date", "X-Amz-Security-Token"):
            if name in signed:
                request.headers[name] = signed[name]
        yield request

    def _sign(self, method: str, url: str, body: bytes, content_type: str) -> dict[str, str]:
        """The headers of a signed request."""
        import botocore.session
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            if self._credentials is None:
                self._credentials = botocore.session.Session().get_credentials()
            if self._credentials is None:
                raise SigningError("no AWS credentials: aws configure, or a role for the instance")
            headers = {"Content-Type": content_type} if content_type else {}
            request = AWSRequest(method, url, data=body, headers=headers)
            keys = self._credentials.get_frozen_credentials()
            SigV4Auth(keys, SERVICE, self._region).add_auth(request)
        except (BotoCoreError, ClientError) as error:
            raise SigningError(f"AWS credentials: {clean(str(error), 120)}") from error
        return dict(request.headers.items())
