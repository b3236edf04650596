"""A program in a pseudo-terminal, its screen kept by pyte. Waits poll for a condition, never sleep."""
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time

import pyte

PATIENCE = 60.0  # for a machine that does much else


class Terminal:
    def __init__(self, argv, width=80, height=24, term="xterm-256color", env=None, cwd=None):
        self.raw = b""
        self.blind = False  # pyte is slow: what need not be seen is not fed to it
        self.screen = pyte.Screen(width, height)
        self.stream = pyte.ByteStream(self.screen)
        self.status = None
        # The program starts when its terminal has been looked at, however late this process has its turn.
        wait, go = os.pipe()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.close(go)
                os.read(wait, 1)
                if cwd:
                    os.chdir(cwd)
                full = {k: v for k, v in os.environ.items()
                        if k not in ("NO_COLOR", "LINES", "COLUMNS", "TERM")}
                full.update({"LC_ALL": "C.UTF-8", "TZ": "UTC", "TERM": term})
                full.update(env or {})
                self._size(sys.stdin.fileno(), width, height)
                os.execvpe(argv[0], argv, full)
            finally:
                os._exit(127)
        self.resize(width, height)
        self.before = termios.tcgetattr(self.fd)
        os.close(wait)
        os.close(go)

    @staticmethod
    def _size(fd, width, height):
        fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))

    def resize(self, width, height):
        self._size(self.fd, width, height)
        self.screen.resize(height, width)

    def read(self, seconds=0.05):
        """What has come within that time, fed to the screen; b"" at the end of the terminal too."""
        ready, _, _ = select.select([self.fd], [], [], seconds)
        if not ready:
            return b""
        try:
            some = os.read(self.fd, 65536)
        except OSError:
            some = b""
        self.raw += some
        if not self.blind:
            self.stream.feed(some)
        return some

    def text(self):
        return "\n".join(line.rstrip() for line in self.screen.display)

    def wait(self, condition, what, seconds=PATIENCE):
        end = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > end:
                raise AssertionError(f"never: {what}\n{self.text()}\n{self.raw[-400:]!r}")
            self.read()
        # A frame comes in pieces, and what is looked at next should be whole.
        for _ in range(50):
            if self.fd < 0 or not self.read(0.02):
                break

    def expect(self, text, seconds=PATIENCE):
        self.wait(lambda: text in self.text(), f"`{text}` on the screen", seconds)

    def gone(self, text, seconds=PATIENCE):
        self.wait(lambda: text not in self.text(), f"`{text}` gone", seconds)

    def send(self, keys):
        os.write(self.fd, keys.encode() if isinstance(keys, str) else keys)

    def settle(self, quiet=0.3):
        """Reads until nothing has come for a while."""
        while self.read(quiet):
            pass

    def ended(self):
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = status
        return self.status is not None

    def wait_end(self, seconds=PATIENCE):
        """The exit code, or minus the signal."""
        self.wait(self.ended, "the program ends", seconds)
        while self.fd >= 0 and self.read(0.1):
            pass
        return os.waitstatus_to_exitcode(self.status)

    def children(self):
        with open(f"/proc/{self.pid}/task/{self.pid}/children", encoding="ascii") as f:
            return [int(p) for p in f.read().split()]

    def console(self):
        """The console's own process, under its guard."""
        def found():
            # A trainer that was started here is a session of its own.
            return [p for p in self.children() if os.getsid(p) == self.pid]
        self.wait(found, "the guard has a child")
        return found()[0]

    def termios_now(self):
        return termios.tcgetattr(self.fd)

    def close(self):
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1
        if not self.ended():
            os.kill(self.pid, signal.SIGKILL)
            _, self.status = os.waitpid(self.pid, 0)


def same_settings(a, b):
    """termios lists, the control characters included."""
    return a[:6] == b[:6] and a[6] == b[6]


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat", encoding="ascii") as f:
        fields = f.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(tests):
    """Runs the functions named on the command line, or all; says which failed."""
    wanted = sys.argv[2:]
    failed = 0
    for test in tests:
        if wanted and test.__name__ not in wanted:
            continue
        began = time.monotonic()
        try:
            test()
            print(f"ok    {test.__name__} ({time.monotonic() - began:.1f} s)", flush=True)
        except AssertionError as e:
            failed += 1
            print(f"FAIL  {test.__name__}: {e}", flush=True)
    sys.exit(1 if failed else 0)
