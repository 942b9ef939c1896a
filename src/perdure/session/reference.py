"""A session by what a user calls it.

    pi:3f9a0c17b2de            its program and its id; what listings print, and what always works
    3f9a0c17b2de               the id alone
    pi:3f9, 3f9                the beginning of either, if only one begins like that
    001-plan-launch            without its day, an id that has one
    ~/notes/conversations/…    the path of its file, or of the folder it has for itself

From names alone: no session is read, and no store is opened but that of the one found. A home that cannot be
looked at hides no other; where nothing was found, the error says which one that was.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from perdure import config
from perdure.errors import Ambiguous, NoHome, NotFound, PerdureError, UsageError
from perdure.session import ids, layouts, listing
from perdure.session.layouts import Home
from perdure.session.stores import Found, Store, open_store

if TYPE_CHECKING:
    from perdure.session.stores.file_store import FileStore
    from perdure.session.trash_note import Trashed

T = TypeVar("T")


def name_of(store: Store, ref: Found) -> str:
    return f"{store.name}:{ref.id}"


def find(text: str, homes: Iterable[Home] | None = None) -> tuple[Store, Found]:
    """The one session that is called this, in all homes there are or in these."""
    return find_all([text], homes)[0]


def find_all(texts: Iterable[str], homes: Iterable[Home] | None = None) -> list[tuple[Store, Found]]:
    """Those that are called these, each once; or the first error, before anything was done to any."""
    problems: list[str] = []
    known = [_Called(home, ref.id, ref.path, ref) for home, ref in listed(homes, problems)]
    chosen = {each.path: each for each in (_chosen_or_deleted(text, known, problems) for text in texts)}
    return [(open_store(*each.home), each.thing) for each in chosen.values()]


def listed(
    homes: Iterable[Home] | None = None, problems: list[str] | None = None
) -> Iterator[tuple[Home, Found]]:
    """Every session there is. Why a home could not be looked at is added to `problems`."""
    for home in layouts.homes() if homes is None else homes:
        id_of = listing.namer(home.program)
        try:
            for name, path, status, _ in listing.places(home):
                facts = (status.st_ino, status.st_size, status.st_mtime_ns) if status else ()
                yield home, Found(id_of(name), path, *facts)
        except PerdureError as error:
            if problems is not None:
                problems.append(error.message)


# --- deleted ones -------------------------------------------------------------------------------------


class Deleted(NamedTuple):
    store: FileStore
    trashed: Trashed
    name: str
    """What its store restores it by: its id, or, if that was deleted again since, its folder in the trash."""
    folder: str
    """The same whatever was deleted since."""
    reference: str
    """What a user calls it: `program:name`, or where it lay, if there are several of that name."""

    @property
    def path(self) -> str:
        """Where it lay; empty if that is not known."""
        return os.path.join(self.trashed.root, self.trashed.names[-1]) if self.trashed.names else ""

    @property
    def facts(self) -> dict[str, object]:
        """All that is known of it, for programs."""
        from perdure.session.summary import LONGEST

        title = self.trashed.title
        return {
            "reference": self.reference,
            "program": self.store.name,
            "id": self.trashed.id,
            "deleted": self.trashed.deleted,
            "size": self.trashed.size,
            "title": title,
            "title_is_cut": len(title) == LONGEST and title.endswith("…"),  # which its note does not say
            "path": self.path,
            "folder": self.trashed.folder,
        }

    @property
    def is_last(self) -> bool:
        """Whether nothing was deleted under its id since."""
        return self.name == self.trashed.id


def deleted(homes: Iterable[Home] | None = None, problems: list[str] | None = None) -> list[Deleted]:
    """Everything in the trash of these homes, or of all, what was deleted last first."""
    found = list(_in_trash(layouts.homes() if homes is None else homes, problems))
    count = Counter(each.reference for each in found)
    every = [
        each if count[each.reference] == 1 else each._replace(reference=each.path or each.reference)
        for each in found
    ]
    return sorted(every, key=lambda each: each.trashed.deleted, reverse=True)


def called(store: FileStore, gone: Trashed) -> Deleted:
    """What a deleted session is called from now on."""
    return next(
        each
        for each in deleted([home for home in layouts.homes() if home.program == store.name])
        if (each.trashed.home, each.trashed.folder) == (gone.home, gone.folder)
    )


def find_deleted(texts: Iterable[str], homes: Iterable[Home] | None = None) -> list[Deleted]:
    """Those that are called these, each once. A beginning of an id means the one deleted last under it; an
    earlier one is called what the listing calls it."""
    problems: list[str] = []
    known = [
        _Called(home, each.name, each.path, each, is_last=each.is_last, also=each.folder)
        for each in deleted(homes, problems)
        for home in [Home(each.store.name, each.store.home)]
    ]
    chosen = [_chosen(text, known, "Deleted session", problems).thing for text in texts]
    return list({(each.store.home, each.trashed.folder): each for each in chosen}.values())


def _in_trash(homes: Iterable[Home], problems: list[str] | None) -> Iterator[Deleted]:
    from perdure.session.stores.file_store import FileStore

    for home in homes:
        try:
            layouts.refuse_strangers(home)
            store = open_store(*home)
            assert isinstance(store, FileStore)
            last_first = store.trashed()
        except PerdureError as error:
            if problems is not None:
                problems.append(error.message)
            continue
        ids = {each.id for each in last_first}
        seen: set[str] = set()
        for each in last_first:
            folder = each.folder if each.folder not in ids else f"{each.folder}.1"
            name = folder if each.id in seen else each.id
            seen.add(each.id)
            yield Deleted(store, each, name, folder, f"{home.program}:{name}")


# --- one of many by its name ----------------------------------------------------------------------------


class _Called(NamedTuple, Generic[T]):
    home: Home
    id: str
    path: str
    thing: T
    is_last: bool = True
    """Of several of one id and place, whether it is the one that is meant without saying more."""
    also: str = ""
    """Another id of it."""

    @property
    def reference(self) -> str:
        return f"{self.home.program}:{self.id}"

    @property
    def short(self) -> str:
        """The id without the day that some have before it."""
        return self.id.rpartition("/")[2]

    def is_called(self, text: str) -> bool:
        return text in (self.id, self.reference)

    def is_at(self, places: Collection[str]) -> bool:
        """Whether one of the places is its file, or the folder it has for itself, which is called like it; of
        a deleted one only that folder is known, and of some not even that."""
        inside = os.path.join(self.path, "")
        return bool(self.path and self.is_last) and any(
            place == self.path
            or place.startswith(inside)
            or (os.path.basename(place) == self.short and inside.startswith(os.path.join(place, "")))
            for place in places
        )

    def is_also_called(self, text: str) -> bool:
        others = filter(None, (self.short, self.also))
        return any(text in (other, f"{self.home.program}:{other}") for other in others)

    def begins(self, text: str) -> bool:
        """Like this; or with what is before the `…` of a listing, and ends with what is behind it."""
        names = (self.id, self.reference, self.short, f"{self.home.program}:{self.short}")
        start, _, end = text.partition("…")
        return self.is_last and any(name.startswith(start) and name.endswith(end) for name in names)


def _chosen(text: str, known: Sequence[_Called[T]], what: str, problems: Sequence[str]) -> _Called[T]:
    if not isinstance(text, str):
        raise UsageError(f"An id is a string, not {type(text).__name__}")
    matches = (
        _matches(text, known)
        or _matches(_as_listed(text), known)
        or _matches(ids.composed(text.lower()), known)
    )
    if len(matches) == 1:
        return matches[0]
    if matches:
        raise Ambiguous(text, _told_apart(matches))
    nearest = _nearest(text, known)
    near = f"nearest: {', '.join(nearest)}" if nearest else "there is none with an id like that"
    raise NotFound(what, text, nearest, hint="; ".join([near, *problems]), is_unsure=bool(problems))


def _chosen_or_deleted(text: str, known: Sequence[_Called[Found]], problems: Sequence[str]) -> _Called[Found]:
    """The error says so if it is in the trash: what was just deleted is what people look for."""
    try:
        return _chosen(text, known, "Session", problems)
    except NotFound as error:
        try:
            (gone,) = find_deleted([text])
        except PerdureError:
            raise error from None
        from shlex import quote

        hint = f"it was deleted: `pi sessions restore {quote(gone.reference)}` brings it back"
        raise NotFound("Session", text, hint=hint, is_deleted=True) from None


def _matches(text: str, known: Sequence[_Called[T]]) -> list[_Called[T]]:
    """Who is called exactly this; else who lies there; else who is called so in other words; else who begins
    like this."""
    if not text.rpartition(":")[2]:  # of a program alone, nothing is named
        return []
    places = _places(text, known)
    return (
        [each for each in known if each.is_called(text)]
        or [each for each in known if each.is_at(places)]
        or [each for each in known if each.is_also_called(text)]
        or [each for each in known if each.begins(text)]
    )


def _places(text: str, known: Sequence[_Called[T]]) -> set[str]:
    """What a text leads to if it is a path; as named from a home, also if links lead to that one."""
    try:
        places = {os.path.abspath(config.expanded(text))}
        real = config.real_path(*places)
    except (OSError, ValueError, NoHome):  # the current directory is gone, or no path is like that
        return set()
    places.add(real)
    for home in {each.home.path for each in known}:
        beginning = os.path.join(config.real_path(home), "")
        if real.startswith(beginning):
            places.add(os.path.join(home, real[len(beginning) :]))
    return places


_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U([0-9a-f]{8}))")


def _as_listed(text: str) -> str:
    """The id that is meant where a listing had to write what no terminal may see as `\\x1b`."""
    try:
        return _ESCAPE.sub(lambda match: chr(int(match[match.lastindex or 0], 16)), text)
    except (ValueError, OverflowError):
        return ""


def _told_apart(matches: Sequence[_Called[T]]) -> list[str]:
    count = Counter(each.reference for each in matches)
    return sorted(
        each.reference if count[each.reference] == 1 or not each.path else each.path for each in matches
    )


def _nearest(text: str, known: Sequence[_Called[T]]) -> list[str]:
    names = {each.reference if ":" in text else each.id: each.reference for each in known}
    return [names[near] for near in ids.nearest(text, names)]
