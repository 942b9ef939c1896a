"""`python -m bench [--quick] [--peers] [--json] [P1 P4 …]`: the table on stdout, progress on stderr."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from bench.ground import Ground
from bench.measure import Figure, compare
from bench.peers import Peers
from bench.peers.install import install
from bench.row import SCALES, Row
from bench.rows import ROWS

Results = dict[Row, list[Figure]]


def main(arguments: Sequence[str] | None = None) -> None:
    options = _options(arguments)
    options.dir = options.dir.resolve()  # children run in other directories
    options.dir.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.dir) as folder:
        peers = install(folder) if options.peers else Peers()
        about = _about(folder, options.scale, peers)
        ground = Ground(folder, peers)
        sessions = f"{SCALES[options.scale].sessions:,}"
        rows = [row._replace(title=row.title.format(sessions=sessions)) for row in options.rows]
        results = {row: _measured(row, ground, options.scale) for row in rows}
    if options.json:
        report = [
            {
                "row": row.name,
                "work": row.title,
                "unit": row.unit,
                "figures": [each._asdict() for each in figures],
            }
            for row, figures in results.items()
        ]
        print(json.dumps({**about, "rows": report}, indent=1))
    else:
        print("\n".join(_markdown(about, results) if options.markdown else _plain(about, results)))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        "python -m bench", description="Speed, as ratios to limits of the same run."
    )
    option = parser.add_argument
    option("rows", nargs="*", metavar="ROW", help=f"{', '.join(ROWS)}; all of them if none is named")
    option(
        "--quick", dest="scale", action="store_const", const="quick", default="full", help="under two minutes"
    )
    option(
        "--smoke", dest="scale", action="store_const", const="smoke", help="tiny sizes: does it run at all?"
    )
    option("--peers", action="store_true", help="install other libraries and pi, and measure them, too")
    option("--json", action="store_true", help="the figures as JSON, in seconds and bytes")
    option("--markdown", action="store_true", help="the table that docs/performance.md holds")
    build = Path(__file__).parents[1] / "build"
    option("--dir", type=Path, default=build, help="a folder on the disk to be measured (build)")
    options = parser.parse_args(arguments)
    names = [name.upper() for name in options.rows] or list(ROWS)
    if unknown := [name for name in names if name not in ROWS]:
        parser.error(f"there is no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
    options.rows = [ROWS[name] for name in ROWS if name in names]
    return options


def _measured(row: Row, ground: Ground, size: str) -> list[Figure]:
    scale = SCALES[size]
    rounds = max(2, round(scale.rounds * row.share))
    print(f"{row.name} {row.title}: {rounds} rounds", end=", ", file=sys.stderr, flush=True)
    start = time.monotonic()
    with ExitStack() as stack:
        figures = compare(row.contenders(ground, scale, stack), rounds, row.clock)
    print(f"{time.monotonic() - start:.1f} s", file=sys.stderr)
    return figures


def _about(folder: str, size: str, peers: Peers) -> dict[str, str]:
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "size": size,
        **{name: _version(name) for name in ("perdure", "msgspec", "orjson")},
        **{peer.name: peer.version for peer in peers.installed},
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release().partition('-')[0]} {platform.machine()}",
        "cores": str(os.cpu_count()),
        "file system": _file_system(folder),
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def _file_system(folder: str) -> str:
    """Its type, from Linux's table of mounts. Beware of tmpfs: a sync costs nothing there."""
    device = os.stat(folder).st_dev
    number = f"{os.major(device)}:{os.minor(device)}"
    try:
        mounts = Path("/proc/self/mountinfo").read_text(errors="replace").splitlines()
    except OSError:
        return "unknown"
    types = (line.partition(" - ")[2].split()[0] for line in mounts if line.split()[2] == number)
    return next(types, "unknown")


def _plain(about: dict[str, str], results: Results) -> Iterator[str]:
    yield ", ".join(f"{key} {value}" for key, value in about.items())
    for row, figures in results.items():
        yield f"\n{row.name}  {row.title}"
        for name, took, ratio, half, most, to in (_cells(each, row.unit) for each in figures):
            yield f"    {name:36} {took:>10} {ratio:>9} {half:>15} {most:>8}  {to}".rstrip()


def _markdown(about: dict[str, str], results: Results) -> Iterator[str]:
    yield ", ".join(f"{key} {value}" for key, value in about.items()) + "."
    for row, figures in results.items():
        yield f"\n**{row.name}: {row.title}**\n"
        yield "| | median | ratio | half of the rounds | ours, at most | ratio to |"
        yield "|---|--:|--:|--:|--:|---|"
        yield from (f"| {' | '.join(_cells(each, row.unit))} |" for each in figures)


def _cells(figure: Figure, unit: str) -> tuple[str, ...]:
    if unit == "bytes":
        took = f"{figure.median / 1e6:,.1f} MB"
    elif figure.median < 1e-3:
        took = f"{figure.median * 1e6:,.1f} us"
    else:
        took = f"{figure.median * 1e3:,.1f} ms"
    if figure.against is None:
        return figure.name, took, "", "", "", ""
    at_most = f"{figure.at_most:.2f}x" if figure.at_most else ""
    return (
        figure.name,
        took,
        f"{figure.ratio:.2f}x",
        f"{figure.low:.2f}-{figure.high:.2f}",
        at_most,
        figure.against,
    )


if __name__ == "__main__":
    main()
