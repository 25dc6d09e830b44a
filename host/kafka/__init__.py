"""A Kafka for this machine alone: Apache Kafka where it can run, librdkafka's mock elsewhere.

`embedded` chooses and starts one, `broker` describes and ends it. Like the rest of the host it is
synchronous; from a coroutine, call it with `asyncio.to_thread`.
"""
