"""Obtains a certificate from an authority that speaks ACME (RFC 8555), such as Let's Encrypt, by HTTP-01."""

import importlib.util
from collections.abc import MutableMapping
from pathlib import Path
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key

from swarm.errors import SwarmError, in_a_line
from swarm.files import write_file
from swarm.version import program_version

ANSWER_PATIENCE = 30  # seconds for each answer of the authority

WAYS_OUT = {  # by the authority's kind of problem
    "caa": "allow this authority in the CAA record of the domain",
    "connection": "let port 80 of that address lead to this machine, and open it in its firewall and the cloud's",
    "dns": "give the name an A record with this machine's address, and wait until others can look it up",
    "rateLimited": "wait until then; copying the state folder also copies its certificate",
    "rejectedIdentifier": "the authority gives no certificates for this name; choose another one",
    "unauthorized": "the name leads to another machine, or port 80 to another program: correct its A and AAAA records",
}


class CertificateError(SwarmError):
    """There is no usable certificate, and none can be obtained."""


def check_installed() -> None:
    """Say before anything is begun that the library is missing.

    Raises:
        CertificateError: it is.
    """
    if importlib.util.find_spec("acme") is None:
        raise CertificateError(
            "access.tls: auto needs the package acme: pip install acme; or name PEM files in access.tls"
        )


def obtain(host: str, directory: str, account: Path, answers: MutableMapping[str, str]) -> bytes:
    """A new private key with the certificate of `host` and its chain, as PEM. Takes seconds.

    Args:
        directory: URL of the authority.
        account: file of the account's key; it is made where there is none.
        answers: what is served at port 80 of the host, by path; the challenge is answered there meanwhile.

    Raises:
        CertificateError: the authority does not answer, or refuses; says what to do.
    """
    import josepy
    from acme import challenges, client, crypto_util, errors, messages

    if not account.exists():
        write_file(account, new_key(), mode=0o600)
    try:
        secret = josepy.JWKEC(key=load_pem_private_key(account.read_bytes(), None))
    except (OSError, ValueError) as error:
        raise CertificateError(
            f"{account}: not the key of an account ({in_a_line(error)}); remove the file, and another one is made"
        ) from None
    paths = []
    try:
        net = client.ClientNetwork(
            secret, alg=josepy.ES256, user_agent=f"sahaj/{program_version()}", timeout=ANSWER_PATIENCE
        )
        authority = client.ClientV2(client.ClientV2.get_directory(directory, net), net)
        try:
            authority.new_account(messages.NewRegistration.from_data(terms_of_service_agreed=True))
        except errors.ConflictError as there:
            known = messages.RegistrationResource(uri=there.location, body=messages.Registration())
            authority.query_registration(known)
        key = new_key()
        order = authority.new_order(crypto_util.make_csr(key, [host]))
        for authorization in order.authorizations:
            if authorization.body.status == messages.STATUS_VALID:
                continue  # shown lately
            challenge = next(one for one in authorization.body.challenges if isinstance(one.chall, challenges.HTTP01))
            response, text = challenge.response_and_validation(secret)
            paths.append(challenge.path)
            answers[challenge.path] = text
            authority.answer_challenge(challenge, response)
        return key + authority.poll_and_finalize(order).fullchain_pem.encode()
    except OSError as error:  # those of requests are
        away = f"{urlsplit(directory).hostname} does not answer ({type(error).__name__})"
        raise CertificateError(f"{host}: no certificate: {away}; look at this machine's connection") from None
    except errors.ValidationError as failed:
        problems = [one.error for each in failed.failed_authzrs for one in each.body.challenges if one.error]
        raise CertificateError(describe(host, problems[0])) from None
    except errors.IssuanceError as failed:
        raise CertificateError(describe(host, failed.error)) from None
    except messages.Error as problem:
        raise CertificateError(describe(host, problem)) from None
    except (errors.Error, josepy.errors.Error, ValueError, StopIteration) as error:
        raise CertificateError(f"{host}: no certificate: {in_a_line(error)}; start again later") from None
    finally:
        for path in paths:
            answers.pop(path, None)


def describe(host: str, problem: object) -> str:
    """One line for a problem document of an authority."""
    kind, detail = str(getattr(problem, "code", "") or ""), getattr(problem, "detail", None) or problem
    return f"{host}: no certificate: {in_a_line(detail)}; {WAYS_OUT.get(kind, 'start again later')}"


def new_key() -> bytes:
    """A new private key, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
