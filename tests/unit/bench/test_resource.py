from bench.peers.resource import ANSWER, DOCUMENT


def test_the_answer_says_its_own_length() -> None:
    assert b"content-length: %d\r\n" % len(DOCUMENT) in ANSWER
    assert ANSWER.endswith(b"\r\n\r\n" + DOCUMENT)
