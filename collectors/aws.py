"""AWS, for those who name it: a client on demand, and what goes wrong in words.

boto3 takes half a second to load, so it is imported in the calling thread. Credentials, profile,
region and endpoints come from the AWS configuration; messages contain none of them.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from trntop.core.errors import TrntopError
from trntop.core.text import clean

CONNECT = 5.0
READ = 15.0
"""Seconds for a connection, and for an answer."""
TRIES = 3
DEADLINE = 120.0
"""Seconds for all calls of one look; a large fleet needs many."""

_EXPIRED = (
    "ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired",
)  # fmt: skip
_UNKNOWN = (
    "AuthFailure", "InvalidClientTokenId", "UnrecognizedClientException", "InvalidAccessKeyId",
    "SignatureDoesNotMatch", "IncompleteSignature",
)  # fmt: skip
_DENIED = (
    "UnauthorizedOperation", "AccessDenied", "AccessDeniedException", "OptInRequired",
)  # fmt: skip
THROTTLED = (
    "Throttling", "ThrottlingException", "RequestLimitExceeded", "RequestThrottled",
    "TooManyRequestsException", "LimitExceededException", "SlowDown",
)  # fmt: skip


class AwsError(TrntopError):
    """AWS does not answer, or not as hoped.

    Args:
        text: one sentence.
        denied: whether only permission is missing.
        throttled: whether it was asked too often.
    """

    def __init__(self, text: str, *, denied: bool = False, throttled: bool = False) -> None:
        super().__init__(text)
        self.denied = denied
        self.throttled = throttled


def client(service: str, region: str) -> Any:
    """A client of a service; call it in a thread, it loads boto3.

    Args:
        service: `ec2`, `cloudwatch`, …
        region: empty means what the AWS configuration says.

    Raises:
        AwsError: there is no such region, or none at all.
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
        AwsError: why there is no answer.
    """
    yield from asked(action, lambda: client.get_paginator(operation).paginate(**arguments))


def asked(action: str, ask: Callable[[], Any]) -> Iterator[dict[str, Any]]:
    """What a call gives, page by page.

    Raises:
        AwsError: why there is no answer.
    """
    from botocore.exceptions import BotoCoreError, ClientError
    from botocore.parsers import ResponseParserError

    try:
        yield from ask()
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code", ""))
        raise AwsError(
            words(error, action), denied=code in _DENIED, throttled=code in THROTTLED
        ) from None
    except (ResponseParserError, UnicodeDecodeError, RecursionError):
        raise AwsError(f"{action}: what answers is not AWS") from None
    except (BotoCoreError, ValueError) as error:
        raise AwsError(words(error, action)) from None


def words(error: Exception, action: str) -> str:
    """One sentence on a failure; AWS's own text may name accounts and roles, and is left out."""
    from botocore import exceptions as known

    match error:
        case known.ClientError():
            return _refusal(str(error.response.get("Error", {}).get("Code", "")), action)
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
            return "the AWS sign-in has expired or cannot be had: aws sso login"
        case known.ProfileNotFound():
            return "AWS_PROFILE names a profile that does not exist"
        case known.ConnectTimeoutError() | known.ReadTimeoutError():
            return f"{action}: AWS has not answered in time"
        case known.EndpointConnectionError() | known.ConnectionClosedError() | known.SSLError():
            return f"{action}: AWS cannot be reached from here"
        case known.ParamValidationError():
            return f"{action}: AWS does not take what it was asked"
    return f"{action}: {type(error).__name__}"


def _refusal(code: str, action: str) -> str:
    if code in _EXPIRED:
        return "the AWS credentials have expired: sign in again"
    if code in _UNKNOWN:
        return "AWS does not know these credentials"
    if code in _DENIED:
        return f"{action} is not allowed to these credentials (docs/nodes.md has the policy)"
    if code in THROTTLED:
        return f"{action}: AWS was asked too often"
    return f"{action}: {clean(code, 64) or 'refused'}"
