"""`muster down`: stop the Muster of a data folder."""

from pathlib import Path

from cli.shell.context import DATA_DIR, out, single_command
from cli.shell.options import option
from host import lifecycle
from host.kafka.broker import stop_kafka
from host.paths import instance_paths
from host.postgres import embedded


@single_command("muster down --data-dir .muster")
def down(
    data_dir: Path = option(
        "Data folder of the instance to stop.", default=DATA_DIR, envvar="MUSTER_DATA_DIR"
    ),
) -> None:
    """Stop a Muster that was started here, and the processes that a killed one left behind."""
    sentence = lifecycle.down(data_dir)
    # A host that was killed could not stop these.
    if stop_kafka(instance_paths(data_dir)):
        sentence += " Stopped its Kafka."
    if embedded.running(data_dir) is not None:
        embedded.stop(data_dir)
        sentence += " Stopped its PostgreSQL."
    out.print(sentence, markup=False, soft_wrap=True)
