"""`muster down`: stop the Muster of a data folder."""

from pathlib import Path

import typer

from cli.shell.context import DATA_DIR, out, print_error
from cli.shell.options import flatten_options, option
from core.shared.errors import MusterError
from host import lifecycle
from host.errors import HostError
from host.kafka.selection import stop_kafka
from host.paths import instance_paths
from host.postgres import embedded


@flatten_options
def down(
    data_dir: Path = option(
        "Data folder of the instance to stop.", default=DATA_DIR, envvar="MUSTER_DATA_DIR"
    ),
) -> None:
    """Stop a Muster that was started here, and the processes that a killed one left behind."""
    try:
        sentence = lifecycle.down(data_dir)
        # A host that was killed could not stop these.
        if stop_kafka(instance_paths(data_dir)):
            sentence += " Stopped its Kafka."
        if embedded.running(data_dir) is not None:
            embedded.stop(data_dir)
            sentence += " Stopped its PostgreSQL."
    except (HostError, MusterError) as error:
        print_error(str(error))
        raise typer.Exit(1) from None
    out.print(sentence, markup=False, soft_wrap=True)
