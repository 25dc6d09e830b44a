pytest_plugins = ["tests.support.kafka", "tests.support.postgres"]
