"""The state of Kafka: topics, partitions, consumers and the relay."""

from fastapi import APIRouter, Request
from starlette.responses import Response

from core.access.permissions import Permission
from serve_app.http.json_io import json_response
from serve_app.http.openapi import describe_responses
from serve_app.http.permissions import caller_of, replica_of, requires
from serve_app.kafka.models import KafkaView

router = APIRouter(tags=["operations"])


@router.get(
    "/api/kafka",
    dependencies=[requires(Permission.KAFKA_READ)],
    operation_id="showKafka",
    responses=describe_responses({200: KafkaView}),
)
async def show_kafka(request: Request) -> Response:
    """Show the tenant's topics and partitions, how far they are stored, and who reads them."""
    return json_response(await replica_of(request).kafka.read(caller_of(request).tenant))
