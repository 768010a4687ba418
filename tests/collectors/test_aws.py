import subprocess
import sys
from typing import Any

import pytest

from trntop.collectors.aws import AwsError, call, words

exceptions = pytest.importorskip("botocore.exceptions")


def refusal(code: str) -> Exception:
    response = {"Error": {"Code": code, "Message": "arn:aws:sts::123456789012:assumed-role/x"}}
    error: Exception = exceptions.ClientError(response, "DescribeInstances")
    return error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (exceptions.NoRegionError(), "no AWS region"),
        (exceptions.NoCredentialsError(), "no AWS credentials found"),
        (
            exceptions.PartialCredentialsError(provider="env", cred_var="x"),
            "no AWS credentials found",
        ),
        (exceptions.UnauthorizedSSOTokenError(), "aws sso login"),
        (exceptions.SSOTokenLoadError(error_msg="x"), "aws sso login"),
        (exceptions.TokenRetrievalError(provider="sso", error_msg="x"), "aws sso login"),
        (exceptions.CredentialRetrievalError(provider="p", error_msg="x"), "aws sso login"),
        (exceptions.ProfileNotFound(profile="x"), "AWS_PROFILE"),
        (exceptions.ConnectTimeoutError(endpoint_url="http://x"), "no response of AWS"),
        (exceptions.ReadTimeoutError(endpoint_url="http://x"), "no response of AWS"),
        (exceptions.EndpointConnectionError(endpoint_url="http://x"), "cannot be reached"),
        (exceptions.ParamValidationError(report="x"), "rejects"),
        (
            exceptions.UnknownServiceError(service_name="x", known_service_names=""),
            "UnknownService",
        ),
        (refusal("ExpiredToken"), "credentials have expired"),
        (refusal("RequestExpired"), "credentials have expired"),
        (refusal("InvalidClientTokenId"), "credentials are not valid"),
        (refusal("AccessDenied"), "ec2:DescribeX is not allowed for these credentials"),
        (refusal("UnauthorizedOperation"), "ec2:DescribeX is not allowed"),
        (refusal("Throttling"), "too many requests"),
        (refusal("Odd\x1b]0;x"), "ec2:DescribeX: Odd"),
        (refusal(""), "ec2:DescribeX: refused"),
    ],
)
def test_failures_in_words(error: Exception, message: str) -> None:
    text = words(error, "ec2:DescribeX")
    assert message in text
    assert text.isprintable()
    assert "123456789012" not in text


@pytest.mark.parametrize(
    ("code", "denied", "throttled"),
    [
        ("AccessDenied", True, False),
        ("RequestLimitExceeded", False, True),
        ("InternalError", False, False),
    ],
)
def test_what_kind_of_refusal_it_is(code: str, denied: bool, throttled: bool) -> None:
    def ask() -> Any:
        raise refusal(code)

    with pytest.raises(AwsError) as caught:
        list(call("ec2:DescribeX", ask))
    assert (caught.value.denied, caught.value.throttled) == (denied, throttled)
    assert caught.value.__cause__ is None, "the text of AWS is not behind it either"


def test_boto3_is_loaded_by_the_first_question_only() -> None:
    code = (
        "import sys; from trntop.collectors import cloudwatch; from trntop.collectors.fleet import "
        "finders; from trntop.core.settings import Settings; from trntop.core.source_spec import "
        "parse\n"
        "finders.finder(parse('ec2:tag/run=7'), Settings())\n"
        "cloudwatch.collectors(parse('cloudwatch:train'), Settings())\n"
        "assert not {'boto3', 'botocore', 'textual'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
