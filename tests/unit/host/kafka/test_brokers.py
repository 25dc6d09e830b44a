"""The embedded Kafka without starting one: what it is given, and how its parts are found."""

from pathlib import Path

import pytest

from core.shared.errors import InvalidError
from host.errors import MissingPartError
from host.kafka.apache import ApacheOptions, failure_reason
from host.kafka.broker import Broker, BrokerKind, running_broker, write_broker_file
from host.kafka.jars import POM, cache_folder, fetch_jars, find_jars, maven_error, pinned_version
from host.kafka.java import find_java, major_version
from host.kafka.properties import server_properties
from host.kafka.selection import find_runtime, load_settings
from host.processes import ProcessIdentity
from settings.settings import Settings


@pytest.fixture(autouse=True)
def _empty_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable and no .env of whoever runs the tests."""
    monkeypatch.chdir(tmp_path)
    for name in Settings.model_fields:
        monkeypatch.delenv(f"MUSTER_{name.upper()}", raising=False)


def rendered(data: Path = Path("/data"), **changed: object) -> dict[str, str]:
    options = {"port": 1, "controller_port": 2, "auto_create_topics": False, "extra": {}} | changed
    text = server_properties(data, **options)  # type: ignore[arg-type]
    assert text.isascii()
    return dict(line.split("=", 1) for line in text.splitlines())


def test_it_is_broker_and_controller_and_listens_on_loopback_alone() -> None:
    properties = rendered(port=12_001, controller_port=40_001)
    assert properties["process.roles"] == "broker,controller"
    assert properties["controller.quorum.voters"] == "1@127.0.0.1:40001"
    assert properties["listeners"] == "PLAINTEXT://127.0.0.1:12001,CONTROLLER://127.0.0.1:40001"
    assert properties["advertised.listeners"] == "PLAINTEXT://127.0.0.1:12001"


def test_topics_are_made_by_naming_them_only_where_that_is_wanted() -> None:
    assert ApacheOptions().auto_create_topics
    assert rendered(auto_create_topics=True)["auto.create.topics.enable"] == "true"
    assert rendered(auto_create_topics=False)["auto.create.topics.enable"] == "false"


def test_nothing_waits_for_a_replica_that_cannot_be() -> None:
    replicas = [value for name, value in rendered().items() if "replication.factor" in name]
    assert set(replicas) == {"1"}


def test_extra_settings_go_over_ours() -> None:
    assert rendered(extra={"message.max.bytes": "10", "num.partitions": "9"}).items() >= {
        ("message.max.bytes", "10"),
        ("num.partitions", "9"),
    }


def test_a_folder_of_any_name_is_written_as_java_reads_it() -> None:
    assert rendered(Path("/a b/ü\\n/😀"))["log.dirs"] == "/a b/\\u00fc\\\\n/\\ud83d\\ude00"


@pytest.mark.parametrize(
    ("told", "version"),
    [
        ('openjdk version "17.0.15" 2025-04-15\nOpenJDK Runtime Environment', 17),
        ('openjdk version "25" 2025-09-16', 25),
        ('java version "1.8.0_392"', 8),
        ('Picked up JAVA_TOOL_OPTIONS: -Xmx1g\nopenjdk version "21.0.1"', 21),
        ("no such thing", None),
    ],
)
def test_the_version_of_java_is_read_from_what_it_says(told: str, version: int | None) -> None:
    assert major_version(told) == version


def test_java_home_goes_before_the_path_if_it_is_new_enough(tmp_path: Path) -> None:
    old, new = fake_java(tmp_path / "old", "11.0.2"), fake_java(tmp_path / "new", "21")
    assert find_java({"JAVA_HOME": str(new.parents[1]), "PATH": str(old.parent)}).program == new
    found = find_java({"JAVA_HOME": str(old.parents[1]), "PATH": str(new.parent)})
    assert (found.program, found.version) == (new, 21)


def test_a_java_that_is_too_old_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("host.kafka.java.INSTALLED", ())
    old = fake_java(tmp_path, "11.0.2")
    with pytest.raises(MissingPartError, match=f"Java 17 or newer .* {old} is Java 11"):
        find_java({"JAVA_HOME": str(old.parents[1]), "PATH": ""})


def test_the_version_is_written_in_the_pom_alone() -> None:
    assert pinned_version("<kafka.version>4.9.1</kafka.version>") == "4.9.1"
    assert pinned_version().startswith("4.")
    assert "://" not in POM.read_text().replace("http://maven.apache.org/POM/4.0.0", "")


def test_the_cache_is_where_the_system_keeps_caches() -> None:
    name = f"kafka-{pinned_version()}"
    assert cache_folder({"HOME": "/home/me"}) == Path("/home/me/.cache/muster", name)
    assert cache_folder({"XDG_CACHE_HOME": "/big", "HOME": "/x"}) == Path("/big/muster", name)


def test_jars_are_known_by_the_server_among_them(tmp_path: Path) -> None:
    assert find_jars(tmp_path / "nowhere") is None
    (tmp_path / "kafka-clients-4.2.0.jar").touch()
    assert find_jars(tmp_path) is None
    (tmp_path / "kafka_2.13-4.2.0.jar").touch()
    found = find_jars(tmp_path)
    assert found is not None
    assert (found.folder, found.version) == (tmp_path, "4.2.0")


def test_what_is_missing_is_told_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, "17").parents[1]))
    with pytest.raises(MissingPartError, match=f"jars of Apache Kafka are not in {tmp_path}/jars"):
        find_runtime(tmp_path / "jars")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(MissingPartError, match="Maven, which would fetch them, was not found"):
        fetch_jars(tmp_path / "jars", lambda _: None)


def test_a_fetch_that_fails_tells_why_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_program(tmp_path / "bin" / "mvn", "echo '[ERROR] Unknown host' >&1; exit 1")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    said: list[str] = []
    with pytest.raises(MissingPartError, match=r"Unknown host\. Connect to the network once"):
        fetch_jars(tmp_path / "cache" / "jars", said.append)
    assert "only this once" in said[0]
    assert list((tmp_path / "cache").iterdir()) == []


def test_a_fetch_that_succeeds_appears_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    maven = 'for word; do case $word in -DoutputDirectory=*) to="${word#*=}";; esac; done'
    fake_program(
        tmp_path / "bin" / "mvn", f'{maven}; mkdir -p "$to"; : > "$to/kafka_2.13-4.3.1.jar"'
    )
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    jars = fetch_jars(tmp_path / "cache" / "jars", lambda _: None)
    assert jars == find_jars(tmp_path / "cache" / "jars")
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["jars"]


def test_maven_is_quoted_without_its_addresses() -> None:
    log = (
        "[INFO] Downloading\n[ERROR] Failed to execute goal: Could not transfer artifact a:b:1 "
        "from/to mirror (https://repo.example/maven): no route -> [Help 1]\n[ERROR] \n"
    )
    told = maven_error(log)
    assert told.startswith("Failed to execute goal: Could not transfer artifact a:b:1")
    assert "repo.example" not in told
    assert maven_error("") == "it gave no reason."


def test_the_first_exception_tells_why_it_ended() -> None:
    log = (
        "2026-11-16T04:44:13 WARN  Controller: activated\n"
        "2026-11-16T04:44:13 ERROR Acceptor: Unable to start\n"
        "org.apache.kafka.common.KafkaException: failed to bind: Address already in use.\n"
        "\tat kafka.network.Acceptor.start(SocketServer.scala:511)\n"
        "Caused by: java.net.BindException: Address already in use\n"
    )
    assert failure_reason(log) == "failed to bind: Address already in use."
    assert failure_reason("usage\nkafka-storage: error: no such option\n\n") == (
        "kafka-storage: error: no such option"
    )
    assert failure_reason("") == "It gave no reason."


def broker(folder: Path, **fields: object) -> Broker:
    told = {"kind": BrokerKind.APACHE, "name": "Apache Kafka 4.3.1", "bootstrap": "127.0.0.1:12001"}
    dead = ProcessIdentity(
        pid=2**22 + 1, born="never"
    )  # beyond the kernel's largest process number
    return Broker.model_validate({"process": dead, "folder": folder} | told | fields)


def test_a_stand_in_says_why_and_what_it_lacks(tmp_path: Path) -> None:
    assert broker(tmp_path).describe() == "Apache Kafka 4.3.1"
    standin = broker(tmp_path, name="a mock", reason="there is no Java.", lacks=("this", "that"))
    assert standin.describe() == "a mock, because there is no Java. It lacks: this; that."


def test_a_record_of_a_dead_broker_counts_for_nothing(tmp_path: Path) -> None:
    assert running_broker(tmp_path) is None
    write_broker_file(broker(tmp_path))
    assert running_broker(tmp_path) is None
    (tmp_path / "broker.json").write_text("{")
    assert running_broker(tmp_path) is None


def test_the_flag_goes_before_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUSTER_KAFKA_BOOTSTRAP", "given:9092")
    monkeypatch.setenv("MUSTER_KAFKA_SECURITY_PROTOCOL", "SSL")
    assert load_settings({}, None).kafka_bootstrap == "given:9092"
    named = load_settings({}, "other:9092")
    assert (named.kafka_bootstrap, named.kafka_security_protocol) == ("other:9092", "SSL")
    for choice in ("off", "embedded"):
        settings = load_settings({}, choice)
        assert settings.kafka_bootstrap is None
        assert settings.to_config("d").kafka is None


def test_a_broker_of_our_own_asks_nobody_who_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {
        "SECURITY_PROTOCOL": "SASL_SSL",
        "SASL_USERNAME": "me",
        "SASL_PASSWORD": "secret",
        "TLS_CA": "ca.pem",
        "CLIENT_ID": "orders",
    }.items():
        monkeypatch.setenv(f"MUSTER_KAFKA_{name}", value)
    kafka = Settings.load().with_plain_kafka("127.0.0.1:12001").to_config("d").kafka
    assert kafka is not None
    assert (kafka.bootstrap, kafka.client_id) == ("127.0.0.1:12001", "orders")
    assert (kafka.security_protocol, kafka.sasl_password, kafka.tls_ca) == ("PLAINTEXT", None, None)


def test_a_word_that_is_no_address_is_refused() -> None:
    with pytest.raises(InvalidError, match="MUSTER_KAFKA_BOOTSTRAP"):
        load_settings({}, "embeded")


def fake_java(home: Path, version: str) -> Path:
    return fake_program(home / "bin" / "java", f"echo 'openjdk version \"{version}\"' >&2")


def fake_program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path
