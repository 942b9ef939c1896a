"""Every layout on disk, as tests open one: a store in an empty folder, and where its golden files are."""

from pathlib import Path

from perdure.session.stores import LAYOUTS, Durability, Store, open_store

GOLDEN = Path(__file__).parent / "golden"
ALL = list(LAYOUTS)


def store_of(layout: str, home: Path | str, durability: Durability = "process") -> Store:
    """Cortext's home is a workspace, which is there before anything is kept in it."""
    if (marker := LAYOUTS[layout].marker) and not Path(home, marker).is_dir():
        Path(home, marker).mkdir(parents=True, exist_ok=True)
    return open_store(layout, str(home), durability=durability)


def tree_of(folder: Path) -> dict[str, bytes]:
    """Every file below a folder but the locks, which say only who was there."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix != ".lock"
    }
