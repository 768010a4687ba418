import ssl
import stat
from pathlib import Path

import pytest

from tests.serving import Authority
from trntop.core.errors import SettingsError
from trntop.exporters.web.tls import context_of, names_of
from trntop.exporters.web.web_config import TlsServer


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return Authority(tmp_path_factory.mktemp("tls")).issue("server", "localhost")


def made(pair: tuple[Path, Path], **settings: object) -> tuple[ssl.SSLContext, list[str]]:
    """A context, and what was warned of."""
    warned: list[str] = []
    certificate, key = pair
    files = {"cert_file": str(certificate), "key_file": str(key), **settings}
    return context_of(TlsServer(**files), warned.append), warned  # type: ignore[arg-type]


def refused(pair: tuple[Path, Path], **settings: object) -> str:
    with pytest.raises(SettingsError) as caught:
        made(pair, **settings)
    return str(caught.value)


def test_defaults(pair: tuple[Path, Path]) -> None:
    context, warned = made(pair)
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
    assert context.maximum_version is ssl.TLSVersion.TLSv1_3
    assert context.verify_mode is ssl.CERT_NONE
    assert context.options & ssl.OP_CIPHER_SERVER_PREFERENCE
    assert not warned


def test_inline(pair: tuple[Path, Path]) -> None:
    certificate, key = (file.read_text() for file in pair)
    made(pair, cert=certificate, key=key, cert_file="", key_file="")
    assert refused(pair, cert=certificate) == "cert and cert_file: only one of them"


def test_versions(pair: tuple[Path, Path]) -> None:
    context, _ = made(pair, min_version="TLS13")
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    context, _ = made(pair, max_version="TLS12")
    assert context.maximum_version is ssl.TLSVersion.TLSv1_2
    assert "use TLS12 or TLS13" in refused(pair, min_version="TLS11")
    assert "use TLS12 or TLS13" in refused(pair, max_version="TLS10")
    assert refused(pair, min_version="TLS13", max_version="TLS12").startswith("min_version is")


def test_suites_and_curves_are_those_of_openssl(pair: tuple[Path, Path]) -> None:
    plain, _ = made(pair)
    context, warned = made(pair, cipher_suites=("TLS_X",), curve_preferences=("CurveP256",))
    assert context.get_ciphers() == plain.get_ciphers()
    assert [one.split()[0] for one in warned] == ["cipher_suites", "curve_preferences"]


@pytest.mark.parametrize(
    ("kind", "mode", "said"),
    [
        ("RequireAndVerifyClientCert", ssl.CERT_REQUIRED, ""),
        ("VerifyClientCertIfGiven", ssl.CERT_OPTIONAL, ""),
        ("RequireAnyClientCert", ssl.CERT_REQUIRED, "is kept as RequireAndVerifyClientCert"),
        ("RequireClientCert", ssl.CERT_REQUIRED, "is kept as RequireAndVerifyClientCert"),
        ("RequestClientCert", ssl.CERT_NONE, "lets every client in"),
    ],
)
def test_client_authentication(
    pair: tuple[Path, Path], kind: str, mode: ssl.VerifyMode, said: str
) -> None:
    context, warned = made(pair, client_auth_type=kind, client_ca_file=str(pair[0]))
    assert context.verify_mode is mode
    assert (said in warned[0]) if said else not warned


def test_client_authentication_that_does_not_fit_together(pair: tuple[Path, Path]) -> None:
    kind = "RequireAndVerifyClientCert"
    authority = str(pair[0])
    assert "needs client_ca_file" in refused(pair, client_auth_type=kind)
    assert "asks for nothing" in refused(pair, client_ca_file=authority)
    key = str(pair[1])
    assert "no certificates in PEM" in refused(pair, client_auth_type=kind, client_ca_file=key)
    for weak in ("NoClientCert", "RequestClientCert", "VerifyClientCertIfGiven"):
        said = refused(
            pair, client_auth_type=weak, client_ca_file=authority, client_allowed_sans=("a",)
        )
        assert said.startswith("client_allowed_sans needs")


def test_certificates_that_cannot_be_used(pair: tuple[Path, Path], tmp_path: Path) -> None:
    other = Authority(tmp_path).issue("other", "localhost")
    certificate, key = map(str, pair)
    assert "no certificate with its key: key values mismatch" in refused(
        pair, key_file=str(other[1])
    )
    assert "no certificate with its key" in refused(pair, cert_file=key)
    assert "no certificate with its key" in refused(pair, key_file=certificate)
    assert refused(pair, cert_file="/none.pem") == "/none.pem: No such file or directory"
    assert refused(pair, key_file="") == "key_file is missing"


def test_an_encrypted_key_asks_nobody_for_a_password(
    pair: tuple[Path, Path], tmp_path: Path
) -> None:
    from cryptography.hazmat.primitives import serialization

    key = serialization.load_pem_private_key(pair[1].read_bytes(), None)
    (tmp_path / "key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.BestAvailableEncryption(b"secret"),
        )
    )
    assert "no certificate with its key" in refused(pair, key_file=str(tmp_path / "key"))


@pytest.mark.parametrize(("mode", "warns"), [(0o600, False), (0o640, False), (0o644, True)])
def test_a_key_that_all_can_read(tmp_path: Path, mode: int, warns: bool) -> None:
    pair = Authority(tmp_path).issue("server", "localhost")
    pair[1].chmod(mode)
    assert stat.S_IMODE(pair[1].stat().st_mode) == mode
    _, warned = made(pair)
    assert any("every user of this machine can read this key" in one for one in warned) is warns


def test_names() -> None:
    given = {
        "subjectAltName": (
            ("DNS", "a.example.org"),
            ("email", "a@example.org"),
            ("URI", "spiffe://a/b"),
            ("IP Address", "10.0.0.1"),
            ("IP Address", "2001:DB8:0:0:0:0:0:1\n"),
            ("DirName", "x"),
            ("IP Address", "<invalid>"),
        )
    }
    assert names_of(given) == {
        *("a.example.org", "a@example.org", "spiffe://a/b", "10.0.0.1", "2001:db8::1"),
    }
    assert names_of({}) == names_of(None) == frozenset()
