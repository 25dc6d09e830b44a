"""Path convertors for ids, which keep words at the same place free for other routes."""

from starlette.convertors import Convertor, register_url_convertor

from core.shared.tsid import ALPHABET, LENGTH


class _Tsid(Convertor[str]):
    """An id of Muster; endpoints check whether it is valid."""

    regex = f"[{ALPHABET}]{{{LENGTH}}}"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


TSID = "tsid"
register_url_convertor(TSID, _Tsid())
