"""However the console ends, the terminal is as it was: restore_test.py TUI_FAKE [TEST…]"""
import os
import signal
import sys

from terminal import Terminal, cpu_seconds, run, same_settings

FAKE = sys.argv[1]
SHOWN = "samples/s"


def started(**options):
    t = Terminal([FAKE] + options.pop("args", []), **options)
    t.expect(SHOWN)
    assert not same_settings(t.before, t.termios_now()), "the console changes nothing: the test is void"
    return t


def is_sane(t, ends_drawing=True):
    assert same_settings(t.before, t.termios_now()), "terminal settings differ"
    tail = t.raw[t.raw.rindex(b"\x1b[?1049h"):]
    assert b"\x1b[?1049l" in tail, "the alternate screen is not left"
    assert tail.rindex(b"\x1b[?1049l") > tail.rindex(SHOWN.encode()[:3]) or not ends_drawing
    assert b"\x1b[?2004l" in tail, "paste marks stay on"
    assert b"\x1b[?25h" in tail or b"\x1b[?12l\x1b[?25h" in tail, "the cursor stays hidden"


def leaves_by_q():
    for key in ("q", "\x03", "\x1b[21~"):
        t = started()
        t.send(key)
        assert t.wait_end() == 0
        is_sane(t)
        assert b"run quickstart-1 goes on: bstune attach quickstart-1" in t.raw
        t.close()


def console_dies():
    for sig in (signal.SIGKILL, signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS):
        t = started()
        os.kill(t.console(), sig)
        # A sanitizer turns some of these into an exit with 1 or 66, which needs the guard no less.
        code = t.wait_end()
        assert code == 128 + sig or (code in (1, 66) and b"Sanitizer" in t.raw), f"signal {sig}: {code}"
        is_sane(t)
        t.close()


def console_is_asked_to_end():
    for sig in (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        for to_guard in (False, True):
            t = started()
            os.kill(t.pid if to_guard else t.console(), sig)
            assert t.wait_end() == 128 + sig, f"signal {sig} to the {'guard' if to_guard else 'console'}"
            is_sane(t)
            t.close()


def guard_dies():
    t = started()
    console = t.console()
    os.kill(t.pid, signal.SIGKILL)
    assert t.wait_end() == -signal.SIGKILL
    t.wait(lambda: not os.path.exists(f"/proc/{console}"), "the console follows its guard")
    t.settle()
    is_sane(t)
    t.close()


def terminal_closes():
    t = started()
    console = t.console()
    os.close(t.fd)
    t.fd = -1
    for _ in range(400):
        if t.ended():
            break
        signal.sigtimedwait([signal.SIGCHLD], 0.05)
    assert t.ended(), "goes on without a terminal"
    assert not os.path.exists(f"/proc/{console}")


def terminal_that_takes_nothing():
    """Output that nobody reads: no busy loop, and SIGTERM still ends it."""
    t = started(args=["--moving"])
    console = t.console()
    while t.read(0):
        pass
    before = cpu_seconds(console)
    for _ in range(200):  # full screens until the terminal is full
        try:
            os.set_blocking(t.fd, False)
            os.write(t.fd, b"\x0c")
        except BlockingIOError:
            break
    signal.sigtimedwait([signal.SIGUSR2], 2)  # nobody sends it: two seconds by the clock
    assert cpu_seconds(console) - before < 0.8, "spins"
    os.kill(t.pid, signal.SIGTERM)
    for _ in range(160):
        if t.ended():
            break
        signal.sigtimedwait([signal.SIGUSR2], 0.05)
    assert t.ended(), "stuck"
    while t.read(0.2):
        pass
    assert same_settings(t.before, t.termios_now())
    t.close()


def suspends_and_comes_back():
    shell = Terminal(["bash", "--norc", "-i"], env={"PS1": "ready> "})
    shell.expect("ready>")

    def since(mark, *texts):
        shell.wait(lambda: all(x in shell.raw[mark:] for x in texts), f"{texts}")
        return len(shell.raw)

    mark = 0
    for _ in range(3):
        shell.send(f"{FAKE}\n")
        mark = since(mark, b"\x1b[?1049h", SHOWN.encode())
        shell.send("\x1a")
        mark = since(mark, b"\x1b[?1049l", b"Stopped", b"ready>")
        # Only a shell that reads lines as before puts this together.
        shell.send("echo al''ive; stty -a\n")
        mark = since(mark, b"alive\r\n", b" icanon", b" echo ", b"ready>")
        shell.send("fg\n")
        mark = since(mark, b"\x1b[?1049h", SHOWN.encode())
        shell.send("q")
        mark = since(mark, b"\x1b[?1049l", b"goes on", b"ready>")
    shell.send("exit\n")
    shell.wait_end()
    shell.close()


signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, signal.SIGUSR2])
run([leaves_by_q, console_dies, console_is_asked_to_end, guard_dies, terminal_closes,
     terminal_that_takes_nothing, suspends_and_comes_back])
