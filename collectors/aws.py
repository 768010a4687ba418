"""AWS: clients, signed requests, and failures in words.

boto3 takes half a second to load, so it is imported in the calling thread. Credentials, profile,
region and endpoints come from the AWS configuration; messages contain none of them.
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from trntop.core.errors import TrntopError
from trntop.core.text import clean

if TYPE_CHECKING:
    from botocore.credentials import Credentials

CONNECT = 5.0
READ = 15.0
"""Seconds for a connection, and for a response."""
TRIES = 3
DEADLINE = 120.0
"""Seconds for all calls of one refresh; a large fleet needs many."""

_DENIED = (
    "UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "OptInRequired",
)  # fmt: skip
THROTTLED = (
    "Throttling", "ThrottlingException", "RequestLimitExceeded", "RequestThrottled",
    "TooManyRequestsException", "LimitExceededException", "SlowDown",
)  # fmt: skip
_CODES = {
    **dict.fromkeys(
        ("ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"),
        "the AWS credentials have expired: sign in again",
    ),
    **dict.fromkeys(
        ("AuthFailure", "InvalidClientTokenId", "UnrecognizedClientException",
         "InvalidAccessKeyId", "SignatureDoesNotMatch", "IncompleteSignature"),
        "the AWS credentials are not valid",
    ),
    **dict.fromkeys(
        _DENIED, "{} is not allowed for these credentials (docs/nodes.md has the policy)"
    ),
    **dict.fromkeys(THROTTLED, "{}: too many requests to AWS"),
}  # fmt: skip


class AwsError(TrntopError):
    """A call to AWS failed.

    Args:
        text: one sentence.
        denied: only a permission is missing.
        throttled: too many requests.
    """

    def __init__(self, text: str, *, denied: bool = False, throttled: bool = False) -> None:
        super().__init__(text)
        self.denied = denied
        self.throttled = throttled


def client(service: str, region: str) -> Any:
    """A client of a service; call it in a thread, it loads boto3.

    Args:
        service: `ec2`, `cloudwatch`, …
        region: empty means that of the AWS configuration.

    Raises:
        AwsError: the region is not valid, or there is none.
    """
    import boto3
    from botocore.config import Config
    from botocore.exceptions import BotoCoreError

    config = Config(
        connect_timeout=CONNECT,
        read_timeout=READ,
        retries={"mode": "standard", "total_max_attempts": TRIES},
        user_agent_extra="trntop",
    )
    try:
        session: Any = boto3.session.Session()
        return session.client(service, region_name=region or None, config=config)
    except (BotoCoreError, ValueError) as error:
        raise AwsError(words(error, service)) from None


class Signer:
    """Signs requests to one service (Signature Version 4).

    Args:
        service: its signing name.
        region: its region.
    """

    def __init__(self, service: str, region: str) -> None:
        self._service = service
        self._region = region
        self._credentials: Credentials | None = None

    async def headers(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str]
    ) -> dict[str, str]:
        """The headers of a request with its signature.

        Raises:
            AwsError: there are no credentials.
        """
        # Finding and renewing credentials may use the network.
        return await asyncio.to_thread(self._sign, method, url, body, headers)

    def _sign(
        self, method: str, url: str, body: bytes, headers: Mapping[str, str]
    ) -> dict[str, str]:
        import botocore.session
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError, ClientError, NoCredentialsError

        try:
            if self._credentials is None:
                self._credentials = botocore.session.Session().get_credentials()
            if self._credentials is None:
                raise NoCredentialsError
            request = AWSRequest(method, url, data=body, headers=dict(headers))
            keys = self._credentials.get_frozen_credentials()
            SigV4Auth(keys, self._service, self._region).add_auth(request)
        except (BotoCoreError, ClientError) as error:
            raise AwsError(words(error, self._service)) from None
        return dict(request.headers.items())


def pages(
    client: Any, action: str, operation: str, arguments: Mapping[str, Any]
) -> Iterator[dict[str, Any]]:
    """The pages of a paged operation.

    Args:
        client: a client of the service.
        action: its name in IAM, `ec2:DescribeInstances`.
        operation: its name in boto3, `describe_instances`.
        arguments: of the operation.

    Raises:
        AwsError: the reason of a failure.
    """
    yield from call(action, lambda: client.get_paginator(operation).paginate(**arguments))


def call(action: str, pages: Callable[[], Any]) -> Iterator[dict[str, Any]]:
    """The pages of a call.

    Raises:
        AwsError: the reason of a failure.
    """
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    try:
        yield from pages()
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        raise AwsError(
            words(error, action), denied=code in _DENIED, throttled=code in THROTTLED
        ) from None
    except (ResponseParserError, UnicodeDecodeError, RecursionError):
        raise AwsError(f"{action}: the response is not from AWS") from None
    except (BotoCoreError, ValueError) as error:
        raise AwsError(words(error, action)) from None


def words(error: Exception, action: str) -> str:
    """One sentence; AWS's own text may name accounts and roles, and is left out."""
    from botocore import exceptions as known

    match error:
        case known.ClientError():
            code = str(error.response.get("Error", {}).get("Code", ""))
            text = _CODES.get(code)
            return text.format(action) if text else f"{action}: {clean(code, 64) or 'refused'}"
        case known.NoRegionError():
            return "no AWS region: set fleet.region or AWS_REGION"
        case known.NoCredentialsError() | known.PartialCredentialsError():
            return "no AWS credentials found: aws configure, AWS_PROFILE or a role of the instance"
        case (
            known.TokenRetrievalError()
            | known.SSOTokenLoadError()
            | known.UnauthorizedSSOTokenError()
            | known.CredentialRetrievalError()
        ):
            return "the AWS sign-in has expired: aws sso login"
        case known.ProfileNotFound():
            return "AWS_PROFILE names a profile that does not exist"
        case known.ConnectTimeoutError() | known.ReadTimeoutError():
            return f"{action}: no response of AWS in time"
        case known.EndpointConnectionError() | known.ConnectionClosedError() | known.SSLError():
            return f"{action}: AWS cannot be reached from here"
        case known.ParamValidationError():
            return f"{action}: AWS rejects the request"
    return f"{action}: {type(error).__name__}"
