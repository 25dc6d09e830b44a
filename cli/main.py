"""The `muster` command: where each of its processes begins."""

import sys

INTERRUPTED = 130


def main() -> None:
    """Run the command line; the console script's entry."""
    # httpx does without its own command line, whose import takes as long as the rest of httpx.
    sys.modules.setdefault("httpx._main", None)  # type: ignore[arg-type]
    try:
        from cli.commands import app  # noqa: PLC0415  takes a while, in which Ctrl-C is possible

        app(prog_name="muster")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
