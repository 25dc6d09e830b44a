"""Media types of payloads, and how a content type is read."""

JSON = "application/json"
BYTES = "application/octet-stream"
CLOUD_EVENT = "application/cloudevents+json"
CLOUD_EVENT_BATCH = "application/cloudevents-batch+json"


def media_type(content_type: str) -> str:
    """Return a content type in lower case and without its parameters."""
    return content_type.partition(";")[0].strip().lower()


def is_json_type(content_type: str) -> bool:
    """Return True if data of this content type is JSON."""
    if content_type == JSON:
        return True
    kind = media_type(content_type)
    return kind in (JSON, "text/json") or kind.endswith("+json")
