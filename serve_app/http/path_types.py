"""Parts of paths that look like nothing else: words beside them are other routes."""

from starlette.convertors import Convertor, register_url_convertor

from core.shared.tsid import ALPHABET, LENGTH


class _Tsid(Convertor[str]):
    """An id; whether it can be one is checked later."""

    regex = f"[{ALPHABET}]{{{LENGTH}}}"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value


TSID = "tsid"
register_url_convertor(TSID, _Tsid())
