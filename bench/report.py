"""Recorded runs become a table and a plot in docs/performance.md: `python -m bench.report`."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from bench.goals import Goal
from bench.machine import ROOT

Entry: TypeAlias = dict[str, Any]

RECORD = ROOT / "docs" / "performance.json"
PAGE = ROOT / "docs" / "performance.md"
PLOT = ROOT / "docs" / "performance.svg"
BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"
NOISY = 0.05


def record(entry: Entry, path: Path = RECORD) -> None:
    """Keep this run instead of the last one of its scenario."""
    entries = read(path) | {entry["scenario"]: entry}
    path.write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n")


def read(path: Path = RECORD) -> dict[str, Entry]:
    """All recorded runs, by scenario."""
    entries: dict[str, Entry] = json.loads(path.read_text()) if path.exists() else {}
    return entries


def publish() -> None:
    """Write the table and the plot."""
    entries = read()
    draw(entries, PLOT)
    PAGE.write_text(splice(PAGE.read_text(), render(entries)))


def splice(page: str, block: str) -> str:
    """Put a block between the marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"the page has no {BEGIN} … {END}")
    return f"{before}{BEGIN}\n{block.strip()}\n{END}{after}"


def render(entries: Mapping[str, Entry]) -> str:
    """Everything that is generated on the page."""
    parts = [
        _machines(entries),
        _table(("scenario", "figure", "seen", "range", "we want", ""), _ratio_rows(entries)),
        f"![How far each figure is from what we want]({PLOT.name})",
        "### How they were measured",
        _table(
            ("scenario", "command", "commit", "date", "foreign load", "page syncs / s"),
            _run_rows(entries),
        ),
        "### Behind the ratios",
        "Absolute figures of the same runs. They hold for this machine and this minute only.",
        _table(("scenario", "figure", "seen"), _absolute_rows(entries)),
    ]
    return "\n\n".join(parts)


def _machines(entries: Mapping[str, Entry]) -> str:
    found: dict[str, list[str]] = {}
    for name, entry in entries.items():
        found.setdefault(machine_line(entry["machine"]), []).append(name)
    if len(found) == 1:
        return next(iter(found))
    return "\n".join(f"- {', '.join(names)}: {line}" for line, names in found.items())


def machine_line(machine: Mapping[str, Any]) -> str:
    """The machine in a sentence."""
    return (
        f"{machine['cores']} cores ({machine['cpu']}), {machine['memory_gb']} GB, "
        f"{machine['system']}; Python {machine['python']}, Ray {machine['ray']}, "
        f"PostgreSQL {machine['postgres']} with fsync {machine['fsync']}."
    )


def _ratio_rows(entries: Mapping[str, Entry]) -> Iterator[tuple[str, ...]]:
    for name, entry in entries.items():
        for figure, seen in entry["ratios"].items():
            goal = entry["goals"].get(figure, "")
            unit = Goal.read(goal).unit if goal else ""
            yield (
                f"`{name}`{' (quick)' if entry['quick'] else ''}",
                figure,
                f"**{number(seen['median'])}** {unit}".strip(),
                f"{number(seen['low'])} … {number(seen['high'])}",
                goal,
                verdict(goal, seen["median"]),
            )


def verdict(goal: str, seen: float) -> str:
    """Said plainly."""
    if not goal:
        return ""
    return "reached" if Goal.read(goal).met_by(seen) else "**missed**"


def _run_rows(entries: Mapping[str, Entry]) -> Iterator[tuple[str, ...]]:
    for name, entry in entries.items():
        foreign = entry["noise"]["foreign"] + entry["noise"]["steal"]
        noisy = " (noisy)" if foreign > NOISY else ""
        # Runs recorded before pairs were judged have no such counts.
        discarded, kept = (int(entry["noise"].get(name, 0)) for name in ("discarded", "noisy"))
        noisy += f", {discarded} pairs discarded" if discarded else ""
        noisy += f", {kept} noisy ones kept" if kept else ""
        yield (
            f"`{name}`",
            f"`{entry['command']}`",
            entry["commit"],
            entry["date"],
            f"{foreign:.1%}{noisy}",
            number(entry["machine"]["syncs_per_second"]),
        )


def _absolute_rows(entries: Mapping[str, Entry]) -> Iterator[tuple[str, ...]]:
    for name, entry in entries.items():
        for side in ("ours", "peers"):
            for figure, value in flat(entry[side], () if side == "peers" else ("ours",)):
                yield f"`{name}`", figure, value


def flat(value: Any, path: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Nested figures as lines; a median stands for its range."""
    match value:
        case {"median": seen, "low": low, "high": high}:
            extent = "" if low == high else f" ({number(low)} … {number(high)})"
            yield _named(path), number(seen) + extent
        case dict():
            for key, inner in value.items():
                yield from flat(inner, (*path, str(key)))
        case bool():
            yield _named(path), "yes" if value else "no"
        case int() | float():
            yield _named(path), number(value)
        case _:
            yield _named(path), str(value)


def _named(path: tuple[str, ...]) -> str:
    return " · ".join(part.replace("_", " ") for part in path)


def number(value: float) -> str:
    """Three digits are enough for anybody."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def _table(head: tuple[str, ...], rows: Iterator[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def headrooms(entries: Mapping[str, Entry]) -> list[tuple[str, float]]:
    """Each figure that has a goal, and how many times better than it."""
    return [
        (f"{name}: {figure}", Goal.read(entry["goals"][figure]).headroom(seen["median"]))
        for name, entry in entries.items()
        for figure, seen in entry["ratios"].items()
        if figure in entry["goals"]
    ]


def draw(entries: Mapping[str, Entry], path: Path) -> None:
    """One bar for each figure with a goal, which is the line at 1."""
    import matplotlib as mpl  # noqa: PLC0415  slow, and only here

    mpl.use("svg")
    # The same figures give the same file.
    mpl.rcParams.update({"svg.hashsalt": "muster", "svg.fonttype": "none", "font.size": 9})
    from matplotlib import pyplot  # noqa: PLC0415  after the choice of what it draws with

    rows = headrooms(entries)[::-1]
    figure, axes = pyplot.subplots(figsize=(8, 0.8 + 0.27 * len(rows)), layout="constrained")
    colours = ["#2a7f62" if value >= 1 else "#c0392b" for _, value in rows]
    names, values = [name for name, _ in rows], [value for _, value in rows]
    bars = axes.barh(names, [value - 1 for value in values], left=1, color=colours)
    axes.bar_label(bars, [number(value) for value in values], padding=3)
    axes.axvline(1, color="#333333", linewidth=1)
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: number(value))
    axes.margins(x=0.12)
    axes.set_xlabel("times better than we want (1 is the goal; red has missed it)")
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    pyplot.close(figure)


if __name__ == "__main__":
    publish()
