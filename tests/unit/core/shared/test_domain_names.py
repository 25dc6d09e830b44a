"""Names of one owner go together, those of others do not."""

import pytest

from core.shared.call_policy import registrable_domain


@pytest.mark.parametrize(
    ("host", "domain"),
    [
        ("a.b.example.com", "example.com"),
        ("Example.COM.", "example.com"),
        ("example.com", "example.com"),
        ("localhost", "localhost"),
        ("x.evil.co.uk", "evil.co.uk"),
        ("shop.victim.co.uk", "victim.co.uk"),
        ("a.b.gouv.fr", "b.gouv.fr"),
        ("co.uk", "co.uk"),
        ("a.b.wikipedia.de", "wikipedia.de"),
        ("a.b.or.jp", "b.or.jp"),
    ],
)
def test_two_labels_or_three(host: str, domain: str) -> None:
    assert registrable_domain(host) == domain
