"""The scenarios of the gather demo: a slow resource, and the other ways to answer."""

from cli.shell.errors import InputError
from tools.demo.gathers.behaviour import Behaviour
from tools.demo.gathers.scenario import NAMES, GatherScenario, GatherStrategy

DELAYS = (1_000, 2_000, 15_000)
TIMEOUT = 10_000
_NEAR = 250  # milliseconds in which a callback and a timeout may overtake each other

SCENARIOS = (
    GatherScenario(
        key="timeline",
        title="Two answer, one is too slow",
        description="Answers stream in as they come; at the timeout the rest is given up.",
        delays=DELAYS,
        timeout=TIMEOUT,
    ),
    GatherScenario(
        key="everyone",
        title="The caller waits for everyone",
        description="One answer with all notes, as soon as the slowest is there.",
        delays=(300, 600, 900),
        timeout=TIMEOUT,
        strategy=GatherStrategy.EVERYONE,
    ),
    GatherScenario(
        key="one-reject",
        title="One resource refuses",
        description="A 401 is an answer: no respondent, but no error either.",
        delays=(-1, 400, 800),
        timeout=TIMEOUT,
    ),
    GatherScenario(
        key="all-reject",
        title="All of them refuse",
        description="Nobody is left to wait for, so it ends at once.",
        delays=(-1, -1, -1),
        timeout=TIMEOUT,
    ),
    GatherScenario(
        key="closed",
        title="One closes the connection",
        description="A call that breaks is an error of that resource alone.",
        delays=(400, 800, 0),
        timeout=TIMEOUT,
        behaviours={"resource-3": Behaviour.CLOSE},
    ),
    GatherScenario(
        key="twice",
        title="One calls back twice",
        description="Its first callback counts, the second is a duplicate.",
        delays=(100, 200, 1_500),
        timeout=TIMEOUT,
        behaviours={"resource-1": Behaviour.TWICE},
    ),
)


def custom_scenario(delays: str | None, timeout: int | None, pace: float) -> GatherScenario:
    """Build a scenario from the options of the command line."""
    scenario = GatherScenario(
        key="yours",
        title="Your own",
        description="The gather that your options describe.",
        delays=DELAYS if delays is None else _parse(delays),
        timeout=TIMEOUT if timeout is None else timeout,
    ).at_pace(pace)
    for delay in scenario.delays:
        if abs(delay - scenario.timeout) < _NEAR:
            raise InputError(
                f"A delay of {delay} ms and a timeout of {scenario.timeout} ms could end "
                f"either way: keep {_NEAR} ms between them."
            )
    return scenario


def _parse(text: str) -> tuple[int, ...]:
    try:
        given = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(
            f"'{text}' are not delays: write numbers of milliseconds, for example 1000,2000,15000."
        ) from error
    if len(given) > len(NAMES):
        raise InputError(f"There are {len(NAMES)} resources, but {len(given)} delays.")
    if max(given) > 60_000:
        raise InputError("A delay is at most 60000 ms.")
    return (*given, *[0] * (len(NAMES) - len(given)))
