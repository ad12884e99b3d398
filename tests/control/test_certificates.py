"""The certificates of a run."""

from __future__ import annotations

from cryptography import x509

from psclust.control.certificates import Authority


def test_none_ends_before_its_run_or_begins_after_it() -> None:
    authority = Authority("run")
    made = [authority.launcher(), authority.agent("a"), authority.forwarder("a")]
    for pem in (authority.certificate, *(each.certificate.encode() for each in made)):
        certificate = x509.load_pem_x509_certificate(pem)
        assert certificate.not_valid_before_utc.year == 1970  # a clock may be wrong
        assert certificate.not_valid_after_utc.year == 9999


def test_an_authority_that_was_kept_signs_for_the_same_run() -> None:
    authority = Authority("run")
    kept = Authority.from_pem(authority.to_pem())
    assert kept.certificate == authority.certificate
    late = x509.load_pem_x509_certificate(kept.forwarder("late").certificate.encode())
    late.verify_directly_issued_by(x509.load_pem_x509_certificate(authority.certificate))
