"""The embedded Kafka: Apache Kafka where it can run, librdkafka's mock elsewhere.

`selection` chooses and starts a broker, `broker` describes and stops it. Both are synchronous, like
the rest of the host; call them from a coroutine with `asyncio.to_thread`.
"""
