"""What a hostile model would try, as a program that runs where the model server runs.

It is read from standard input by the server's own interpreter, in its sandbox, so it imports
nothing but the standard library. Each attempt is a function: it returns what it got hold of, or
raises OSError when it was refused. Each runs in a child, because some refusals are a signal.
The outcome of all is printed as JSON: name -> "refused: …" or "got: …".
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import mmap
import os
import resource
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial

STATE = "/var/cache/infinity"
GROUP = "infinity.service"
WRITABLE = (STATE, "/tmp", "/dev/shm")  # noqa: S108 - what it may write
SECRETS = (
    "/root/infinity-credentials.txt",
    "/etc/nginx/infinity-apikey.map",
    "/etc/nginx/.infinity.htpasswd",
    "/etc/nginx/infinity-site.conf",
    "/etc/ssl/infinity/infinity.key",
    "/etc/shadow",
    "/etc/ssh/ssh_host_ed25519_key",
    "/var/log/nginx/access.log",
    "/var/lib/cloud/instance/user-data.txt",
    "/var/lib/infinity-appliance/settings.json",
    "/run/cloud-init/instance-data.json",
    "/home/ubuntu/.ssh/authorized_keys",
    "/proc/1/environ",
    "/proc/1/cmdline",
    "/dev/mem",
    "/dev/kmsg",
)
PROGRAMS = (
    ("/bin/sh", "-c", "echo ran"),
    ("/bin/bash", "-c", "echo ran"),
    ("/usr/bin/curl", "--version"),
    ("/usr/bin/perl", "-e", "print 1"),
    ("/usr/bin/sudo", "-n", "true"),
    ("/usr/bin/systemctl", "list-units"),
    ("/usr/sbin/nginx", "-V"),
    ("/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", "/bin/sh", "-c", "echo ran"),
)
SOCKETS = (
    "/run/dbus/system_bus_socket",
    "/run/systemd/private",
    "/run/systemd/journal/socket",
    "/run/systemd/io.system.ManagedOOM",
    "/run/udev/control",
)
PLACES = (
    "/etc/cron.d/x", "/etc/systemd/system/x.service", "/etc/infinity/infinity.env",
    "/opt/infinity/venv/lib/x.py", "/opt/infinity/appliance/lib/x.py",
    "/var/lib/infinity/hf/hub/x", "/var/lib/infinity/x", "/run/x", "/root/x", "/home/ubuntu/x",
    "/usr/local/bin/x", "/var/spool/cron/crontabs/infinity", "/var/log/x", "/proc/sys/kernel/x",
    "/sys/fs/cgroup/cgroup.procs",
)  # fmt: skip
# x86-64's numbers of system calls, and arguments that would do something.
CALLS: dict[str, tuple[int, ...]] = {
    "ptrace attach to 1": (101, 16, 1, 0, 0),
    "mount": (165, 0, 0, 0, 0, 0),
    "unshare a user namespace": (272, 0x10000000),
    "setns": (308, 0, 0),
    "chroot": (161, 0),
    "bpf": (321, 0, 0, 0),
    "perf_event_open": (298, 0, 0, -1, -1, 0),
    "init_module": (175, 0, 0, 0),
    "kexec_load": (246, 0, 0, 0, 0),
    "reboot": (169, 0, 0, 0, 0),
    "settimeofday": (164, 0, 0),
    "sethostname": (170, 0, 0),
    "swapon": (167, 0, 0),
    "userfaultfd": (323, 0),
    "io_uring_setup": (425, 1, 0),
    "memfd_create": (319, 0, 0),
    "keyctl": (250, 0, -4, 0),
    "process_vm_readv of 1": (310, 1, 0, 0, 0, 0, 0),
    "pidfd_getfd": (438, 0, 0, 0),
    "setuid 0": (105, 0),
    "setgid 0": (106, 0),
}
LIBC = ctypes.CDLL(None, use_errno=True)


def call(*numbers: int) -> str:
    if LIBC.syscall(*map(ctypes.c_long, numbers)) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return "it returned"


def read(path: str) -> str:
    with open(path, "rb") as file:
        return f"{len(file.read(64))} bytes"


def write(path: str) -> str:
    with open(path, "wb") as file:
        file.write(b"x")
    return "written"


def execute(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, timeout=10, check=False)
    if done.returncode != 0:  # the loader ran, and could not map the program
        raise PermissionError(done.stderr.decode()[-80:])
    return done.stdout.decode()[:40]


def execute_written(folder: str) -> str:
    path = f"{folder}/program"
    with open(path, "w") as file:
        file.write("#!/opt/infinity/venv/bin/python\nprint('ran')\n")
    os.chmod(path, 0o755)  # noqa: S103 - the attempt
    return execute(path)


def map_written(folder: str) -> str:
    """As a library that it brought along would be."""
    with open(f"{folder}/library", "w+b") as file:
        file.write(bytes(4096))
        file.flush()
        mmap.mmap(file.fileno(), 4096, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)
    return "mapped"


def setuid_file() -> str:
    path = f"{STATE}/setuid"
    with open(path, "w"):
        os.chmod(path, 0o4755)  # noqa: S103 - the attempt
    return "made"


def connect(kind: str, host: str, port: str) -> str:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM) as door:
        door.settimeout(3)
        door.connect((host, int(port)))
        if kind == "udp":
            door.send(b"ping")
            door.recv(16)
    return "reached"


def resolve() -> str:
    return str(socket.getaddrinfo("example.com", 443))


def open_socket(family: int, kind: int, protocol: int = 0) -> str:
    socket.socket(family, kind, protocol).close()
    return "opened"


def connect_unix(path: str) -> str:
    with socket.socket(socket.AF_UNIX) as door:
        door.connect(path)
    return "connected"


def connect_any() -> str:
    """Whatever socket file there is to be seen, but the one that services report to."""
    reached = []
    for folder, _, files in os.walk("/run"):
        for path in (os.path.join(folder, name) for name in files):
            if path == "/run/systemd/notify" or not stat.S_ISSOCK(os.lstat(path).st_mode):
                continue
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_SEQPACKET):
                with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, kind) as door:
                    door.connect(path)
                    reached.append(path)
    if reached:
        return str(reached)
    raise PermissionError("none takes a connection")


def connect_abstract() -> str:
    with open("/proc/net/unix") as file:
        names = {line.split()[-1] for line in file if "@" in line.split()[-1]}
    reached: list[str] = []
    for name in names:
        with socket.socket(socket.AF_UNIX) as door:
            try:
                door.connect("\0" + name[1:])
                reached.append(name)
            except OSError:
                continue
    if reached:
        return str(reached)
    raise PermissionError("none takes a connection")


def see_others() -> str:
    mine = os.geteuid()
    seen = [pid for pid in os.listdir("/proc") if pid.isdigit()]
    others = [pid for pid in seen if os.stat(f"/proc/{pid}").st_uid != mine]
    if others:
        return str(others)
    raise PermissionError("none is to be seen")


def signal_others() -> str:
    """Every process number there may be; its own kind is the model server itself."""
    mine = os.geteuid()
    reached = []
    for pid in range(1, 33000):
        try:
            os.kill(pid, 0)
            if os.stat(f"/proc/{pid}").st_uid != mine:
                reached.append(pid)
        except OSError:
            continue
    if reached:
        return str(reached)
    raise PermissionError("none takes a signal")


def open_many() -> str:
    """Until it is refused; how many there were is the result."""
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    opened: list[int] = []
    try:
        while len(opened) < 10 * limit:
            opened.append(os.open("/dev/null", os.O_RDONLY))
    except OSError as error:
        return f"{len(opened)} then {error.errno}"
    return f"{len(opened)} and more"


def fork_many() -> str:
    """Until it is refused, then hold them until the test has looked at the machine."""
    made: list[int] = []
    try:
        while len(made) < 3000:  # past any limit that would be one
            child = os.fork()
            if child == 0:
                time.sleep(60)
                os._exit(0)
            made.append(child)
    except OSError:
        with open(f"{STATE}/bomb", "w") as file:
            file.write(str(len(made)))
    for _ in range(300):
        if not os.path.exists(f"{STATE}/bomb"):
            break
        time.sleep(0.1)
    for child in made:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    return f"{len(made)}"


def stay() -> str:
    """A process that has left its session and its parent, to outlive the service."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            argv = [sys.executable, "-I", "-c", "import time; time.sleep(600)"]
            os.execv(sys.executable, argv)  # noqa: S606 - no shell is meant
        os._exit(0)
    return "left behind"


def walk() -> str:
    """The folders that may be written and the files that may be executed, of all that is seen."""
    writable, executable = [], []
    for folder, names, files in os.walk("/"):
        names[:] = [name for name in names if f"{folder}/{name}" not in {"//proc", "//sys"}]
        if os.access(folder, os.W_OK):
            writable.append(folder)
        paths = (os.path.join(folder, name) for name in files)
        executable += [path for path in paths if os.access(path, os.X_OK)]
    # A link says nothing of its own: its target was met where it is. Sockets have the bit, too.
    files = [p for p in executable if os.path.isfile(p) and not os.path.islink(p)]
    return json.dumps({"writable": writable, "executable": files})


Attempt = Callable[[], str]


def attempts(targets: list[str]) -> dict[str, Attempt]:
    """Everything, by name; targets are kind,host,port of what others reach."""
    raw, packet, netlink, vsock = 3, 17, 16, 40
    return {
        **{f"read {path}": partial(read, path) for path in SECRETS},
        **{f"write {path}": partial(write, path) for path in PLACES},
        **{f"execute {' '.join(argv)}": partial(execute, *argv) for argv in PROGRAMS},
        **{f"execute what it wrote in {path}": partial(execute_written, path) for path in WRITABLE},
        **{f"map what it wrote in {path}": partial(map_written, path) for path in WRITABLE},
        **{f"connect to {path}": partial(connect_unix, path) for path in SOCKETS},
        **{name: partial(call, *numbers) for name, numbers in CALLS.items()},
        **{f"reach {target}": partial(connect, *target.split(",")) for target in targets},
        "raw socket": partial(open_socket, socket.AF_INET, raw, 1),
        "packet socket": partial(open_socket, packet, raw, 3),
        "netlink socket": partial(open_socket, netlink, raw, 0),
        "vsock": partial(open_socket, vsock, socket.SOCK_STREAM),
        "resolve a name": resolve,
        "any socket file": connect_any,
        "abstract sockets": connect_abstract,
        "see other processes": see_others,
        "signal other processes": signal_others,
        "setuid file": setuid_file,
    }


MEASURED: dict[str, Attempt] = {
    "forks": fork_many,
    "open files": open_many,
    "walk": walk,
    "left behind": stay,
}


def outcome(attempt: Attempt) -> str:
    """What became of an attempt, made by a child."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = f"got: {attempt()}"
        except Exception as error:  # noqa: BLE001 - any way to be refused
            said = f"refused: {type(error).__name__} {error}"
        with os.fdopen(writer, "w") as file:
            file.write(said)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        said = file.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"refused: {signal.Signals(os.WTERMSIG(status)).name}"
    return said


def wait_for_group() -> None:
    """Until the test has moved this process to where the model server is."""
    for _ in range(300):
        with open("/proc/self/cgroup") as file:
            if GROUP in file.read():
                return
        time.sleep(0.1)
    sys.exit("nobody moved this process")


def main() -> None:
    wait_for_group()
    every = MEASURED | attempts(sys.argv[1:])
    print(json.dumps({name: outcome(attempt) for name, attempt in every.items()}))


if __name__ == "__main__":
    main()
