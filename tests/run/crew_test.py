#!/usr/bin/env python3
"""run.crew: a run of several processes, started by mpirun: the same numbers as one process with as many ranks,
changes that all take in the same update or none does, and what becomes of it when a process is lost."""
import json
import os
import pathlib
import resource
import shutil
import subprocess

from bst import *

MPIRUN = ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none"]
SHORT = {**TINY, "warmup_epochs": 0.5, "max_epochs": 1}
ANSWER = 4  # s; the devices.timeout of what is to run into it, and long for a process that has much beside it


def args_of(settings):
    return [x for k, v in settings.items() for x in ("--set", f"{k}={v}")]


class Crew(Run):
    """One settings dictionary a process; resume takes none. `grace`: what the launcher leaves the rest of a run
    that has lost a process before it kills it; it waits it out."""

    def __init__(self, place, name, processes, *more, grace=1):
        self.place, self.name, self.dir = place, name, place.path / name
        cmd = [*MPIRUN, "--mca", "odls_base_sigkill_timeout", str(grace)]
        for i, settings in enumerate(processes):
            cmd += [":"] if i else []
            cmd += ["-n", "1", BSTUNE, "run", *([] if settings is None else ["quickstart"]), "--headless",
                    "--run-dir", str(self.dir), *args_of(settings or {}), *more]
        self.out = open(place.path / f"{name}.out", "ab")
        env = dict(place.env, OMPI_MCA_btl_vader_single_copy_mechanism="none", OMPI_MCA_rmaps_base_oversubscribe="1")
        self.process = subprocess.Popen(cmd, env=env, cwd=place.path, stdin=subprocess.DEVNULL, stdout=self.out,
                                        stderr=self.out, start_new_session=True)
        place.runs.append(self)

    def others(self):
        """Pids of the processes that follow."""
        lead = json.loads((self.dir / "run.json").read_text())["pid"]
        found = []
        for p in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                cmd = (p / "cmdline").read_bytes().split(b"\0")
                if cmd[0].decode() == BSTUNE and str(self.dir).encode() in cmd and int(p.name) != lead:
                    found.append(int(p.name))
            except (OSError, IndexError):
                pass
        return found

    def lead(self):
        return json.loads((self.dir / "run.json").read_text())["pid"]

    def end_failed(self):
        rc = self.process.wait(timeout=WAIT)
        check(rc != 0, f"{self.name} ended with 0: {self.said()}")
        return self


def other_of(crew):
    found = crew.others()
    check(len(found) == 1, f"{len(found)} processes follow, not one: {crew.said()}")
    return found[0]


def alone(place, name, ranks, **settings):
    return place.start(name, devices__count=ranks, **{k.replace(".", "__"): v for k, v in settings.items()}).end()


def same_numbers_however_ranks_are_spread():
    with Place() as place:
        for ranks in (2, 4):
            one = alone(place, f"one{ranks}", ranks, **SHORT)
            two = Crew(place, f"two{ranks}", [{**SHORT, "devices.count": ranks}] * 2).end()
            check(two.series() == one.series(), f"{ranks} ranks: other metrics in two processes")
            check([m["loss"] for m in two.metrics("eval")] == [m["loss"] for m in one.metrics("eval")],
                  f"{ranks} ranks: another evaluation in two processes")
            check(two.weights() == one.weights(), f"{ranks} ranks: other weights in two processes")
        three = Crew(place, "three", [SHORT] * 3).end()  # no count: one rank a process
        check(three.weights() == alone(place, "one3", 3, **SHORT).weights(), "three processes: other weights")
        again = Crew(place, "three", [None] * 3, "--resume").end()
        check("has finished" in again.said(), f"a run with nothing left to do: {again.said()}")


def a_change_is_taken_by_all_in_one_update():
    with Place() as place:
        two = Crew(place, "two", [{**TINY, "max_epochs": 12}] * 2)
        two.wait_update(3)
        rc, got = two.ctl("batch", "+20%")
        check(rc == 0, f"batch +20%: {got}")
        rc, got = two.ctl("lr", "x0.5")
        check(rc == 0, f"lr x0.5: {got}")
        rc, got = two.ctl("undo")
        check(rc == 0, f"undo: {got}")
        two.end()
        at = [e for e in two.journal() if e["outcome"] == "applied"]
        check(len(at) == 3 and 38 in {m["global_batch_size"] for m in two.metrics()}, f"changes: {two.journal()}")
        # The same changes at the same samples in one process come to the same bits.
        rc, out, err = place.cli("run", two.dir / "journal.jsonl", "--headless", "--run-dir", "again")
        check(rc == 0, f"the repetition: {out}{err}")
        again = Run.__new__(Run)
        again.dir = place.path / "again"
        check(again.weights() == two.weights(), "the changes did not reach all ranks at once")


def what_does_not_fit_one_process_is_refused_for_all():
    with Place() as place:
        fixed = {**TINY, "gradient_accumulation_steps": 1, "devices.count": 2, "max_epochs": 20,
                 "global_batch_size": 128}
        one = place.start("one", **{k.replace(".", "__"): v for k, v in fixed.items()})
        one.wait_update(1)
        planned = one.status()["devices"][0]["memory_planned"]
        one.end()
        two = Crew(place, "two", [fixed, {**fixed, "devices.memory": int(planned * 1.05)}])
        two.wait_update(2)
        rc, got = two.ctl("batch", "=1024")
        check(rc == 1 and got.get("code") == "BST-201", f"a change that does not fit process 1: {rc} {got}")
        two.end()
        check({m["global_batch_size"] for m in two.metrics()} == {128}, "the batch was changed all the same")
        check(two.weights() == one.weights(), "a refused change left something behind")


def a_process_that_is_killed_ends_the_run_with_its_state_saved():
    with Place() as place:
        want = alone(place, "one", 2, max_epochs=12)
        two = Crew(place, "two", [{**TINY, "devices.timeout": 20, "max_epochs": 12}] * 2, grace=6)
        two.wait_update(5)
        signal_to(two, other_of(two), signal.SIGKILL)
        two.end_failed()
        check("BST-710" in two.said() and "process 1" in two.said(), f"nothing said of the lost process: {two.said()}")
        notes = [m for m in two.lines("metrics.jsonl") if m["type"] == "note" and m["code"] == "BST-710"]
        check(notes and "saved at update" in notes[0]["text"], f"no note: {notes} {two.said()}")
        check(two.said().count("BST-710") == 1, f"said more than once: {two.said()}")
        rc, out, err = place.cli("status", two.dir)
        check(rc == 0 and out.count("BST-710") == 1, f"the status: {out}{err}")
        rc, out, err = place.cli("status", "--json", two.dir)
        s = json.loads(out)
        check(s["note_code"] == "BST-710" and s["note"] == notes[0]["text"], f"{s['note_code']} {s['note']}")
        Crew(place, "two", [None] * 2, "--resume").end()
        check(two.weights() == want.weights(), "resumed after the loss, the run came to other weights")


def a_process_that_does_not_answer_is_waited_for_no_longer_than_was_said():
    with Place() as place:
        two = Crew(place, "two", [{**TINY, "devices.timeout": ANSWER, "max_epochs": 200}] * 2)
        two.wait_update(5)
        signal_to(two, other_of(two), signal.SIGSTOP)
        two.end_failed()
        check(f"no answer from the other processes for {ANSWER} s" in two.said(), f"said: {two.said()}")


def a_process_that_goes_leaves_process_0_the_time_to_save():
    with Place() as place:
        want = alone(place, "one", 2, max_epochs=12)
        two = Crew(place, "two", [{**TINY, "devices.timeout": ANSWER, "max_epochs": 12}] * 2)
        two.wait_update(5)
        lead = two.lead()
        stop_in_an_update(two, lead)
        check(f"BST-710: no answer from the other processes for {ANSWER} s; process 0 saves what there is, and --resume goes on from it"
              in two.said(), f"it did not say why first: {two.said()}")
        check(two.process.poll() is None and stopped(lead), f"process 0 was ended: {two.said()}")
        signal_to(two, lead, signal.SIGCONT)
        two.end_failed()
        notes = [m for m in two.lines("metrics.jsonl") if m["type"] == "note" and m["code"] == "BST-710"]
        check(notes and "saved at update" in notes[0]["text"], f"no note: {notes} {two.said()}")
        Crew(place, "two", [None] * 2, "--resume").end()
        check(two.weights() == want.weights(), "resumed after that, the run came to other weights")


def stop_in_an_update(crew, lead):
    """Between two requests a follower waits for as long as process 0 likes: once more, a few updates on."""
    for _ in range(20):
        signal_to(crew, lead, signal.SIGSTOP)
        try:
            return until(lambda: "it waits for process 0" in crew.said(), "process 1 to go", 3 * ANSWER)
        except Fail:
            signal_to(crew, lead, signal.SIGCONT)
            crew.wait_update(crew.status()["update"] + 2)
    raise Fail(f"process 1 never waited for process 0's part: {crew.said()}")


def signal_to(crew, pid, sig):
    """Of a process that has ended already, what it said is what is to be read."""
    try:
        os.kill(pid, sig)
    except ProcessLookupError:
        raise Fail(f"process {pid} of {crew.name} has ended before signal {sig}: {crew.said()}") from None


def stopped(pid):
    return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"


def a_full_disk_at_a_checkpoint_ends_no_run():
    """A limit on process 0's file sizes stands for the full disk; its journal is below it, a checkpoint is not."""
    with Place() as place:
        want = alone(place, "one", 2, max_epochs=12)
        two = Crew(place, "two", [{**TINY, "max_epochs": 12}] * 2)
        two.wait_update(3)
        rc, got = two.ctl("pause")
        check(rc == 0, f"pause: {got}")
        resource.prlimit(two.lead(), resource.RLIMIT_FSIZE, (10000, resource.RLIM_INFINITY))
        for _ in range(2):
            rc, got = two.ctl("checkpoint")
            # Its own answer: what is said may be of an earlier one, or of another file.
            check(rc == 1 and got["code"] == "BST-601" and got["text"].endswith("weights.safetensors: File too large"),
                  f"a checkpoint on a full disk: {rc} {got} {two.said()}")
            check(not list(two.dir.glob("checkpoints/*")), "something of it stays behind")
            n = two.status()["update"]
            two.ctl("resume")
            until(lambda: two.status()["update"] > n + 2, "training to go on")
            two.ctl("pause")
        resource.prlimit(two.lead(), resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        rc, got = two.ctl("checkpoint")
        check(rc == 0 and "checkpoints are saved again" in two.said(), f"a checkpoint with room again: {rc} {got} {two.said()}")
        two.ctl("resume")
        two.end()
        check(two.weights() == want.weights(), "the checkpoints that failed have left something behind")


def the_first_process_killed_takes_the_others_along():
    with Place() as place:
        two = Crew(place, "two", [{**TINY, "max_epochs": 12}] * 2)
        two.wait_update(5)
        other = other_of(two)
        signal_to(two, two.lead(), signal.SIGKILL)
        two.end_failed()
        until(lambda: not os.path.exists(f"/proc/{other}"), "the end of the process that follows")
        Crew(place, "two", [None] * 2, "--resume").end()


def asked_to_end_all_end_in_order():
    with Place() as place:
        want = alone(place, "one", 2, max_epochs=12)
        two = Crew(place, "two", [{**TINY, "max_epochs": 12}] * 2)
        two.wait_update(5)
        signal_to(two, two.lead(), signal.SIGTERM)
        rc = two.process.wait(timeout=WAIT)
        check(rc == 75, f"ended with {rc}, not 75: {two.said()}")
        # Resumed as one process.
        rc, out, err = place.cli("run", "--headless", "--resume", "--run-dir", two.dir)
        check(rc == 0, f"resumed alone: {out}{err}")
        check(two.weights() == want.weights(), "resumed as one process, the run came to other weights")


def searches_pause_and_stop_work_as_with_one():
    with Place() as place:
        two = Crew(place, "two", [{**TINY, "max_epochs": 200}] * 2)
        two.wait_update(2)
        for command in (("lrfind", "20"), ("pause",), ("batch", "+20%"), ("resume",), ("eval",), ("checkpoint",),
                        ("undo", "--rewind")):
            rc, got = two.ctl(*command)
            check(rc == 0, f"{command}: {got} {two.said()}")
        rc, got = two.ctl("stop")
        check(rc == 0, f"stop: {got}")
        two.end()


def other_settings_are_refused_before_anything_is_opened():
    with Place() as place:
        rc, out, err = place.cli("doctor", "--json")
        mpi = [f for f in json.loads(out)["findings"] if f["name"] == "MPI"]
        check(mpi and mpi[0]["state"] == "ok", f"doctor: {mpi} {err}")
        two = Crew(place, "two", [TINY, {**TINY, "learning_rate": 0.3}])
        rc = two.process.wait(timeout=WAIT)
        check(rc == 2 and "process 1 was started with learning_rate: 0.3" in two.said(), f"{rc}: {two.said()}")
        odd = Crew(place, "odd", [{**TINY, "devices.count": 3}] * 2)
        rc = odd.process.wait(timeout=WAIT)
        check(rc == 2 and "cannot be dealt in equal parts" in odd.said(), f"{rc}: {odd.said()}")
        bad = Crew(place, "bad", [TINY, {**TINY, "global_batch_size": "x"}])
        rc = bad.process.wait(timeout=WAIT)
        check(rc == 2 and "process 1 could not start" in bad.said(), f"{rc}: {bad.said()}")
        idx = {**{k: v for k, v in TINY.items() if k != "data.image_size"}, "data.format": "idx"}
        data = Crew(place, "data", [idx, {**idx, "data.path": "nowhere"}])
        rc = data.process.wait(timeout=WAIT)
        check(rc == 2 and "process 1: BST-504" in data.said(), f"{rc}: {data.said()}")


if not shutil.which("mpirun"):
    print("skipped: no mpirun (Debian: openmpi-bin)")
    raise SystemExit(77)
main(same_numbers_however_ranks_are_spread, a_change_is_taken_by_all_in_one_update,
     what_does_not_fit_one_process_is_refused_for_all,
     a_process_that_is_killed_ends_the_run_with_its_state_saved,
     a_process_that_does_not_answer_is_waited_for_no_longer_than_was_said,
     a_process_that_goes_leaves_process_0_the_time_to_save, a_full_disk_at_a_checkpoint_ends_no_run,
     the_first_process_killed_takes_the_others_along, asked_to_end_all_end_in_order,
     searches_pause_and_stop_work_as_with_one, other_settings_are_refused_before_anything_is_opened)
