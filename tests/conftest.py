pytest_plugins = ["tests.support.kafka", "tests.support.postgres", "tests.support.secured_kafka"]
