"""How a dispatch scenario looks while it runs, and the table of all deliveries."""

from collections.abc import Sequence

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from tools.demo.dispatch.receiver import BUSY, OK, DemoDelivery
from tools.demo.dispatch.setup import SUBSCRIBERS
from tools.demo.scenario import Scenario
from tools.demo.screen import ScenarioPanel

_STYLES = {OK: "green", BUSY: "yellow"}


class DispatchPanel(ScenarioPanel):
    """Shows the deliveries of each message group in a row."""

    def __init__(self, scenario: Scenario, position: str) -> None:
        super().__init__(scenario, position)
        self._groups: dict[tuple[str, str], Text] = {}

    def note_delivery(self, delivery: DemoDelivery) -> None:
        row = self._groups.setdefault((delivery.subscriber, delivery.customer), Text())
        row.append(f"{delivery.mark()} ", style=_STYLES.get(delivery.answered, "bold red"))

    def below(self) -> Sequence[RenderableType]:
        if not self._groups:
            return ()
        table = Table.grid(padding=(0, 2))
        table.add_column(no_wrap=True, min_width=8)
        table.add_column(style="dim", no_wrap=True)
        table.add_column(overflow="fold")
        for (subscriber, customer), row in sorted(self._groups.items()):
            table.add_row(subscriber, customer, row)
        return Text(""), table


def deliveries_table(deliveries: Sequence[DemoDelivery]) -> RenderableType:
    """Count the deliveries by subscriber and answer."""
    table = Table(title="What arrived", title_justify="left")
    for title in ("subscriber", "mode", "pool"):
        table.add_column(title)
    for title in ("arrived", "verified", "taken", "refused", "asked to wait"):
        table.add_column(title, justify="right")
    for subscriber in SUBSCRIBERS:
        own = [one for one in deliveries if one.subscriber == subscriber.name]
        busy = sum(one.answered == BUSY for one in own)
        taken = sum(one.is_taken for one in own)
        verified = sum(bool(one.signed_by) for one in own)
        table.add_row(
            subscriber.name,
            subscriber.mode.value,
            subscriber.pool,
            str(len(own)),
            Text(str(verified), style="green" if verified == len(own) else "bold red"),
            str(taken),
            str(len(own) - taken - busy),
            str(busy),
        )
    return table
