"""Other users of the machine: what they put into a folder above, or may write to, is not obeyed unseen."""

import json
import os

import pytest

from perdure.agent.settings import Settings
from perdure.agent.trust import Trust
from perdure.errors import OthersMayWrite
from perdure.session.stores import open_store
from tests.agent.models.wire_server import events, wire_server
from tests.disk_without_modes import call_modeless
from tests.front.one_prompt import Pi, said
from tests.other_users import needs_root
from tests.processes import SCRIPTS, run
from tests.programs.started import aur, sibyl, soleur, system_of
from tests.programs.workspaces import cortext

__all__ = ["aur", "cortext", "sibyl", "soleur", "wire_server"]

pytestmark = pytest.mark.process

NOBODY = 65534


@pytest.fixture
def shared(tmp_path):
    """A folder of everybody's, as the one for temporary files is, and one of the user's in it."""
    folder = tmp_path / "shared"
    (folder / "mine").mkdir(parents=True)
    folder.chmod(0o1777)
    return folder


def theirs(path, text=""):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.chown(path, NOBODY, NOBODY)
    return path


@pytest.fixture
def pi(home, shared, wire_server):
    pi = Pi(home, shared / "mine")
    pi.use(wire_server)
    wire_server.script(events(said("yes")))
    return pi


def answered(pi, *words):
    """The notices beside the answer."""
    done = pi("-p", "hello", *words)
    assert done.stdout == b"yes\n", done.stderr
    return [line for line in done.stderr.decode().splitlines() if not line.startswith("Go on: ")]


# --- text -----------------------------------------------------------------------------------------------


@needs_root
def test_g_10_instructions_of_another_user_above_are_left_out_and_named_in_one_line(pi, shared, wire_server):
    """With the command that mends it. The user's own beside them count."""
    theirs(shared / "AGENTS.md", "OBEY nobody")
    theirs(shared / "CLAUDE.md", "OBEY nobody")
    (shared / "mine" / "AGENTS.md").write_text("MY OWN")
    (notice,) = answered(pi)
    assert "OBEY" not in system_of(wire_server)
    assert "MY OWN" in system_of(wire_server)
    assert f"{shared / 'AGENTS.md'}" in notice
    assert f"{shared / 'CLAUDE.md'}" in notice
    assert f"`chown root {shared / 'AGENTS.md'}`" in notice
    assert "nobody" in notice
    assert "pi trust" not in notice  # nobody trusts a folder of everybody's


@needs_root
def test_g_10_instructions_of_another_user_in_an_open_folder_are_named_as_theirs(pi, shared, wire_server):
    """That everybody may write to the folder does not hide who wrote the file."""
    theirs(shared / "AGENTS.md", "OBEY nobody")
    shared.chmod(0o777)
    (notice,) = answered(pi)
    assert "OBEY" not in system_of(wire_server)
    for each in ("belongs to nobody", "everybody may write to its folder", "if it is to count"):
        assert each in notice


@needs_root
def test_g_10_instructions_of_another_user_count_in_a_folder_that_is_trusted(pi, shared, wire_server):
    """As in a repository that a team shares; who calls sudo is the user."""
    path = theirs(shared / "mine" / "AGENTS.md", "OF THE TEAM")
    (notice,) = answered(pi)
    assert f"`pi trust {path.parent}`" in notice
    assert "OF THE TEAM" not in system_of(wire_server)
    done = pi("-p", "hello", env=os.environ | {"SUDO_UID": str(NOBODY)})
    assert b"AGENTS.md" not in done.stderr
    assert "OF THE TEAM" in system_of(wire_server)
    Trust().decide(str(shared / "mine"), True)
    assert answered(pi) == []
    assert "OF THE TEAM" in system_of(wire_server)


def test_g_10_instructions_that_everybody_may_write_are_left_out(pi, shared, wire_server):
    """The user's own file, and any in a folder without the sticky bit; what a group may write counts."""
    path = shared / "mine" / "AGENTS.md"
    path.write_text("ANYBODY'S")
    path.chmod(0o666)
    (notice,) = answered(pi)
    assert f"`chmod o-w {path}`" in notice
    path.chmod(0o664)
    path.parent.chmod(0o777)
    (notice,) = answered(pi)
    assert f"`chmod o-w {path.parent}`" in notice
    assert all("ANYBODY'S" not in system_of(wire_server, at) for at in range(len(wire_server.requests)))
    path.parent.chmod(0o775)
    assert answered(pi) == []
    assert "ANYBODY'S" in system_of(wire_server)


@needs_root
def test_g_10_a_link_of_another_user_to_a_file_of_ours_is_not_read(pi, shared, wire_server):
    """It would be ours, and inside the folder."""
    (shared / "notes.txt").write_text("MY NOTES")
    (shared / "AGENTS.md").symlink_to("notes.txt")
    os.chown(shared / "AGENTS.md", NOBODY, NOBODY, follow_symlinks=False)
    assert len(answered(pi)) == 1
    assert "MY NOTES" not in system_of(wire_server)


@needs_root
def test_aur_15_an_agent_of_another_user_is_none(aur, wire_server):
    aur.answers(wire_server, "ok")
    theirs(aur.project / ".aurora" / "agents" / "helper.md", "OBEY nobody")
    done = aur.within("spawn", "--agent", "helper", stdin="hello\n")
    assert done.code == 2
    done = aur.within("spawn", stdin="hello\n")
    assert done.err.count("helper.md is no agent: it belongs to nobody") == 1


@needs_root
def test_sol_11_a_readme_of_another_user_is_not_asked_for(soleur):
    theirs(soleur.project / "README.md", "# Acme")
    done = soleur.run(stdin="")
    assert (done.code, "README.md as" in done.out) == (0, False)
    assert "belongs to nobody" in done.err


# --- workspaces -----------------------------------------------------------------------------------------


@needs_root
def test_cor_01_a_workspace_of_another_user_is_not_used_unless_its_user_says_so(cortext, shared, home):
    """It is named, with what makes it count; then its owner's prompts are read, and nobody else's."""
    owner = 12345
    (shared / "theirs").mkdir()
    cortext.project = shared / "theirs"
    assert cortext.run("init", "--no-commit").code == 0
    (home / ".cortext" / "workspaces").unlink()
    for folder, _, files in os.walk(shared / "theirs"):
        for path in (folder, *(os.path.join(folder, each) for each in files)):
            os.chown(path, owner, owner)
    for words in (["list"], ["start", "plan", "x"]):
        refused = cortext.run(*words, stdin="")
        assert refused.code == 3
        assert (
            f"{shared / 'theirs' / '.workspace'} is not used: it belongs to the user {owner}" in refused.err
        )
        assert f"`cortext init {shared / 'theirs'}`" in refused.err
    everything = run(
        [SCRIPTS / "pi", "sessions", "ls", "--all"], cwd=cortext.project, capture_output=True, text=True
    )
    assert everything.returncode == 0
    assert everything.stderr.count("is not used") == 1
    assert cortext.run("init").code == 0
    assert cortext.run("list").code == 0
    assert cortext.run("start", "plan", "x", stdin="").code == 0
    prompt = cortext.project / ".workspace" / "commands" / "workspace.plan.md"
    os.chown(prompt, NOBODY, NOBODY)
    refused = cortext.run("start", "plan", "x", stdin="")
    assert refused.code == 1
    assert f"{prompt} is not used: it belongs to nobody" in refused.err


# --- stores ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("program", "folder", "words"),
    [
        ("pi", ".pi/agent/sessions", ["-p", "hello"]),
        ("pi", ".pi/agent/sessions", ["-c", "-p", "hello"]),
        ("pi", ".pi/agent/sessions", ["-r", "x", "-p", "hello"]),
        ("pi", ".pi/agent/sessions", ["sessions", "show", "x"]),
        ("aur", ".aurora/spawn/sessions", ["spawn"]),
        ("aur", ".aurora/spawn/sessions", ["spawn", "--resume", "x"]),
        ("aur", ".aurora/spawn/sessions", ["spawn", "--list-sessions"]),
        ("soleur", ".soleur/sessions", ["--fresh"]),
        ("soleur", ".soleur/sessions", ["sessions"]),
        ("soleur", ".soleur/sessions", ["load", "x"]),
        ("sibyl", ".sibyl/sessions", []),
    ],
)
def test_a_store_that_everybody_may_write_to_is_refused_by_its_program(
    home, tmp_path, program, folder, words
):
    """One line with the command that mends it, and nothing is written; afterwards all is well."""
    store = home / folder
    store.mkdir(parents=True)
    store.chmod(0o777)
    options = {"cwd": tmp_path, "input": "hello\n", "capture_output": True, "text": True}
    refused = run([SCRIPTS / program, *words], **options)
    assert refused.returncode in ((1, 3) if {"-c", "x"} & {*words} else (1,)), refused
    assert refused.stderr.count(f"`chmod o-w {store}`") == 1
    assert "Traceback" not in refused.stderr
    assert [*store.iterdir()] == []
    store.chmod(0o770)
    assert "o-w" not in run([SCRIPTS / program, *words], **options).stderr


@pytest.fixture
def named(pi, shared):
    """A session of the user's, in the file of a folder of everybody's, to which it was exported."""
    assert pi("-p", "first").returncode == 0
    (ref,) = open_store("pi").list()
    path = shared / "s.jsonl"
    assert pi("sessions", "export", ref.id, "--to", "pi", "-o", str(path)).returncode == 0
    return path


def test_g_10_a_session_that_is_named_by_its_file_goes_on_in_a_folder_of_everybody_s(pi, shared, named):
    """Whatever links others have made beside it: none is followed, and none is taken for the session."""
    victim = shared / "mine" / "victim"
    victim.write_text("as it was")
    for name in ("s.jsonl.tmp", "s.jsonl.damaged", "0.jsonl", "locks~"):
        (shared / name).symlink_to(victim)
    (shared / "1.jsonl").symlink_to(named)
    (shared / "2.jsonl").symlink_to("nowhere")
    before = named.read_bytes()
    assert answered(pi, "--session", str(named)) == []
    assert named.read_bytes().startswith(before)
    assert b"hello" in named.read_bytes()[len(before) :]
    assert victim.read_text() == "as it was"
    assert (shared / "locks").stat().st_mode & 0o077 == 0


def test_a_link_of_the_user_s_own_to_a_session_beside_it_is_followed(pi, shared, named):
    """In a folder where nobody else can make one; the session is the file that it leads to."""
    (folder := shared / "mine").chmod(0o700)
    session = named.rename(folder / "s.jsonl")
    (folder / "a.jsonl").symlink_to("s.jsonl")
    assert answered(pi, "--session", str(folder / "a.jsonl")) == []
    assert b"hello" in session.read_bytes()
    assert (folder / "a.jsonl").is_symlink()


@needs_root
@pytest.mark.parametrize("what", ["owner", "mode", "folder", "locks", "link"])
def test_g_10_a_session_in_a_folder_of_everybody_s_is_refused_if_others_may_have_written_it(
    pi, shared, named, what
):
    """Or if they can take its lock away; and nothing is written."""
    wrong = named
    match what:
        case "owner":
            os.chown(named, NOBODY, NOBODY)
        case "mode":
            named.chmod(0o666)
        case "folder":
            shared.chmod(0o777)
        case "locks":
            wrong = shared / "locks"
            wrong.mkdir()
            os.chown(wrong, NOBODY, NOBODY)
        case "link":
            os.rename(named, shared / "elsewhere")
            named.symlink_to(shared / "elsewhere")
            os.chown(named, NOBODY, NOBODY, follow_symlinks=False)
    before = named.read_bytes()
    done = pi("--session", str(named), "-p", "hello")
    assert done.returncode == 1
    assert f"{wrong} is not used".encode() in done.stderr
    assert named.read_bytes() == before
    assert not [*shared.glob("locks/*")]


def test_cor_01_a_workspace_that_everybody_may_write_to_is_refused(cortext):
    assert cortext.run("init", "--no-commit").code == 0
    for mode in (0o777, 0o1777):
        cortext.project.chmod(mode)
        for words in (["list"], ["start", "plan", "x"], ["resume", "--list"], ["init"]):
            refused = cortext.run(*words, stdin="")
            assert refused.code in (1, 3)
            assert "chmod o-w" in refused.err
            assert "cortext init" not in refused.err  # which would not help


def test_cor_01_no_workspace_is_made_where_everybody_may_write(cortext, tmp_path):
    """It could not be used."""
    place = tmp_path / "open"
    place.mkdir()
    place.chmod(0o777)
    refused = cortext.run("init", str(place), stdin="")
    assert refused.code == 1
    assert f"`chmod o-w {place}`" in refused.err
    assert [*place.iterdir()] == []


def test_cor_01_a_workspace_is_made_and_used_on_a_disk_without_modes(cortext, tmp_path, monkeypatch):
    """There everything looks as if everybody may write to it, and `chmod` does nothing."""
    monkeypatch.setattr("perdure.session.disks.MOUNTS", str(tmp_path / "mountinfo"))
    cortext.project = tmp_path / "disk"
    cortext.project.mkdir()
    cortext.project.chmod(0o777)
    refused = cortext.within("init", "--no-commit")
    assert refused.code == 1, refused
    call_modeless(tmp_path, tmp_path / "mountinfo", monkeypatch)
    for words in (["init", "--no-commit"], ["start", "plan", "x"], ["list"]):
        done = cortext.within(*words)
        assert done.code == 0, done
        for path in (cortext.project, *cortext.project.rglob("*")):
            path.chmod(0o777)


# --- what runs ------------------------------------------------------------------------------------------


@needs_root
@pytest.mark.parametrize("which", ["the user's", "a trusted project's", "one that is named", "a link's"])
def test_g_10_an_extension_of_another_user_is_not_run(pi, shared, home, tmp_path, which, wire_server):
    """Wherever it lies, also where its folder is trusted: nobody was shown the code. It runs when it is the
    user's, and not when everybody may write to it."""
    ran = tmp_path / "ran"
    places = {"a trusted project's": shared / "mine" / ".pi", "one that is named": tmp_path}
    path = places.get(which, home / ".pi" / "agent") / "extensions" / "evil.py"
    if which == "a link's":
        path.parent.mkdir()
        path.symlink_to(tmp_path / "elsewhere.py")
        path = tmp_path / "elsewhere.py"
    theirs(path, f"open({str(ran)!r}, 'w').close()\ndef register(api): pass\n")
    pi.use(wire_server, **({"extensions": [str(path)]} if which == "one that is named" else {}))
    Trust().decide(str(shared / "mine"), True)
    (notice,) = answered(pi)
    assert "evil.py" in notice or "elsewhere.py" in notice
    assert f"`chown root {path}`" in notice
    os.chown(path, 0, 0)
    path.chmod(0o666)
    (notice,) = answered(pi)
    assert f"`chmod o-w {path}`" in notice
    assert not ran.exists()
    path.chmod(0o664)
    assert answered(pi) == []
    assert ran.exists()


@needs_root
@pytest.mark.parametrize("how", ["owner", "mode", "folder"])
@pytest.mark.parametrize("name", ["settings.json", "models.json", "trust.json"])
def test_g_10_settings_of_another_user_are_refused(pi, shared, home, name, how):
    """They name commands that are run for keys, and who is trusted; the command mends that."""
    path = home / ".pi" / "agent" / name
    if not path.exists():
        path.write_text("{}")
    at = path.parent if how == "folder" else path
    if how == "owner":
        os.chown(path, NOBODY, NOBODY)
        command = f"`chown root {path}`"
    else:
        at.chmod(0o777 if how == "folder" else 0o666)
        command = f"`chmod o-w {at}`"
    if name == "trust.json":
        assert command in Trust().trouble
        with pytest.raises(Exception, match="is not used"):
            Trust().decide(str(shared), True)
        return
    done = pi("-p", "hello")
    assert done.returncode == 1
    assert command in done.stderr.decode()
    assert b"Traceback" not in done.stderr


def test_g_10_a_trusted_project_s_settings_that_everybody_may_write_are_refused(shared):
    """Who trusts the folder has seen what they say, and not what anybody writes later."""
    path = shared / "mine" / ".pi" / "settings.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"defaultModel": "x"}))
    assert Settings.load(project=str(shared / "mine")).default_model == "x"
    path.chmod(0o666)
    with pytest.raises(OthersMayWrite, match=r"`chmod o-w .*settings\.json`"):
        Settings.load(project=str(shared / "mine"))


@needs_root
def test_g_10_settings_of_another_user_are_refused_in_a_folder_that_everybody_may_write_to(shared):
    """Whose they are was seen by who trusts the project; who replaces them is not."""
    path = theirs(shared / "mine" / ".pi" / "settings.json", json.dumps({"defaultModel": "x"}))
    assert Settings.load(project=str(shared / "mine")).default_model == "x"
    path.parent.chmod(0o777)
    with pytest.raises(OthersMayWrite, match=r"everybody may write to its folder; .*`chown .*chmod o-w .*`"):
        Settings.load(project=str(shared / "mine"))


@needs_root
def test_g_10_root_obeys_the_settings_of_whose_home_it_has(pi, home):
    """As after `su -m`, with `doas`, or in a container that has a user's home. Another user's file in that
    home is refused, and is to become the user's, not root's."""
    models = home / ".pi" / "agent" / "models.json"
    models.write_text("{}")
    for path in (home, *home.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    assert answered(pi) == []
    os.chown(models, 12345, 12345)
    refused = pi("-p", "hello")
    assert refused.returncode == 1
    assert f"`chown nobody {models}`" in refused.stderr.decode()


@needs_root
def test_the_other_programs_refuse_settings_of_another_user(aur, soleur, sibyl):
    for program, name in (
        (aur, "config.json"),
        (soleur, "config.toml"),
        (soleur, "prompt.md"),
        (sibyl, "config.toml"),
    ):
        layout = {"aur": ".aurora"}.get(program.name, f".{program.name}")
        path = theirs(program.home / layout / name, "{}" if name.endswith("json") else "x = 1")
        done = program.run(*(["spawn"] if program is aur else []), stdin="")
        assert done.code == 1, done
        assert f"`chown root {path}`" in done.err
        path.unlink()
