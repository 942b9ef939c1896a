"""Who may have written a file: its owner and its modes tell, and the sticky bit of its folder."""

import contextlib
import os
import stat
import subprocess

import pytest

from perdure.errors import NotFound, OthersMayWrite
from perdure.session import strangers
from perdure.session.catalog import Catalog, Scope
from perdure.session.git_exclude import keep_out
from perdure.session.layouts import LAYOUTS, Home, homes, workspace_around
from perdure.session.projects import project_of, tree_of
from perdure.session.reference import deleted, find, listed
from perdure.session.stores import Header, open_store
from perdure.session.stores.file_store import FileStore
from perdure.testing import user_entry
from perdure.testing.durable import process
from tests.other_users import needs_root

ME, SOMEBODY, ROOT = 1000, 1001, 0
NOBODY = 65534


def status(mode: int, owner: int = ME) -> os.stat_result:
    return os.stat_result((mode, 0, 0, 1, owner, ME, 0, 0, 0, 0))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (status(stat.S_IFREG | 0o644), False),
        (status(stat.S_IFREG | 0o644, ROOT), False),
        (status(stat.S_IFREG | 0o400, SOMEBODY), True),
        (status(stat.S_IFREG | 0o664), False),  # umask 002, and a group of one's own
        (status(stat.S_IFREG | 0o666), True),
        (status(stat.S_IFREG | 0o1666), True),  # which only means something for a folder
        (status(stat.S_IFREG | 0o666, ROOT), True),
        (status(stat.S_IFDIR | 0o755), False),
        (status(stat.S_IFDIR | 0o775), False),
        (status(stat.S_IFDIR | 0o2775, ROOT), False),
        (status(stat.S_IFDIR | 0o777), True),
        (status(stat.S_IFDIR | 0o1777, ROOT), False),  # /tmp
        (status(stat.S_IFDIR | 0o1777, SOMEBODY), True),
        (status(stat.S_IFLNK | 0o777), False),  # as all of them
        (status(stat.S_IFLNK | 0o777, SOMEBODY), True),
    ],
)
def test_what_counts_is_the_user_s_or_root_s_and_not_open_to_everybody(found, expected):
    """A group may write, and everybody into a folder with the sticky bit."""
    assert strangers.is_doubtful(found, {ME, ROOT}) is expected


def test_root_counts_who_has_called_sudo_and_nobody_else_does(monkeypatch):
    """What is no number names nobody."""
    monkeypatch.setenv("HOME", "/")
    monkeypatch.setenv("SUDO_UID", str(SOMEBODY))
    monkeypatch.setattr("os.geteuid", lambda: ME)
    assert strangers.own_users() == {ME, ROOT}
    monkeypatch.setattr("os.geteuid", lambda: ROOT)
    assert strangers.own_users() == {ROOT, SOMEBODY}
    for text in ("", "-1", "x", "²", "1 2"):
        monkeypatch.setenv("SUDO_UID", text)
        assert strangers.own_users() == {ROOT}


@needs_root
def test_root_counts_the_owner_of_home_and_nobody_else_does(home, monkeypatch):
    """Whom it works for, as after `su -m` or in a container; a HOME that is none names nobody."""
    os.chown(home, SOMEBODY, SOMEBODY)
    assert strangers.own_users() == {ROOT, SOMEBODY}
    with monkeypatch.context() as patch:
        patch.setattr("os.geteuid", lambda: ME)
        assert strangers.own_users() == {ME, ROOT}
    for text in ("", str(home / "nowhere"), "/"):
        monkeypatch.setenv("HOME", text)
        assert strangers.own_users() == {ROOT}


def test_where_there_are_no_owners_nothing_is_a_stranger_s(monkeypatch, tmp_path):
    monkeypatch.delattr("os.geteuid")
    tmp_path.chmod(0o777)
    (tmp_path / "file").touch(0o666)
    assert strangers.doubt(str(tmp_path / "file")) is None
    strangers.refuse_open(str(tmp_path))


# --- real files -----------------------------------------------------------------------------------------


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a folder" / "file"
    path.parent.mkdir()
    path.touch()
    return path


def test_what_everybody_may_write_to_is_named_with_the_command(file):
    """The file, its folder, or both."""
    file.chmod(0o666)
    found = strangers.doubt(str(file))
    assert found is not None
    assert (found.why, found.remedy) == ("everybody may write to it", f"`chmod o-w '{file}'`")
    assert found.is_open
    file.parent.chmod(0o777)
    found = strangers.doubt(str(file))
    assert found is not None
    assert found.remedy == f"`chmod o-w '{file}' && chmod o-w '{file.parent}'`"
    file.chmod(0o664)
    found = strangers.doubt(str(file))
    assert found is not None
    assert (found.why, found.remedy) == ("everybody may write to its folder", f"`chmod o-w '{file.parent}'`")
    file.parent.chmod(0o1777)
    assert strangers.doubt(str(file)) is None


def test_what_is_not_there_is_nobody_s(tmp_path):
    assert strangers.doubt(str(tmp_path / "file")) is None
    strangers.refuse_open(str(tmp_path / "folder"))


@needs_root
@pytest.mark.parametrize("which", ["file", "link", "where the link leads"])
def test_somebody_else_s_is_named_with_its_owner(file, which):
    """Also a link of theirs to a file of ours, and one of ours to a file of theirs."""
    path = file
    if "link" in which:
        path = file.with_name("link")
        path.symlink_to(file)
    theirs = path if which == "link" else file
    os.chown(theirs, NOBODY, NOBODY, follow_symlinks=False)
    found = strangers.doubt(str(path))
    assert found is not None
    assert found.why == "it belongs to nobody"
    assert found.remedy == f"`chown {'-h ' if which == 'link' else ''}root '{theirs}'`"
    assert not found.is_open


@needs_root
@pytest.mark.process
@pytest.mark.parametrize("is_link", [False, True])
def test_the_command_that_is_named_mends_all_there_is(file, is_link):
    """A file of somebody else's, its folder, and a link in another folder, all open to everybody."""
    path = file
    if is_link:
        path = file.parent.with_name("elsewhere") / "link"
        path.parent.mkdir()
        path.symlink_to(file)
    for each in {file, path}:
        os.chown(each, NOBODY, NOBODY, follow_symlinks=False)
    file.chmod(0o666)
    for folder in {path.parent, file.parent}:
        folder.chmod(0o777)
    found = strangers.doubt(str(path))
    assert found is not None
    subprocess.run(found.remedy.strip("`"), shell=True, check=True)
    assert strangers.doubt(str(path)) is None
    assert strangers.doubt(str(path), also=NOBODY) is None


@needs_root
@pytest.mark.parametrize("which", ["folder", "all in it, too", "a folder in ours"])
def test_root_is_never_told_to_take_a_folder_from_a_user(file, which):
    """But to run as that user. What everybody may write to is to be closed first."""
    path = file.parent if which == "a folder in ours" else file
    for each in {file.parent, file} if which == "all in it, too" else {file.parent}:
        os.chown(each, NOBODY, NOBODY)
    found = strangers.doubt(str(path))
    assert found is not None
    assert (found.run_as, found.remedy, found.is_open) == ("nobody", "", False)
    assert "run this as nobody" in found.advice
    assert "belongs to nobody" in found.why
    file.parent.chmod(0o777)
    found = strangers.doubt(str(path))
    assert found is not None
    assert (found.remedy, found.is_open) == (f"`chmod o-w '{file.parent}'`", True)
    assert "chown" not in found.advice


@needs_root
@pytest.mark.parametrize("modes", [(0o644, 0o755), (0o666, 0o755), (0o644, 0o777), (0o666, 0o777)])
@pytest.mark.parametrize("theirs", ["", "file", "folder", "file folder"])
def test_another_owner_is_always_named_and_nothing_is_said_to_mend_that(file, theirs, modes):
    """A command may make their file count; what they wrote in it is theirs all the same."""
    for path, mode in zip((file, file.parent), modes, strict=True):
        path.chmod(mode)
    for each in theirs.split():
        os.chown({"file": file, "folder": file.parent}[each], NOBODY, NOBODY)
    found = strangers.doubt(str(file))
    is_open = modes != (0o644, 0o755)
    if not theirs and not is_open:
        assert found is None
        return
    assert found is not None
    assert (found.is_anothers, found.is_open) == (bool(theirs), is_open)
    assert ("belongs to nobody" in found.why) == bool(theirs)
    assert ("everybody may write" in found.why) == is_open
    assert ("if it is to count: " in found.advice) == bool(theirs)
    assert ("mends" in found.advice) == (not theirs)


@needs_root
@pytest.mark.parametrize("is_for_them", [False, True], ids=["for itself", "for them"])
@pytest.mark.parametrize("below", ["file", "ours/file"])
def test_root_is_never_told_to_take_a_file_in_a_user_s_home(home, tmp_path, is_for_them, below):
    """Whosever it is, and whosever the folders between are: it becomes that user's, if root works for them,
    else root is to run as they are."""
    place = home if is_for_them else tmp_path / "theirs"
    path = place / below
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    os.chown(place, SOMEBODY, SOMEBODY)
    os.chown(path, NOBODY, NOBODY)
    found = strangers.doubt(str(path))
    assert found is not None
    assert (found.remedy, found.run_as) == (
        (f"`chown {SOMEBODY} {path}`", "") if is_for_them else ("", f"the user {SOMEBODY}")
    )


@needs_root
@pytest.mark.process
def test_another_user_counts_what_is_theirs_and_root_s(tmp_path):
    """Seen by nobody, who has no name for user 12345, and needs root's help to mend it."""
    for path in (tmp_path, *tmp_path.parents[:3]):
        with contextlib.suppress(OSError):
            path.chmod(path.stat().st_mode | 0o011)
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    for name, owner in (("own", NOBODY), ("root", 0), ("other", 12345)):
        (folder / name).touch()
        os.chown(folder / name, owner, owner)

    def look_as_nobody() -> None:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        assert strangers.doubt(str(folder / "own")) is None
        assert strangers.doubt(str(folder / "root")) is None
        found = strangers.doubt(str(folder / "other"))
        assert found is not None
        assert found.why == "it belongs to the user 12345"
        assert found.remedy == f"`sudo chown nobody {folder / 'other'}`"

    with process(look_as_nobody):
        pass


# --- repositories ---------------------------------------------------------------------------------------


def make_repository(folder, owner):
    (folder / ".git" / "objects").mkdir(parents=True)
    (folder / ".git" / "HEAD").write_text("ref: refs/heads/main\n")
    os.chown(folder / ".git", owner, owner)


@needs_root
def test_a_repository_that_somebody_put_above_is_none(tmp_path):
    """In a folder of everybody's, with the sticky bit or without: no project, and no link leads that far.
    One of another user in a folder of theirs is a project, but opens nothing to links."""
    work = tmp_path / "work"
    work.mkdir()
    make_repository(tmp_path, NOBODY)
    for mode in (0o777, 0o1777):
        tmp_path.chmod(mode)
        assert project_of(str(work)).root == tree_of(str(work)) == str(work)
        keep_out(str(work), ["locks"])
        assert not (tmp_path / ".git" / "info").exists()
    tmp_path.chmod(0o755)
    assert project_of(str(work)).root == str(tmp_path)
    assert tree_of(str(work)) == str(work)
    os.chown(tmp_path / ".git", 0, 0)
    assert tree_of(str(work)) == str(tmp_path)


# --- stores ---------------------------------------------------------------------------------------------


def said_in(layout: str, home: str, text: str) -> None:
    store = open_store(layout, home, durability="process")
    header = Header("", "2026-01-31T09:05:00.123Z")
    store.create(header._replace(id=store.new_id(header)), [user_entry(text)])


@pytest.mark.parametrize("mode", [0o777, 0o1777, 0o702])
@pytest.mark.parametrize("which", ["home", "sessions"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_store_that_everybody_may_write_to_is_refused_with_the_command(layout, which, mode, tmp_path):
    """With the sticky bit, too: what somebody adds would be taken for the user's. A group may write."""
    (tmp_path / ".workspace").mkdir()
    said_in(layout, str(tmp_path), "mine")
    home = Home(layout, str(tmp_path))
    folder = (
        tmp_path if which == "home" else os.path.join(tmp_path, LAYOUTS[layout].sessions or "conversations")
    )
    os.chmod(folder, mode)
    for use in (lambda: open_store(*home), lambda: find("x", [home])):
        with pytest.raises(Exception, match=f"`chmod o-w {folder}`"):
            use()
    os.chmod(folder, 0o775)
    assert len([*listed([home])]) == 1
    open_store(*home)


@needs_root
def test_a_session_s_lock_in_a_folder_of_everybody_s_counts_in_a_folder_of_the_user_s_alone(tmp_path):
    """Somebody may put theirs there after the store was opened, and could remove the lock in it."""
    store = open_store("pi", str(tmp_path), sessions_dir=str(tmp_path), durability="process")
    header = Header("x", "2026-01-31T09:05:00.123Z")
    ref = store.create(header, [user_entry("mine")])
    tmp_path.chmod(0o1777)
    store = open_store("pi", str(tmp_path), sessions_dir=str(tmp_path), file=ref.path)
    assert isinstance(store, FileStore)
    locks = tmp_path / "locks"
    locks.mkdir()
    os.chown(locks, NOBODY, NOBODY)
    with pytest.raises(OthersMayWrite, match=f"{locks} is not used"):
        store.writer(ref)
    assert store.holder(ref) is None
    os.chown(locks, 0, 0)
    store.writer(ref).release()


@pytest.mark.skipif(os.name == "nt", reason="has no such folder")
def test_nobody_not_even_root_is_told_to_close_the_folder_for_temporary_files():
    """Everybody needs it. A session that lies there is to be kept elsewhere."""
    with pytest.raises(OthersMayWrite, match="a folder of your own") as refused:
        strangers.refuse_open("/tmp")
    assert "chmod" not in str(refused.value) + (refused.value.hint or "")


def test_a_listing_names_a_refused_home_and_goes_on_with_the_others(home, tmp_path, monkeypatch):
    """Neither its sessions nor its trash are there, also not as they were known before."""
    monkeypatch.chdir(tmp_path)
    for layout, name in (("pi", ".pi/agent"), ("soleur", ".soleur")):
        (home / name).mkdir(parents=True)
        said_in(layout, str(home / name), layout)
    with Catalog() as catalog:
        assert catalog.catch_up(Scope.everything()) == []
        assert len(catalog.rows(Scope.everything())) == 2
        (home / ".soleur").chmod(0o707)
        (problem,) = catalog.catch_up(Scope.everything())
        assert f"`chmod o-w {home / '.soleur'}`" in problem
        assert [row.program for row in catalog.rows(Scope.everything())] == ["pi"]
    problems: list[str] = []
    assert deleted(problems=problems) == []
    assert len(problems) == 1


def test_a_store_that_one_names_is_refused_likewise(tmp_path):
    from perdure.session.manager import SessionManager

    tmp_path.chmod(0o777)
    with pytest.raises(OthersMayWrite, match="everybody may write"):
        SessionManager(tmp_path).list_sessions()


# --- workspaces -----------------------------------------------------------------------------------------


@needs_root
def test_a_workspace_of_somebody_else_s_is_passed_over_and_named(home, tmp_path, monkeypatch):
    """In the folder for temporary files, or in one of theirs; the user's own further up counts."""
    near, work = tmp_path / "near", tmp_path / "near" / "work"
    work.mkdir(parents=True)
    for folder in (tmp_path, near):
        (folder / ".workspace").mkdir()
    os.chown(near / ".workspace", NOBODY, NOBODY)
    monkeypatch.chdir(work)
    for mode in (0o1777, 0o777, 0o755):
        near.chmod(mode)
        path, (why,) = workspace_around(".workspace")
        assert path == str(tmp_path)
        assert why.message.startswith(f"{near / '.workspace'} is not used: ")
        # A listing of everything says so, too, and has the other one.
        with Catalog() as catalog:
            assert len(catalog.catch_up(Scope.everything())) == 1
        assert {each.path for each in homes() if each.program == "cortext"} == {str(near), str(tmp_path)}


@needs_root
def test_a_workspace_of_somebody_else_s_counts_if_the_user_has_said_so(home, tmp_path, monkeypatch):
    """It is in the list of theirs; but not in a folder that everybody may write to, and not if others may
    have written that list."""
    (tmp_path / ".workspace").mkdir()
    os.chown(tmp_path / ".workspace", NOBODY, NOBODY)
    monkeypatch.chdir(tmp_path)
    (home / ".cortext").mkdir()
    known = home / ".cortext" / "workspaces"
    known.write_text(f"{tmp_path}\n")
    assert workspace_around(".workspace") == (str(tmp_path), [])
    places = [(known, 0o666, 0o600), (tmp_path / ".workspace", 0o777, 0o755), (tmp_path, 0o1777, 0o755)]
    for path, wrong, right in places:
        path.chmod(wrong)
        with pytest.raises(Exception, match="is not used"):
            workspace_around(".workspace")
        path.chmod(right)
    assert workspace_around(".workspace").path == str(tmp_path)


@needs_root
def test_nobody_is_told_to_take_a_workspace_from_its_owner(home, tmp_path, monkeypatch):
    """But to say that it counts. For root with the owner's HOME it does."""
    (tmp_path / ".workspace").mkdir()
    for path in (tmp_path, tmp_path / ".workspace"):
        os.chown(path, NOBODY, NOBODY)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotFound) as refused:
        workspace_around(".workspace")
    assert f"`cortext init {tmp_path}`" in refused.value.hint
    assert "chown" not in refused.value.hint
    os.chown(home, NOBODY, NOBODY)
    assert workspace_around(".workspace") == (str(tmp_path), [])
