"""The process that starts commands for a program, and ends them with it, and all that they have started.

It ends them when its socket is closed or the program is gone, however that died: a program that is killed
cannot do it. On Linux it is a child subreaper: a process whose parent has ended becomes its child, whatever
session, environment and descriptors that has, so it finds every one of them. Where there is no such thing, as
on macOS, it finds those that descend from it, and those in the sessions that it began.

It runs as a program of its own, by its file, so it imports nothing of Perdure: a fork of the program would
hold its locks and its keys, and one with threads cannot be forked safely. What it starts may be given keys,
which pass through its memory: on Linux no other process of the user can look into it. The signals of a
terminal, and those that ask a process to end, are not for it: it ends last.

Its standard input is a socket. A request is the length of its text, sent together with the descriptors that
the new process gets, and the text. An answer is a line: `ready`, `started PID`, `failed WHERE ERRNO`, and
later `exited PID CODE OTHERS`; at the end, `ended PID NAME` for each process that was still running, and
`done` when none is.
"""

from __future__ import annotations

# `signal` and `socket` themselves import `enum` and more, which takes as long as all the rest of this
# process's start: it has no use for names of numbers.
import _signal as signal  # type: ignore[import-not-found]
import _socket as socket
import errno
import os
import select
import sys
import time

GRACE = 0.3
"""Seconds between asking a process to end and forcing it."""
GIVE_UP = 5.0
"""Seconds after which a process is left alone that was forced and has not ended: it hangs in the kernel."""
RELEASE = b"\0\0\0\0"
"""The request that ends this process and nothing else."""
HAS_PROC = os.path.exists("/proc/self/environ")
_MOST_DESCRIPTORS = 8
_DESCRIPTOR_SIZE = 4  # of an int in C
_PR_SET_DUMPABLE = 4
_PR_SET_CHILD_SUBREAPER = 36
_IGNORED = ("SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT", "SIGTSTP", "SIGTTIN", "SIGTTOU", "SIGUSR1", "SIGUSR2")
_IGNORED_BY_PYTHON = ("SIGPIPE", "SIGXFSZ")


# --- all processes there are ------------------------------------------------------------------------------


class RunningProcess:
    """One process of this machine. Its pid and `started` together are never another's."""

    __slots__ = ("group", "parent", "pid", "session", "started")

    def __init__(self, pid: int, parent: int, group: int, session: int, started: str) -> None:
        self.pid, self.parent, self.group, self.session, self.started = pid, parent, group, session, started


def all_processes() -> list[RunningProcess]:
    """Without those that have ended and only wait to be noticed. None where there is neither /proc nor ps."""
    return _from_proc() if HAS_PROC else _from_ps()


def _from_proc() -> list[RunningProcess]:
    found = []
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb", buffering=0) as file:
                # The second field is the program's name in brackets, and may have anything in it.
                state, parent, group, session, *rest = file.read().rpartition(b")")[2].split()
        except (OSError, ValueError):
            continue
        if state not in (b"Z", b"X"):
            found.append(RunningProcess(int(name), int(parent), int(group), int(session), rest[15].decode()))
    return found


def _path() -> dict[str, str]:
    """All that `ps` needs of the environment, which may be a program's with keys in it."""
    return {"PATH": os.pathsep.join(os.get_exec_path())}


def _from_ps() -> list[RunningProcess]:
    import subprocess

    command = ["ps", "-A", "-o", "pid=,ppid=,pgid=,state=,lstart="]
    try:
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=_path(),
        ) as listing:
            listed, _ = listing.communicate()
    except OSError:
        return []
    found = []
    for line in listed.decode("utf-8", "replace").splitlines():
        pid, parent, group, state, started = line.split(None, 4)
        if not state.startswith("Z") and int(pid) != listing.pid:
            found.append(RunningProcess(int(pid), int(parent), int(group), int(group), started))
    return found


def name_of(pid: int) -> str:
    """The name of its program, as the system knows it, on one line; empty if it has ended."""
    return "".join(char if char.isprintable() else "?" for char in _name_of(pid).strip())


def _name_of(pid: int) -> str:
    if not HAS_PROC:
        import subprocess

        command = ["ps", "-p", str(pid), "-o", "comm="]
        try:
            listed = subprocess.run(
                command, stdin=subprocess.DEVNULL, capture_output=True, check=False, env=_path()
            )
        except OSError:
            return ""
        return os.path.basename(listed.stdout.decode("utf-8", "replace"))
    try:
        with open(f"/proc/{pid}/comm", "rb") as file:
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def has_members(group: int) -> bool:
    """Whether any process is in a group; those count that only wait to be noticed."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def add_descendants(found: set[int], processes: list[RunningProcess]) -> None:
    children: dict[int, list[int]] = {}
    for each in processes:
        children.setdefault(each.parent, []).append(each.pid)
    waiting = list(found)
    while waiting:
        new = [pid for pid in children.get(waiting.pop(), ()) if pid not in found]
        found.update(new)
        waiting += new


# --- the supervisor ---------------------------------------------------------------------------------------


class _Released(Exception):
    """What is running is to be left alone."""


class _Supervisor:
    def __init__(self, program: int, link: socket.socket) -> None:
        self.program = program
        self.link = link
        _prctl(_PR_SET_DUMPABLE, 0)
        self.is_subreaper = _become_subreaper()
        self.apart: dict[str, int] = {"setsid": True}
        """How a process gets a session of its own, or at least a group."""
        self.running: set[int] = set()
        self.sessions: set[int] = set()
        """Those that have living processes, each by the pid of its first; none, if kinship says it all."""
        self.signals_of_others = [getattr(signal, name) for name in _IGNORED_BY_PYTHON]
        """Signals that are ignored here and not in a new process. What the program itself was told to ignore,
        as by nohup, stays so."""
        for number in [getattr(signal, name) for name in _IGNORED]:
            if signal.getsignal(number) != signal.SIG_IGN:
                self.signals_of_others.append(number)
                signal.signal(number, signal.SIG_IGN)
        self.blocked = signal.pthread_sigmask(signal.SIG_SETMASK, ())
        """Signals that are blocked in the program, and so in a new process. Here none is: SIGCHLD has to
        come."""
        self.wakes, wake = os.pipe()
        for end in (self.wakes, wake):
            os.set_blocking(end, False)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)

    def serve(self) -> None:
        """Until the program is gone or closes the link."""
        waiting = select.poll()
        for each in (self.link.fileno(), self.wakes):
            waiting.register(each, select.POLLIN)
        try:
            # A copy of the program that was forked may hold the link open; this knows of the program alone.
            waiting.register(os.pidfd_open(self.program), select.POLLIN)
        except (AttributeError, OSError):
            pass  # not on macOS, nor with an old kernel or one that a sandbox stands in for
        if os.getppid() != self.program:
            return
        self.tell("ready")
        while True:
            ready = {descriptor for descriptor, _ in waiting.poll()}
            if self.wakes in ready:
                os.read(self.wakes, 4096)
                self.reap()
            if self.link.fileno() in ready:
                if not self.take_request():
                    return
            elif ready - {self.wakes}:
                return

    # --- starting ---------------------------------------------------------------------------------------

    def take_request(self) -> bool:
        """False at the end of all requests."""
        length, given = _received(self.link)
        try:
            for descriptor in given:
                os.set_inheritable(descriptor, False)
            if len(length) < 4:
                return False
            if length == RELEASE:
                raise _Released
            text = bytearray()
            size = int.from_bytes(length, "big")
            while len(text) < size:
                piece = self.link.recv(min(size - len(text), 2**20))
                if not piece:
                    return False
                text += piece
            cwd, numbers, count, *words = bytes(text).split(b"\0")
            command, settings = words[: int(count)], words[int(count) :]
            environment = dict(each.split(b"=", 1) for each in settings)
            targets = [int(number) for number in numbers.split()]
            self.start(command, cwd, environment, list(zip(given, targets, strict=True)))
        finally:
            for descriptor in given:
                os.close(descriptor)
        return True

    def start(
        self, command: list[bytes], cwd: bytes, environment: dict[bytes, bytes], files: list[tuple[int, int]]
    ) -> None:
        # Not by fork and exec, which takes twice as long. That knows no directory: this process has no other
        # use for its own, and must not stay there, where it would keep a disk from being unmounted.
        where = "directory"
        try:
            os.chdir(cwd)
            where = "command"
            pid = os.posix_spawn(
                _program(command[0], environment.get(b"PATH", os.defpath.encode())),
                command,
                environment,
                file_actions=[(os.POSIX_SPAWN_DUP2, descriptor, number) for descriptor, number in files],
                setsigdef=self.signals_of_others,
                setsigmask=self.blocked,
                **self.apart,  # type: ignore[arg-type]
            )
        except OSError as error:
            self.tell(f"failed {where} {error.errno}")
            return
        except NotImplementedError:  # of setsid, with some C libraries
            self.apart = {"setpgroup": 0}
            self.start(command, cwd, environment, files)
            return
        finally:
            os.chdir(os.sep)
        self.running.add(pid)
        if not (self.is_subreaper and HAS_PROC):
            self.sessions.add(pid)
        self.tell(f"started {pid}")

    # --- ending -----------------------------------------------------------------------------------------

    def reap(self) -> None:
        """Notice what has ended, and tell of what was started here. A process whose parent ends is given to
        this one before that end is told, so `others` is never too few."""
        ended = []
        others = True
        while others:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                others = False
                break
            if not pid:
                break
            if pid in self.running:
                self.running.discard(pid)
                ended.append((pid, os.waitstatus_to_exitcode(status)))
        self.sessions = {each for each in self.sessions if each in self.running or has_members(each)}
        for pid, code in ended:
            self.tell(f"exited {pid} {code} {int(others or pid in self.sessions)}")

    def end_all(self) -> None:
        asked: set[int] = set()
        beyond_us: set[int] = set()
        force_at = time.monotonic() + GRACE
        misses = 0
        # One that forks between being listed and being signalled is seen in the second look.
        while misses < 2 and time.monotonic() < force_at + GIVE_UP:
            self.reap()
            living = self.living() - beyond_us
            if not asked:
                for pid in sorted(living):
                    self.tell(f"ended {abs(pid)} {name_of(pid)}")
                force_at = time.monotonic() + GRACE  # to name them may have taken longer than that
            is_forced = time.monotonic() >= force_at
            for pid in living if is_forced else living - asked:
                try:
                    os.kill(pid, signal.SIGKILL if is_forced else signal.SIGTERM)
                except ProcessLookupError:
                    pass
                except PermissionError:  # another user's by now, as with sudo
                    beyond_us.add(pid)
            asked |= living
            misses = 0 if living else misses + 1
            time.sleep(0.01 if living else 0)
        self.tell("done")

    def living(self) -> set[int]:
        """Their pids; where none can be listed, the negative numbers of groups, as `kill` takes them."""
        table = all_processes()
        if not table:
            return {-each for each in self.sessions if has_members(each)}
        found = {each.pid for each in table if each.parent == os.getpid()}
        found |= {each.pid for each in table if self.sessions & {each.group, each.session}}
        add_descendants(found, table)
        return found

    def tell(self, line: str) -> None:
        try:
            self.link.sendall(f"{line}\n".encode())
        except OSError:
            pass  # the program is gone, which the next look at the link says


def _received(link: socket.socket) -> tuple[bytes, list[int]]:
    """The length of a request, and the descriptors that came with it."""
    room = socket.CMSG_LEN(_MOST_DESCRIPTORS * _DESCRIPTOR_SIZE)
    length, ancillary, _, _ = link.recvmsg(4, room)
    given = []
    for level, kind, data in ancillary:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            whole = len(data) - len(data) % _DESCRIPTOR_SIZE
            given += memoryview(data)[:whole].cast("i").tolist()
    return length, given


def _program(name: bytes, path: bytes) -> bytes:
    """The file of a command, as a shell would find it."""
    if b"/" in name:
        return name
    for folder in path.split(b":"):
        file = os.path.join(folder, name)
        if os.path.isfile(file) and os.access(file, os.X_OK):
            return file
    raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name)


def _become_subreaper() -> bool:
    """Be given the orphans among all that descend from this process. False where there is no such thing."""
    return _prctl(_PR_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> bool:
    """Set an option of this process; whether there is one, as on Linux."""
    try:
        import ctypes

        prctl = ctypes.CDLL(None).prctl
    except (ImportError, OSError, AttributeError):
        return False
    return bool(prctl(option, value, 0, 0, 0) == 0)


def main() -> None:
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM, 0, 0)
    supervisor = _Supervisor(int(sys.argv[1]), link)
    try:
        supervisor.serve()
    except _Released:
        os._exit(0)
    finally:  # whatever went wrong
        supervisor.end_all()
    os._exit(0)  # without tidying up: the program waits for it


if __name__ == "__main__":
    main()
