#!/usr/bin/env python3
"""Whatever comes over the socket: the run goes on, other clients are served, and each gets its answer."""
import array
import json
import os
import random
import shutil
import socket
import stat
import time

from bst import WAIT, Client, Place, check, main, signal, until

LONG = {"max_epochs": 4000, "eval_interval": "never", "checkpoint_interval": "never"}


def started(p, name, **more):
    r = p.start(name, **{**LONG, **more})
    r.wait_update(1)
    return r


def goes_on(r):
    n = r.metrics()[-1]["update"]
    r.wait_update(n + 3)
    check(r.status()["phase"] == "training", "no status")


def read_all(s):
    data = b""
    try:
        while True:
            some = s.recv(65536)
            if not some:
                break
            data += some
    except (ConnectionResetError, BrokenPipeError):
        pass
    return data


def garbage():
    hello = b'{"op":"hello","client":"x","user":"y","version":1}\n'
    rng = random.Random(1)
    rows = [
        b"\n", b"{\n", b"[]\n", b"null\n", b'{"op":"nosuch"}\n', b'{"op":"status","id":1}\n', b"\0\0\0\n",
        b"GET / HTTP/1.1\r\n\r\n", b'{"op":"hello","version":99}\n', b'{"op":"hello","op":"hello","version":1}\n',
        hello + b'{"op":"command","id":1,"text":"' + b"x" * 300 + b'"}\n', hello + hello, hello + b"[" * 60000 + b"\n",
        b"x" * 70000, hello + b"x" * 70000, *(rng.randbytes(rng.randrange(1, 5000)) + b"\n" for _ in range(20)),
    ]
    with Place() as p:
        r = started(p, "g")
        for row in rows:
            s = r.connect()
            try:
                s.sendall(row)
            except (BrokenPipeError, ConnectionResetError):
                pass
            said = read_all(s)
            lines = [json.loads(x) for x in said.split(b"\n") if x]
            check(lines and lines[-1]["re"] == "error" and lines[-1]["text"], f"{row[:60]}: {said[:200]}")
            s.close()
        goes_on(r)


def commands_that_are_nonsense_are_refused():
    with Place() as p:
        r = started(p, "n")
        c = Client(r, "ctl")
        for i, text in enumerate(("", "batch", "batch +20", "batch =0", "batch =1e999", "lr =nan", "preset ../../etc/passwd",
                                  "\x1b[2J", "batch +20%^99999", "warmup =-1ep", "clip =-1", "momentum =1", "undo --now")):
            reply = c.ask({"op": "command", "id": i, "text": text}, "command")
            check(reply["id"] == i and reply["outcome"] == "refused" and reply["text"], f"{text}: {reply}")
            check("\x1b" not in reply["text"], f"{text!r} came back as it is")
        check(r.metrics()[-1]["global_batch_size"] == 32, "something was taken")
        goes_on(r)


def half_closed_and_broken_off():
    with Place() as p:
        r = started(p, "h")
        for cut in range(0, 50, 7):
            s = r.connect()
            s.sendall(b'{"op":"hello","client":"x","user":"y","version":1}\n'[:cut])
            s.shutdown(socket.SHUT_WR)
            read_all(s)
            s.close()
        c = Client(r)
        c.send({"op": "status", "id": 1, "layers": True})
        c.close()
        goes_on(r)


def descriptors_are_not_taken():
    with Place() as p:
        r = started(p, "f")
        before = len(os.listdir(f"/proc/{r.process.pid}/fd"))
        s = r.connect()
        fds = array.array("i", [0, 1, 2] * 20)
        s.sendmsg([b'{"op":"hello","client":"x","user":"y","version":1}\n'],
                  [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
        s.recv(4096)
        check(len(os.listdir(f"/proc/{r.process.pid}/fd")) <= before + 1, "descriptors were taken")
        s.close()


def thirty_two_and_no_more():
    with Place() as p:
        r = started(p, "m")
        many = [Client(r, "watch", readonly=True) for _ in range(32)]
        s = r.connect()
        s.sendall(b'{"op":"hello","client":"watch","user":"y","version":1}\n')
        check(b"no room" in read_all(s), "a 33rd was let in")
        for c in many:
            check(c.ask({"op": "status", "id": 9}, "status")["id"] == 9, "no status")
        many.pop().close()
        def again():
            try:
                Client(r, "watch").close()
                return True
            except Exception:  # noqa: B902  the slot is freed a moment later
                return False
        until(again, "a free slot")
        for _ in range(500):
            r.connect().close()
        for c in many:
            c.close()
        goes_on(r)


def who_idles_keeps_nobody_out():
    """Whoever came, and however many, status, ctl and stop get in."""
    with Place() as p:
        r = started(p, "i")
        many = []

        def come(kind):
            try:
                many.append(Client(r, kind))
            except Exception:  # noqa: B902  turned away
                pass
        for kind in ("watch", "console", "ctl"):
            for _ in range(40):
                come(kind)
        many += [r.connect() for _ in range(65)]
        check(r.status()["phase"] == "training", "no status")
        rc, reply = r.ctl("lr", "x0.9")
        check(rc == 0, f"{reply}")
        check(many[0].ask({"op": "status", "id": 9}, "status")["id"] == 9, "one that watches was thrown out")
        check(p.cli("stop", r.dir)[0] == 0, "no stop")
        r.end()


def out_of_descriptors():
    """A limit of 64 files: accepting stops for a second at a time, and starts again."""
    with Place() as p:
        r = started(p, "e")
        import resource
        in_use = len(os.listdir(f"/proc/{r.process.pid}/fd"))
        resource.prlimit(r.process.pid, resource.RLIMIT_NOFILE, (in_use + 4, in_use + 4))
        many = [r.connect() for _ in range(20)]
        n = r.metrics()[-1]["update"]
        r.wait_update(n + 5)
        for s in many:
            s.close()
        until(lambda: r.status().get("phase") == "training", "a status after the shortage")


def a_slow_reader_is_given_up():
    with Place() as p:
        r = started(p, "s")
        c = Client(r, "ctl")
        c.s.settimeout(0.2)
        line = json.dumps({"op": "command", "id": 1, "text": "batch ="}).encode() + b"\n"
        try:
            for _ in range(20000):
                c.s.sendall(line)
        except (BrokenPipeError, ConnectionResetError, TimeoutError):
            pass
        goes_on(r)
        # Statuses asked for and never read are one status.
        w = Client(r, "watch")
        for i in range(2000):
            w.send({"op": "status", "id": i, "layers": True})
        goes_on(r)
        last = 0
        while last != 1999:
            last = w.wait("status")["id"]


def a_request_is_finished_in_time():
    with Place() as p:
        r = started(p, "t")
        idle = Client(r, "watch")
        silent, loris = r.connect(), r.connect()
        start = time.monotonic()
        loris.setblocking(True)
        loris.settimeout(0.5)
        ended = False
        for byte in b'{"op":"hello","client":"loris","user":"slow",' + b" " * 400:
            try:
                loris.send(bytes([byte]))
                said = loris.recv(4096)
                ended = ended or b"10 s" in said or not said
            except TimeoutError:
                pass
            except (BrokenPipeError, ConnectionResetError):
                ended = True
            if ended or time.monotonic() - start > WAIT:
                break
        # Long before all bytes were sent, of which there are for minutes.
        check(ended, "a byte now and then kept a slot")
        check(b"10 s" in read_all(silent), "silence kept a slot")
        check(idle.ask({"op": "status", "id": 1}, "status")["id"] == 1, "one that had said hello was thrown out")
        goes_on(r)


def the_socket_comes_back():
    with Place() as p:
        r = started(p, "r")
        path = r.socket_path()
        mode = os.stat(path).st_mode
        check(stat.S_IMODE(mode) == 0o600 and stat.S_IMODE(os.stat(os.path.dirname(path)).st_mode) == 0o700, "modes")
        old = Client(r, "watch")
        os.unlink(path)
        r.send(signal.SIGUSR1)
        until(lambda: os.path.exists(path), "the socket after SIGUSR1")
        shutil.rmtree(os.path.dirname(path))
        check(r.status().get("phase") == "training", "a client does not ask for the socket")
        os.unlink(path)
        until(lambda: os.path.exists(path), "the socket by itself")
        check(stat.S_IMODE(os.stat(path).st_mode) == 0o600, "mode")
        check(old.ask({"op": "status", "id": 1}, "status")["id"] == 1, "the connection was lost")
        check(r.ctl("stop")[0] == 0, "stop")
        r.end()
        check(not os.path.exists(path), "the socket stays behind")


def others_are_not_listened_to():
    """As another user, with all permissions on the way taken off: closed before a byte is read."""
    if os.geteuid() != 0:
        print("        (needs root: left out)")
        return
    with Place() as p:
        r = started(p, "o")
        path = r.socket_path()
        for d in (p.path, os.path.dirname(path)):
            os.chmod(d, 0o777)
        os.chmod(path, 0o777)
        pid = os.fork()
        if not pid:
            code = 1
            try:
                os.setgid(65534)
                os.setuid(65534)
                s = socket.socket(socket.AF_UNIX)
                s.settimeout(WAIT)
                s.connect(path)
                try:
                    s.sendall(b'{"op":"hello","client":"x","user":"y","version":1}\n')
                    code = 0 if s.recv(100) == b"" else 2
                except (BrokenPipeError, ConnectionResetError):
                    code = 0
            finally:
                os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        check(code == 0, f"another user was answered ({code})")
        goes_on(r)


def the_folder_is_ours_alone():
    with Place() as p:
        rows = (("link", lambda d: os.symlink("/tmp", d)), ("open", lambda d: (os.mkdir(d), os.chmod(d, 0o755))),
                ("file", lambda d: open(d, "w").close()))
        for name, make in rows:
            d = str(p.path / name)
            make(d)
            p.env["BSTUNE_SOCKET_DIR"] = d
            r = p.start(f"x-{name}", max_epochs=2)
            rc = r.process.wait(WAIT)
            check(rc == 1 and d in r.said(), f"{name}: {rc} {r.said()}")
        p.env["BSTUNE_SOCKET_DIR"] = str(p.path / ("d" * 100))
        r = p.start("x-long", max_epochs=2)
        check(r.process.wait(WAIT) == 2 and "BSTUNE_SOCKET_DIR" in r.said(), f"long: {r.said()}")


if __name__ == "__main__":
    main(garbage, commands_that_are_nonsense_are_refused, half_closed_and_broken_off, descriptors_are_not_taken,
         thirty_two_and_no_more, who_idles_keeps_nobody_out, out_of_descriptors, a_slow_reader_is_given_up, a_request_is_finished_in_time,
         the_socket_comes_back, others_are_not_listened_to, the_folder_is_ours_alone)
