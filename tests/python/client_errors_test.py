"""What programs do wrong: each is an exception that says what to do, in time.

client_errors_test.py BIN_FOLDER SOURCE_FOLDER
"""

import array
import contextlib
import ctypes
import multiprocessing
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from unittest import mock

import psgd
from psgd import _library
from servers import server

SOURCE = pathlib.Path(sys.argv[2])


def floats(*values):
    return array.array("f", values)


class OlderLibrary:
    """Libpsgd without some functions."""

    def __init__(self, library, lacks):
        self._library = library
        self._lacks = lacks

    def __getattr__(self, name):
        if name in self._lacks:
            raise AttributeError(f"undefined symbol: {name}")
        return getattr(self._library, name)


@contextlib.contextmanager
def library_without(*functions):
    load = ctypes.CDLL
    with mock.patch.object(_library, "_loaded", None), \
            mock.patch.object(ctypes, "CDLL", lambda path: OlderLibrary(load(path), functions)):
        yield


class Errors(unittest.TestCase):
    def fails(self, kind, text, call, *arguments, **named):
        with self.assertRaises(kind) as caught:
            call(*arguments, **named)
        self.assertIn(text, str(caught.exception))

    def test_no_server(self):
        start = time.monotonic()
        self.fails(psgd.UnavailableError, "no psgd server answers", psgd.Client, "127.0.0.1:1",
                   connect_seconds=0.5)
        self.assertLess(time.monotonic() - start, 5)

    def test_no_environment(self):
        self.fails(psgd.InvalidError, "ps-run", psgd.Client)

    @unittest.skipUnless(shutil.which("openssl"), "no openssl")
    def test_certificates_of_a_folder(self):
        with tempfile.TemporaryDirectory() as folder:
            certificates, part = f"{folder}/certs", f"{folder}/part"
            subprocess.run([SOURCE / "scripts/make-certs.sh", certificates], check=True,
                           capture_output=True)
            os.mkdir(part)
            with server(options=["--tls-dir", certificates]) as at:
                self.fails(psgd.UnavailableError, "Does it ask for certificates", psgd.Client, at,
                           connect_seconds=0.5)
                self.fails(psgd.InvalidError, f"cannot open {part}/ca.crt", psgd.Client, at,
                           tls_dir=part)
                shutil.copy(f"{certificates}/ca.crt", part)
                self.fails(psgd.InvalidError, f"cannot open {part}/worker.crt", psgd.Client, at,
                           tls_dir=part)
                w = floats(1)
                with psgd.Client(at, tls_dir=certificates) as run:
                    run.add("w", w)
                    run.commit(4, 1)
                    for _ in run.next_share():
                        run.pull({"w": w})
                        run.push({"w": floats(3)})
                        run.end_step()
                    run.pull({"w": w})
                    self.assertEqual(list(w), [3])
            with server() as at:
                self.fails(psgd.RefusedError, "is it a secured ps-server", psgd.Client, at,
                           tls_dir=certificates)

    def test_a_run_of_another_model(self):
        with server(model="{zoo: mlp}", optimizer="sgd",
                    data="{format: synthetic, batch: 4}") as at:
            self.fails(psgd.RefusedError, "model: client", psgd.Client, at)

    def test_calls_out_of_order(self):
        with server() as at, psgd.Client(at) as run:
            self.fails(psgd.StateError, "no tensor", run.commit, 8, 1)
            run.add("w", floats(1, 2))
            self.fails(psgd.InvalidError, "two tensors", run.add, "w", floats(1))
            self.fails(psgd.DivergedError, "element 1", run.add, "x", floats(1, float("nan")))
            self.fails(psgd.StateError, "commit", run.next_share)
            self.fails(psgd.InvalidError, "at least one batch", run.commit, 3, 1)
            run.commit(8, 1)
            self.fails(psgd.StateError, "after the commit", run.add, "x", floats(1))
            self.fails(psgd.StateError, "share", run.wait)
            share = run.next_share()
            self.assertEqual(sorted(i for batch in share for i in batch), list(range(8)))
            self.fails(psgd.StateError, "steps left", run.next_share)
            w = floats(0, 0)
            run.pull({"w": w})
            self.assertEqual(list(w), [1, 2])
            self.fails(psgd.InvalidError, "2 elements", run.push, {"w": floats(1)})
            self.fails(psgd.InvalidError, "no tensor is called", run.push, {"v": w})
            self.fails(psgd.DivergedError, "training diverged: lower the learning rate", run.push,
                       {"w": floats(1, float("inf"))})
            self.fails(psgd.StateError, "optimizer", run.push, {"w": w}, gradients=True)
            run.push({"w": floats(1.5, 2)})
            self.fails(psgd.StateError, "before in this step", run.push, {"w": w})
            run.end_step()
            run.pull({"w": w})
            self.assertEqual(list(w), [1.5, 2])
            run.end_step()  # a step without a push
            run.wait()
            self.fails(psgd.StateError, "no step left", run.end_step)
            run.report(1, accuracy=0.5)
            self.assertIsNone(run.next_share())
            self.fails(psgd.RunOver, "", run.wait)
            run.leave()
            self.fails(psgd.StateError, "has left", run.wait)
            self.fails(psgd.StateError, "has left", run.timings)

    def test_whatever_holds_float32_is_an_array(self):
        with server() as at, psgd.Client(at) as run:
            run.add("w", (ctypes.c_float * 2)(1, 2))  # of the format "<f"
            run.add("x", memoryview(bytes(floats(3))).cast("f"))  # read-only
            self.fails(psgd.InvalidError, "float32", run.add, "y", bytes(4))
            self.fails(psgd.InvalidError, "float32", run.add, "y", array.array("d", [1]))
            self.fails(psgd.InvalidError, "no array", run.add, "y", [1.0])
            run.commit(8, 1)
            run.next_share()
            w, x = (ctypes.c_float * 2)(), floats(0)
            run.pull({"w": w, "x": x})
            self.assertEqual(list(w) + list(x), [1, 2, 3])
            fixed = memoryview(bytes(8)).cast("f")
            self.fails(psgd.InvalidError, "read-only", run.pull, {"w": fixed})

    def test_another_model_than_the_runs_names_the_tensor(self):
        with server(workers=2) as at, psgd.Client(at) as one, psgd.Client(at) as other:
            one.add("w", floats(1, 2))
            one.commit(8, 1)
            other.add("w", floats(1, 2, 3))
            self.fails(psgd.RefusedError, "w is 3, not 2", other.commit, 8, 1)
        with server(workers=2) as at, psgd.Client(at) as one, psgd.Client(at) as other:
            one.add("w", floats(1, 2))
            one.commit(8, 1)
            other.add("w", floats(5, 6))
            self.fails(psgd.RefusedError, "epochs", other.commit, 8, 2)
            other.commit(8, 1)
            shares = []
            threads = [threading.Thread(target=lambda c=c: shares.append(c.next_share()))
                       for c in (one, other)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertNotIn(None, shares)
            w = floats(0, 0)
            other.pull({"w": w})
            self.assertEqual(list(w), [1, 2])  # the first worker's count

    def test_a_checkpoint_with_a_part_of_a_state(self):
        library = mock.Mock()
        library.psgd_load_state.return_value = 10  # PSGD_DATA_LOSS
        library.psgd_last_error.return_value = b"only a part"
        with mock.patch.object(_library, "_loaded", library):
            self.fails(psgd.DataLossError, "only a part", _library.call, "psgd_load_state", 1)

    def test_an_older_library_codes_on_the_host(self):
        with library_without("psgd_use_device", "psgd_get_place", "psgd_push_device_weights",
                             "psgd_push_device_gradient"), server() as at, psgd.Client(at) as run:
            run.add("w", floats(1, 2))
            run.use_device("w", 0)
            run.commit(8, 1)
            self.assertEqual(run.place("w"), _library.ON_HOST)
            self.fails(psgd.InvalidError, "no tensor", run.place, "x")

    def test_an_older_library_that_lacks_more_is_an_error(self):
        with library_without("psgd_exchanges"):
            self.fails(psgd.Error, "has no psgd_exchanges, which this package needs: it is of an "
                       "older release; install both from one release", psgd.Client, "127.0.0.1:1")

    def test_a_fork_does_not_have_the_run(self):
        with server() as at, psgd.Client(at) as run:
            context = multiprocessing.get_context("fork")
            answers = context.Queue()

            def child():
                try:
                    run.timings()
                except psgd.StateError as error:
                    answers.put(str(error))

            process = context.Process(target=child)
            process.start()
            self.assertIn("forked", answers.get(timeout=20))
            process.join()

    def interrupted(self, call, *arguments, **named):
        """Ctrl-C ends the call."""
        signal.signal(signal.SIGINT, signal.default_int_handler)  # not so where ctest ignores it
        start = time.monotonic()
        press = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        press.start()
        with self.assertRaises(KeyboardInterrupt):
            call(*arguments, **named)
        self.assertLess(time.monotonic() - start, 2)

    def test_ctrl_c_while_the_server_is_away(self):
        self.interrupted(psgd.Client, "127.0.0.1:1", connect_seconds=5)
        for failed in (True, False):
            with server() as at:
                run = psgd.Client(at)
                run.add("w", floats(1))
                run.commit(8, 1)
            self.assertFalse(run.is_in_call())
            self.interrupted(run.next_share)
            self.assertTrue(run.is_in_call())
            start = time.monotonic()
            run.leave(failed=failed)
            self.assertLess(time.monotonic() - start, 2)

    def test_a_client_that_is_forgotten_leaves(self):
        with server(workers=2) as at:
            for _ in range(2):
                run = psgd.Client(at)
                self.assertEqual(run.worker, 0)  # nobody has that number
                del run

    def test_a_server_that_dies_is_an_error_in_time(self):
        start = time.monotonic()
        with self.assertRaises((psgd.UnavailableError, psgd.RefusedError)):
            with server() as at:
                run = psgd.Client(at)
                run.add("w", floats(1))
                run.commit(1000 * 4, 1)
                run.next_share()
            run.end_step()
            for _ in range(999):
                run.wait()
                run.end_step()
        run.leave(failed=True)
        self.assertLess(time.monotonic() - start, 15)  # the deadline is 5 s


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
