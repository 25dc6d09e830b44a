"""The state of Kafka: topics, partitions, consumers and the relay."""

from core.access.permissions import Permission
from serve_app.http.router import Context, HttpRouter
from serve_app.kafka.models import KafkaView

router = HttpRouter("/api/kafka", tag="operations", reads=Permission.KAFKA_READ)


@router.get()
async def show_kafka(context: Context) -> KafkaView:
    """Show the tenant's topics and partitions, how far they are stored, and who reads them."""
    return await context.replica.kafka.read(context.tenant)
