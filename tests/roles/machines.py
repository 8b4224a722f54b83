"""Machines that are network namespaces: each with an address, names for the others, and a shell that goes on.

Nothing of them is seen outside: the namespaces, their links and mounts end with their shells. Needs root, or
what unshare asks for; NotPossible says what is missing.
"""

import contextlib
import os
import pathlib
import select
import shutil
import subprocess
import time

NETWORK = "10.77.0"
END = "=== end"


class NotPossible(RuntimeError):
    """This system lets nobody make such machines."""


def _check():
    for tool in ("ip", "unshare", "nsenter"):
        if not shutil.which(tool):
            raise NotPossible(f"{tool} is missing")
    tried = subprocess.run(["unshare", "-n", "-m", "sh", "-c", "ip link add br0 type bridge && mount -t tmpfs none /mnt"],
                           capture_output=True, text=True)
    if tried.returncode != 0:
        raise NotPossible(tried.stderr.strip() or "unshare -n -m failed")


class Machine:
    """A shell in namespaces of its own. run() feeds it commands, one block after the other; all it started ends with it."""

    def __init__(self, name, home, unshared=("-n", "-m", "-p", "--fork", "--kill-child", "--mount-proc")):
        self.name = name
        home.mkdir(parents=True, exist_ok=True)
        environment = dict(os.environ, HOME=str(home), LC_ALL="C")
        self.process = subprocess.Popen(["unshare", *unshared, "bash", "-em"], cwd=home, env=environment, text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.run("true")  # the namespaces are there

    def pid(self):
        """Of the shell, whose namespaces are the machine's."""
        first = self.process.pid
        return int(pathlib.Path(f"/proc/{first}/task/{first}/children").read_text().split()[0])

    def run(self, commands, limit_s=60):
        """What they printed. RuntimeError: one failed, which ends the machine, or they took longer."""
        lines = []
        until = time.monotonic() + limit_s
        try:
            self.process.stdin.write(f"{commands}\necho '{END}'\n")
            self.process.stdin.flush()
            for line in self._lines(until):
                if line == f"{END}\n":
                    return "".join(lines)
                lines.append(line)
        except BrokenPipeError:
            pass
        raise RuntimeError(f"{self.name}: failed, or took more than {limit_s} s:\n{commands}\n{''.join(lines)}")

    def _lines(self, until):
        descriptor = self.process.stdout.fileno()
        rest = b""
        while select.select([descriptor], [], [], max(0, until - time.monotonic()))[0]:
            read = os.read(descriptor, 65536)
            if not read:
                break
            *whole, rest = (rest + read).split(b"\n")
            yield from (line.decode(errors="replace") + "\n" for line in whole)
        if rest:
            yield rest.decode(errors="replace")

    def stop(self):
        """Tells its jobs to end, and waits for them. RuntimeError: one did not end well."""
        try:
            self.run('for job in $(jobs -p); do kill "$job"; wait "$job" || '
                     '{ echo "ended with $?"; tail -n 40 ~/*/log; false; }; done')
        finally:
            self.process.kill()
            self.process.wait()
            self.process.stdout.close()
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()


class Machines:
    """with Machines(folder, ["a", "b"]) as machines: machines["a"].run("ping -c 1 b")"""

    def __init__(self, folder, names):
        _check()
        self.folder = pathlib.Path(folder)
        self.names = names
        self.switch = None
        self.machines = {}

    def __getitem__(self, name):
        return self.machines[name]

    def __enter__(self):
        hosts = self.folder / "hosts"
        hosts.write_text("127.0.0.1 localhost\n" +
                         "".join(f"{NETWORK}.{i} {name}\n" for i, name in enumerate(self.names, 1)))
        try:
            self.switch = Machine("switch", self.folder / "switch", ["-n"])  # it has to know the others' pids
            self.switch.run("ip link add switch type bridge; ip link set switch up")
            for i, name in enumerate(self.names, 1):
                machine = self.machines[name] = Machine(name, self.folder / name)
                self.switch.run(f"ip link add port{i} type veth peer name eth0 netns {machine.pid()}\n"
                                f"ip link set port{i} master switch up")
                machine.run(f"mount --bind {hosts} /etc/hosts\nip link set lo up\n"
                            f"ip address add {NETWORK}.{i}/24 dev eth0\nip link set eth0 up")
        except BaseException:
            self.__exit__(True)
            raise
        return self

    def __exit__(self, *error):
        failed = []
        for machine in [*self.machines.values(), *([self.switch] if self.switch else [])]:
            try:
                machine.stop()
            except RuntimeError as why:
                failed.append(why)
        if failed and not any(error):
            raise failed[0]
