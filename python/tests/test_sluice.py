# SPDX-License-Identifier: BSD-3-Clause
"""Tests the package without torch, mostly in jobs of one process. sluice.sh runs it."""
import array
import ctypes
import difflib
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
import warnings

import ranks
import sluice
from sluice import _abi


def floats(*values):
    return array.array("f", values)


def python(code, **environment):
    """Runs code in another interpreter. Returns its status and its output on both streams."""
    done = subprocess.run([sys.executable, "-c", code], env=dict(os.environ, **environment), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=120)
    return done.returncode, done.stdout


class Library(unittest.TestCase):
    def test_named_library_is_absent(self):
        status, said = python("import sluice", SLUICE_LIBRARY="/nowhere/libsluice.so")
        self.assertNotEqual(status, 0)
        self.assertIn("SLUICE_LIBRARY=/nowhere/libsluice.so cannot be loaded", said)

    def test_nothing_is_found(self):
        status, said = python("import sluice", SLUICE_LIBRARY="", PATH="/nowhere", LD_LIBRARY_PATH="/nowhere")
        self.assertNotEqual(status, 0)
        self.assertIn("name its lib directory in LD_LIBRARY_PATH", said)

    def test_other_version(self):
        status, said = python("import sys, types; fake = types.ModuleType('sluice._version')\n"
                              "fake.VERSION = '7.8.9'; sys.modules['sluice._version'] = fake\n"
                              "import sluice")
        self.assertNotEqual(status, 0)
        self.assertIn("this Python package was made for 7.8.*", said)

    def test_torch_is_not_imported(self):
        status, said = python("import sys, sluice; print('torch' in sys.modules, 'numpy' in sys.modules)")
        self.assertEqual((status, said), (0, "False False\n"))

    def test_version_is_that_of_the_library(self):
        self.assertTrue(sluice.library_version.startswith(sluice.__version__ + " "), sluice.library_version)

    def test_info(self):
        done = subprocess.run([sys.executable, "-m", "sluice.info", "--help"], text=True,
                              stdout=subprocess.PIPE, timeout=120)
        self.assertEqual(done.returncode, 0)
        self.assertIn("sluice-info", done.stdout)

    def test_info_is_that_of_the_program(self):
        from sluice.info import program
        said = [subprocess.run(command, text=True, stdout=subprocess.PIPE, timeout=120).stdout.splitlines()
                for command in ([sys.executable, "-m", "sluice.info"], [program()])]
        self.assertEqual(f"Sluice {sluice.library_version}, library {sluice.library_path} (named by SLUICE_LIBRARY)",
                         said[0][0])
        headings = [[line for line in lines if line and not line.startswith(" ")] for lines in said]
        self.assertEqual(headings[0][1:], headings[1])
        self.assertTrue(any("SLUICE_TRANSPORT" in line for line in said[0]), said[0])


class Recipes(unittest.TestCase):
    def test_words(self):
        recipe = sluice.Recipe("up=topk(0.01) update=sgd", update="none", signal="momentum(0.9)")
        self.assertEqual(str(recipe), "up=topk(0.01) update=none signal=momentum(0.9)")
        self.assertEqual(recipe.get("down", "all"), "all")
        self.assertEqual(sluice.Recipe(str(recipe)), recipe)

    def test_twice(self):
        with self.assertRaisesRegex(ValueError, "up appears twice"):
            sluice.Recipe("up=all up=topk(0.1)")

    def test_complete(self):
        recipe = sluice.Recipe("scalecom").complete()
        self.assertEqual(recipe.get("up"), "cyclic(0.01),f32")
        self.assertEqual(recipe.get("when"), "always")

    def test_unknown_word(self):
        with self.assertRaisesRegex(sluice.InvalidError, "topk") as caught:
            sluice.Recipe("up=topx(0.1)").complete()
        self.assertEqual(caught.exception.code, -1)

    def test_plan(self):
        self.assertRegex(sluice.Recipe("up=topk(0.01)").plan(1000), r"\n  accumulator +yes ")
        items = sluice.Recipe("up=topk(0.01) clip=1").plan_items(1000, workers=3)
        self.assertEqual((items["ranges"], items["workers"], items["lr_0"]), ("copied", "3", "yes"))
        self.assertTrue(items["recipe"].startswith("up=topk(0.01),f32 down=all,f32 "))


class Steps(unittest.TestCase):
    def setUp(self):
        self.job = sluice.Job()
        self.addCleanup(self.job.close)

    def test_alone(self):
        job = self.job
        self.assertEqual((job.rank, job.size, job.workers, job.living, job.is_worker), (0, 1, 1, 1, True))
        self.assertEqual(job.node(7), "")
        self.assertEqual(job.sum([1, 2.5]), [1.0, 2.5])
        long = bytes(range(256)) * 5
        self.assertEqual(job.gather(long), [long])
        job.barrier()
        self.assertIn("self", job.transports())

    def test_sgd(self):
        params = floats(1, 2, 3)
        with self.job.open(params, "up=all down=all update=sgd", lr=0.5) as model:
            model.push(floats(1, 1, 1))
            model.pull(params)
            model.set_lr(0.25)
            model.push(floats(2, 0, -2))
            model.pull(params)
            self.assertEqual(list(params), [0.0, 1.5, 3.0])
            self.assertEqual((model.step, model.stats()["steps"]), (2, 2))
            self.assertEqual(model.recipe.get("update"), "sgd")
        self.assertTrue(model.closed)

    def test_several_in_one_call(self):
        params = [floats(1, 2), floats(3, 4, 5)]
        models = self.job.open_many([{"params": each, "recipe": "up=all down=all", "lr": 1.0} for each in params])
        for model, grad in zip(models, (floats(1, 1), floats(0, 1, 2))):
            model.push(grad)
        for model, each in zip(models, params):
            model.pull(each)
        self.assertEqual([list(each) for each in params], [[0, 1], [3, 3, 3]])
        with self.assertRaisesRegex(sluice.InvalidError, "model 1 of 2: .*nothing"):
            self.job.open_many([{"params": params[0]}, {"params": params[1], "recipe": "up=nothing"}])
        with self.assertRaisesRegex(sluice.InvalidError, "n=0"):
            self.job.open_many([])
        with self.job.open(floats(1)) as model:
            self.assertEqual(model.count, 1)

    def test_signals_of_two_gradients(self):
        params, point, grad = (array.array("f", [0] * 4) for _ in range(3))
        with self.job.open(params, "up=all down=all signal=storm(0.5) update=ema(0.5)", lr=0.5) as model:
            self.assertFalse(model.anchor_due)
            for step in range(1, 4):
                model.point(params, point)
                grad[0] = params[0] - 1
                model.push_pair(grad, array.array("f", [point[0] - 1, 0, 0, 0]))
                model.pull(params)
                self.assertEqual((model.step, model.wanted), (step, True))
            self.assertGreater(params[0], 0)

    def test_gradient_that_the_step_does_not_want(self):
        params, left_out = floats(1, 1), 0
        with self.job.open(params, "up=all down=all signal=innovation when=lazy-server(3,5)", lr=0.1) as model:
            model.set_smoothness(1e-3)
            self.assertTrue(model.wanted)
            with self.assertRaisesRegex(sluice.InvalidError, "the vector is NULL"):
                model.push(None)
            for _ in range(6):
                left_out += not model.wanted
                model.push(floats(1, 1) if model.wanted else None)
                model.pull(params)
            self.assertGreater(left_out, 0)
            self.assertEqual(model.stats()["skipped_pushes"], left_out)

    def test_average(self):
        params = array.array("f", [1, 2])
        with self.job.open(params, "up=all down=all update=average") as model:
            params[0] = 5
            model.push(params)
            model.pull(params)
        self.assertEqual(list(params), [5, 2])

    def test_accumulator(self):
        params = array.array("f", [0] * 4)
        with self.job.open(params, "up=topk(50%) down=all", lr=0.5) as model:
            accumulator, scale = model.accumulator()
            accumulator[1] += scale * 2
            model.push(accumulator)
            model.pull(params)
        self.assertEqual(list(params), [0, -1, 0, 0])

    def test_rules(self):
        params, options = floats(1, 2, 3), {"tensors": [("a", 2), ("b", 1)], "lr": 0.5}
        with self.job.open(params, "up=all down=all decay=0.5", rules=[(1, 0), (0.5, 1)], **options) as model:
            model.push(floats(1, 1, 1))
            model.pull(params)
            self.assertEqual(list(params), [0.5, 1.5, 2.0])
        with self.assertRaisesRegex(ValueError, "1 rules and 2 tensors"):
            self.job.open(params, rules=[(1, 0)], **options)
        with self.assertRaisesRegex(sluice.InvalidError, "rules are not possible with .* with update=none"):
            self.job.open(params, "up=all down=all update=none", rules=[(1, 0)] * 2, **options)

    def test_device_shards(self):
        with self.assertRaisesRegex(sluice.InvalidError, "device_shards=1 is not possible with .* the sign of the mean"):
            self.job.open(floats(1, 2), "up=topk(0.5) down=all update=sign", device_shards=True)

    def test_mean_by_ranges(self):
        mean = floats(0, 0, 0, 0)
        with self.job.open(mean, "up=all down=all update=none") as model:
            grad = floats(1, 2, 3, 4)
            model.push_range(memoryview(grad)[2:], 2, 2)
            with self.assertRaisesRegex(sluice.InvalidError, "range"):
                model.pull(mean)
            model.push_range(memoryview(grad)[:2], 0, 2)
            model.raise_flags(5)
            model.pull(mean)
            self.assertEqual(mean, grad)
            model.push(grad)
            model.pull(mean)
            self.assertEqual(model.raised, 5)

    def test_drift(self):
        params, common = floats(8, 8), floats(0, 0)
        with self.job.open(params, "diloco when=every(2) update=sgd rate=0.5", grad_type=sluice.F16) as model:
            for step in range(1, 4):
                params[0] -= 1  # the program's own optimizer
                model.push(params)
                model.pull(params)
                self.assertEqual(list(params), [[7, 8], [7, 8], [6, 8]][step - 1])
            model.point(params, common)
            self.assertEqual(list(common), [7, 8])
            with self.assertRaisesRegex(sluice.InvalidError, "SLUICE_LR is not possible with signal=drift"):
                model.set_lr(0.1)
            model.push(floats(5, 5))
            model.pull(array.array("f", [0, 0]))  # only the model refers to this array
            saved = model.state_save()
        again = floats(0, 0)
        with self.job.open(again, "diloco when=every(2) update=sgd rate=0.5") as model:
            self.assertEqual(model.state_load(saved, again), 4)
            self.assertEqual(list(again), [6, 6.5])

    def test_half_precision(self):
        mean = floats(0, 0)
        halves = memoryview(bytes.fromhex("003c00c0")).cast("B").cast("e") if sys.version_info >= (3, 12) \
            else None
        if halves is None:
            try:
                import numpy
            except ImportError:
                self.skipTest("no numpy, and this Python has no buffers of halves")
            halves = numpy.array([1, -2], numpy.float16)
        with self.job.open(mean, "up=all down=all update=none", grad_type=sluice.F16) as model:
            model.push(halves)
            model.pull(mean)
            self.assertEqual(list(mean), [1.0, -2.0])
            with self.assertRaisesRegex(TypeError, "grad holds float32, but must hold float16"):
                model.push(floats(1, 2))

    def test_eight_bits(self):
        """An object with the attributes of a torch tensor."""
        class Device:
            type = "cpu"

        class Tensor:
            def __init__(self, codes, dtype):
                self.codes, self.dtype, self.device = (ctypes.c_uint8 * len(codes))(*codes), dtype, Device()

            def is_contiguous(self):
                return True

            def data_ptr(self):
                return ctypes.addressof(self.codes)

            def numel(self):
                return len(self.codes)

        mean = floats(0, 0, 0)
        e4m3fn, e5m2 = "torch.float8_e4m3fn", "torch.float8_e5m2"
        with self.job.open(mean, "up=all down=all update=none", grad_type=sluice.F8_E4M3FN) as model:
            model.push(Tensor((0x38, 0xc0, 0x7e), e4m3fn))
            model.pull(mean)
            self.assertEqual(list(mean), [1.0, -2.0, 448.0])
            model.set_grad_scale(0.5)
            model.push(Tensor((0x38, 0xc0, 0x01), e4m3fn))
            model.pull(mean)
            self.assertEqual(list(mean), [0.5, -1.0, 2.0 ** -10])
            model.push([Tensor((0x3c,), e5m2), floats(3), Tensor((0x7b,), e5m2)], scales=[2, 1, 0.25])
            model.pull(mean)
            self.assertEqual(list(mean), [2.0, 3.0, 57344.0 / 4])
            model.push([Tensor((0x3c,), e5m2), floats(3, 4)])
            model.pull(mean)
            self.assertEqual(list(mean), [0.5, 3.0, 4.0])
            with self.assertRaisesRegex(TypeError, "grad holds float8_e5m2, but must hold float8_e4m3fn"):
                model.push(Tensor((0, 0, 0), e5m2))
            with self.assertRaisesRegex(ValueError, "2 scales for the 1 pieces"):
                model.push([floats(1, 2, 3)], scales=[1, 2])
            with self.assertRaisesRegex(ValueError, "set_grad_scale"):
                model.push(floats(1, 2, 3), scales=[1])
            with self.assertRaisesRegex(sluice.Error, "must be finite and > 0"):
                model.set_grad_scale(0)
            with self.assertRaisesRegex(TypeError, "params holds float8_e5m2, but must hold float32"):
                model.push(Tensor((0, 0, 0), e4m3fn))
                model.pull(Tensor((0, 0, 0), e5m2))

    def test_dlpack(self):
        try:
            import numpy
        except ImportError:
            self.skipTest("no numpy")
        numpy_array = numpy.arange(6, dtype=numpy.float32)

        class Other:
            def __init__(self, array):
                self.array = array

            def __dlpack__(self):
                return self.array.__dlpack__()

        mean = numpy.zeros(6, numpy.float32)
        with self.job.open(mean, "up=all down=all update=none") as model:
            model.push(Other(numpy_array))
            model.pull(Other(mean))
            self.assertEqual(mean.tolist(), numpy_array.tolist())
            with self.assertRaisesRegex(ValueError, "gaps"):
                model.push(Other(numpy.zeros((6, 2), numpy.float32)[:, 0]))
            with self.assertRaisesRegex(TypeError, "64 bits"):
                model.push(Other(numpy.zeros(6)))

    def test_wrong_vectors(self):
        params = floats(0, 0, 0)
        with self.job.open(params, "up=all down=all") as model:
            for wrong, kind, why in ((3, TypeError, "grad is a int, but must be a tensor"),
                                     (array.array("d", [1, 2, 3]), TypeError, "elements 'd'"),
                                     (floats(1, 2), ValueError, "grad has 2 elements, but must have 3"),
                                     (memoryview(floats(*range(6)))[::2], ValueError, "contiguous"),
                                     (memoryview(bytearray(13))[1:].cast("f"), sluice.Error,
                                      "sluice_push: grad .* not aligned")):
                with self.assertRaisesRegex(kind, why):
                    model.push(wrong)
            model.push(floats(1, 2, 3))
            with self.assertRaisesRegex(ValueError, "can be written"):
                model.pull(memoryview(params).toreadonly())
            model.pull(params)

    def test_numeric(self):
        with self.job.open(floats(0, 0), "up=all down=all", tensors=[("a.weight", 1), ("a.bias", 1)]) as model:
            with self.assertRaisesRegex(sluice.NumericError, "a.bias") as caught:
                model.push(floats(0, float("nan")))
            self.assertIsInstance(caught.exception, ArithmeticError)

    def test_larger_than_announced(self):
        with self.assertRaisesRegex(sluice.OutOfMemoryError, "the model needs .* the limit is"):
            self.job.open(array.array("f", bytes(4 << 16)), memory_bytes=1000)

    def test_resumed(self):
        recipe, grads = "up=topk(0.3) down=all", [floats(*(i * j % 7 - 3 for j in range(10))) for i in range(8)]
        whole, first, second = (floats(*range(10)) for _ in range(3))
        with self.job.open(whole, recipe, lr=0.1) as model:
            for grad in grads:
                model.push(grad)
                model.pull(whole)
        with tempfile.TemporaryDirectory() as folder:
            with self.job.open(first, recipe, lr=0.1) as model:
                for grad in grads[:5]:
                    model.push(grad)
                    model.pull(first)
                model.checkpoint(folder)
            with self.job.open(second, recipe, lr=0.1) as model:
                self.assertEqual(model.restore(folder, second), 5)
                self.assertEqual(second, first)
                for grad in grads[5:]:
                    model.push(grad)
                    model.pull(second)
            with self.job.open(second, recipe, lr=0.1) as model:
                with self.assertRaisesRegex(sluice.FileError, "/nowhere") as caught:
                    model.restore("/nowhere/at/all", second)
                self.assertIsInstance(caught.exception, OSError)
        self.assertEqual(second, whole)

    def test_use_after_close(self):
        model = self.job.open(floats(0))
        self.job.close()
        self.job.close()
        self.assertTrue(model.closed and self.job.closed)
        with self.assertRaisesRegex(sluice.InvalidError, "the model is closed"):
            model.push(floats(0))
        with self.assertRaisesRegex(sluice.InvalidError, "the job is closed"):
            self.job.barrier()

    def test_forked_child_may_not_use_it(self):
        reader, writer = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # none of the job's threads is Python's
            child = os.fork()
        if child == 0:
            try:
                self.job.barrier()
                said = "no exception"
            except sluice.InvalidError as error:
                said = str(error)
            os.write(writer, said.encode())
            os._exit(0)
        os.close(writer)
        os.waitpid(child, 0)
        with open(reader, encoding="utf-8") as pipe:
            self.assertIn("is a fork", pipe.read())
        self.job.barrier()


class Documents(unittest.TestCase):
    def test_changes_of_the_example_are_all_named(self):
        top = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

        def lines(*path):
            with open(os.path.join(top, *path), encoding="utf-8") as file:
                return file.read().splitlines()

        page = lines("doc", "pytorch.md")
        begin = page.index("```diff") + 1
        named = [line for line in page[begin:page.index("```", begin)] if line[0] in "+-"]
        changes = [line for line in difflib.unified_diff(lines("python", "examples", "fashion_gloo.py"),
                                                         lines("python", "examples", "fashion.py"), n=0)
                   if line[:1] in "+-" and not line.startswith(("+++", "---"))]
        printed = [line for line in changes if '"""' in line or "totals" in line or "ms_a_step" in line]
        self.assertEqual([line for line in changes if line not in printed], named)


class Ends(unittest.TestCase):
    def test_exit_without_close(self):
        status, said = python("import array, sluice\njob = sluice.Job()\n"
                              "model = job.open(array.array('f', [1, 2]))\nprint('done')", SLUICE_LOG="warn")
        self.assertEqual((status, said), (0, "done\n"))

    def test_exit_without_close_of_a_job_that_nothing_refers_to(self):
        status, said = python("import array, gc, sluice\n"
                              "import sluice.job as module\n"
                              "finalize = module.lib.sluice_finalize\n"
                              "module.lib.sluice_finalize = lambda job: (print('closed'), finalize(job))\n"
                              "def train():\n"
                              "    sluice.Job().open(array.array('f', [1, 2]))\n"
                              "train()\ngc.collect()\nprint('done')", SLUICE_LOG="warn")
        self.assertEqual((status, said), (0, "done\nclosed\n"))

    def test_errors_can_be_pickled(self):
        error = pickle.loads(pickle.dumps(sluice.PeerError("rank 3 on n2 is lost")))
        self.assertEqual((str(error), error.code), ("rank 3 on n2 is lost", -9))
        error = pickle.loads(pickle.dumps(sluice.FileError("/nowhere cannot be read")))
        self.assertEqual((str(error), error.code), ("/nowhere cannot be read", -12))

    def test_each_code_has_an_exception_whose_text_names_it(self):
        codes = {name: code for name, code in _abi.CONSTANTS.items() if code < 0}
        self.assertEqual(sorted(codes.values()), sorted(sluice.errors.BY_CODE))
        for name, code in codes.items():
            self.assertTrue(sluice.errors.BY_CODE[code].__doc__.startswith(name + ":"), name)


# ---- several ranks ------------------------------------------------------------------------------

def rank_means(job, _):
    mean = floats(*[job.rank] * 5)  # all ranks receive those of rank 0
    with job.open(mean, "up=all down=all update=none") as model:
        assert list(mean) == [0.0] * 5, mean
        model.push(floats(*[job.rank + 1] * 5))
        model.pull(mean)
        assert list(mean) == [1.5] * 5, mean
    assert job.gather(bytes([job.rank] * 600)) == [bytes(600), bytes([1] * 600)]
    assert job.broadcast(b"%d" % job.rank, 1) == b"1"
    job.close()


def rank_figures(job, _):
    """Rank 0 has figures of its updates, although it also owns the only shard."""
    params = array.array("f", [1.0] * 100)
    with job.open(params, "up=topk(0.1) down=topk(0.1)", lr=0.1) as model:
        first = model.stats()
        assert first["saved"] is None and first["compression_error"] is None, first
        model.measure()
        for _ in range(3):
            model.push(array.array("f", range(100)))
            model.pull(params)
        stats = model.stats()
        assert bool(stats["pushed_bytes"]) == (job.rank == 1), stats
        assert stats["rank_pushed_bytes"] > 0 and stats["rank_dense_bytes"] > 3 * 800, stats
        assert 0 < stats["saved"] < 1 and 0 < stats["compression_error"] < 1, stats
        # rank 1 owns no shard, so it has no figures of a shard
        assert (stats["compression_error_down"] is None) == (job.rank == 1), stats
        keys = ("pushed_bytes", "pulled_bytes", "dense_bytes")
        sums, totals = job.sum([stats["rank_" + key] for key in keys]), model.totals()
        assert [totals[key] for key in keys] == sums and totals["pushed_bytes"] > stats["rank_pushed_bytes"], totals
        assert totals["saved"] == 1 - (sums[0] + sums[1]) / sums[2], totals
    job.open(params).close()
    job.open(params, "memory=none").close()
    job.close()


def rank_pieces(job, _):
    """Vectors in pieces give the same bits as whole ones. One rank overflows in one step."""
    recipe = "up=topk(0.4) down=all nonfinite=skip-all"
    grads = [floats(3, -1, 4, 1 + job.rank, -5), floats(9, 2, -6, 5, 3)]
    whole, begin, end = floats(*range(5)), floats(0, 1), floats(2, 3, 4)
    if job.rank == 1:
        begin[0] = 7  # rank 0's value counts
    with job.open(whole, recipe, lr=0.5) as model, job.open([begin, end], recipe, lr=0.5) as other:
        assert (other.count, list(begin)) == (5, [0.0, 1.0])
        for grad in grads * 3:
            model.push(grad)
            model.pull(whole)
            other.push([memoryview(grad)[:4], memoryview(grad)[4:]])
            other.pull()
            assert list(whole) == [*begin, *end] and not other.skipped
        other.push(floats(1, 1, float("inf") if job.rank else 1, 1, 1))
        other.pull([begin, end])
        assert other.skipped and list(whole) == [*begin, *end]
        other.push(grads[0])
        model.push(grads[0])
        model.pull(whole)
        other.pull_begin([begin, end])
        other.pull_range(3, 2)
        other.pull_range(0, 3)
        assert list(whole) == [*begin, *end] and other.step == model.step == 7
        for wrong, why in (([begin], "1 pieces of grad have 2 elements, but must have 5"),
                           ([begin, "x"], "piece 1 of grad is a str")):
            try:
                other.push(wrong)
            except (ValueError, TypeError) as error:
                assert why in str(error), error
            else:
                raise AssertionError(f"no error says '{why}'")
    job.close()


def rank_groups(job, _):
    """Ranks 0 and 2 form one group, and ranks 1 and 3 another, in reverse order."""
    group = job.split(job.rank % 2, -job.rank)
    assert (group.size, group.rank) == (2, 1 - job.rank // 2), (group.size, group.rank)
    mean = floats(0)
    with group.open(mean, "up=all down=all update=none") as model:
        model.push(floats(job.rank))
        model.pull(mean)
        assert mean[0] == 1 + job.rank % 2, mean
    assert job.sum([1]) == [4]
    alone = job.split(0 if job.rank == 3 else -1)
    assert (alone is None) == (job.rank != 3)
    job.close()
    assert group.closed


KILLED = 5


def rank_groups_and_a_killed_rank(job, folder):
    """Uses groups of 2, 4 and 8 ranks at once. Rank 5 is killed. Its groups fail, and the others continue."""
    sizes = (2, 4, 8)
    groups = [job.split(job.rank // size) for size in sizes]
    means = [floats(0, 0) for _ in sizes]
    models = [group.open(mean, "up=all down=all update=none") for group, mean in zip(groups, means)]

    def step(which):
        models[which].push(floats(job.rank, 1))
        models[which].pull(means[which])
        first = job.rank // sizes[which] * sizes[which]
        assert list(means[which]) == [first + (sizes[which] - 1) / 2, 1.0], (which, means[which])

    def all_are(where):
        """Waits for the living ranks without Sluice, because a barrier might fail with the rank that dies."""
        with open(os.path.join(folder, f"{where}{job.rank}"), "w", encoding="ascii"):
            pass
        names = [os.path.join(folder, f"{where}{rank}") for rank in range(job.size) if rank != KILLED]
        end = time.monotonic() + 30
        while not all(map(os.path.exists, names)):
            assert time.monotonic() < end, f"not all ranks are {where}"
            time.sleep(0.01)

    for which in range(len(sizes)):
        for _ in range(3):
            step(which)
    all_are("ready")
    if job.rank == KILLED:
        os.kill(os.getpid(), signal.SIGKILL)
    for which in reversed(range(len(sizes))):
        held = job.rank // sizes[which] == KILLED // sizes[which]
        for _ in range(5):
            try:
                step(which)
            except sluice.PeerError as error:
                assert held, f"a group of {sizes[which]} without rank {KILLED} failed: {error}"
                assert f"rank {KILLED} of the job, node n{KILLED}) is lost" in str(error), error
                break
        else:
            assert not held, f"a group of {sizes[which]} continued without rank {KILLED}"
    all_are("done")


def rank_waits_with_the_interpreter_free(job, folder):
    """Rank 0 waits in a pull. Rank 1 pushes only after a second thread of rank 0 has asked it to."""
    told = os.path.join(folder, "told")
    mean = floats(0)
    with job.open(mean, "up=all down=all update=none") as model:
        if job.rank == 0:
            model.push(floats(1))
            pulling = threading.Event()

            def tell():
                pulling.wait()
                time.sleep(0.2)  # the pull has probably begun; if not, the test checks less
                with open(told, "w", encoding="ascii"):
                    pass

            thread = threading.Thread(target=tell)
            thread.start()
            pulling.set()
            model.pull(mean)
            assert os.path.exists(told)
            thread.join()
        else:
            while not os.path.exists(told):
                time.sleep(0.01)
            model.push(floats(2))
            model.pull(mean)
        assert mean[0] == 1.5
    job.close()


def rank_raises(job, _):
    mean = floats(0)
    model = job.open(mean, "up=all down=all update=none")
    for step in range(3):
        if job.rank == 1 and step == 2:
            raise RuntimeError("no more")
        model.push(mean)
        model.pull(mean)


def rank_differs(job, _):
    job.open(floats(*range(2 + job.rank)), "up=all down=all")


class Meeting(sluice.Folder):
    """Records which files of the folder other users could read."""

    open_to_others = set()

    def _look(self, value):
        for name in os.listdir(self._folder):
            try:
                if os.lstat(os.path.join(self._folder, name)).st_mode & 0o077:
                    self.open_to_others.add(name)
            except FileNotFoundError:
                pass
        return value

    def put(self, key, value):
        super().put(key, value)
        self._look(value)

    def get(self, key, timeout):
        return self._look(super().get(key, timeout))


def rank_leaves_private_files(job, folder):
    """Other users can read no file of the job, and the folder where the ranks met is empty afterwards."""
    assert not Meeting.open_to_others, Meeting.open_to_others
    job.barrier()
    assert not os.listdir(os.path.join(folder, "meet")), os.listdir(os.path.join(folder, "meet"))
    checkpoint, params = os.path.join(folder, "checkpoint"), floats(*range(1000))
    with job.open(params, "up=topk(0.1) down=topk(0.1)", lr=0.1) as model:
        for _ in range(3):
            model.push(params)
            model.pull(params)
        model.checkpoint(checkpoint)
        job.barrier()
        paths = [os.path.join(top, name) for top, _, names in os.walk(checkpoint) for name in names]
        assert len(paths) >= 2, paths
        for path in paths:
            assert os.stat(path).st_mode & 0o777 == 0o600, f"{path}: {os.stat(path).st_mode:o}"
        job.barrier()
    job.close()


class Arguments(unittest.TestCase):
    """Values that a C function would truncate are refused, and the argument is named."""

    def setUp(self):
        self.job = sluice.Job()
        self.addCleanup(self.job.close)
        self.params = floats(1, 2, 3)
        self.model = self.job.open(self.params, "up=all down=all", lr=0.5)

    def refused(self, why, call, *arguments, **named):
        with self.assertRaisesRegex(ValueError, why):
            call(*arguments, **named)

    def test_times_below_a_millisecond_are_not_the_default(self):
        self.refused("a time in the attributes is negative", sluice.Job, lost_after=-0.0001)

    def test_integers(self):
        job, model, params = self.job, self.model, self.params
        for number in (2**31, 2**32, 2**40, -2**31 - 1):
            self.refused(f"color is {number}, but must be a whole number from -2147483648 to 2147483647",
                         job.split, number)
            self.refused("key is ", job.split, 0, number)
            self.refused("root is ", job.broadcast, b"x", number)
            self.refused("rank is ", job.node, number)
            self.refused("workers is ", sluice.Recipe("up=all").plan, 10, number)
            self.refused("servers of sluice_job_attr is ", sluice.Job, servers=number)
        for number in (-1, 2**32, 2**40):
            self.refused(f"flags is {number}, but must be a whole number from 0 to 4294967295",
                         model.raise_flags, number)
            self.refused("shards of sluice_model_attr is ", job.open, params, shards=number)
        for number in (-1, 2**64):
            self.refused("steps_per_epoch of sluice_model_attr is ", job.open, params, steps_per_epoch=number)
            self.refused("memory_bytes of sluice_model_attr is ", job.open, params, memory_bytes=number)
            self.refused("stream of sluice_model_attr is ", job.open, params, stream=number)
            self.refused("count of sluice_model_attr is ", job.open, None, count=number)
            self.refused("count of sluice_tensor is ", job.open, params, tensors=[("a", number)])
            self.refused("begin is ", model.push_range, params, number, 3)
            self.refused("begin is ", model.pull_range, number, 3)
            self.refused("count is ", model.pull_range, 0, number)
        for wrong in ("1", 1.0, None):
            with self.assertRaisesRegex(TypeError, f"color is {wrong!r}, but must be a whole number"):
                job.split(wrong)
        self.assertEqual((model.raised, job.split(True).size), (0, 1))

    def test_texts(self):
        job, model, params = self.job, self.model, self.params
        with tempfile.TemporaryDirectory(prefix="sluice-texts-") as folder:
            for call, more in ((model.checkpoint, ()), (model.restore, (params,))):
                self.refused("folder has a character 0", call, folder + "/a\0b", *more)
            self.assertEqual(os.listdir(folder), [])
        self.refused("recipe of sluice_model_attr has a character 0", job.open, params, "up=all\0x")
        self.refused("recipe of sluice_model_attr has a character 0", sluice.Recipe("up=all\0x").complete)
        self.refused("name of sluice_tensor has a character 0", job.open, params, tensors=[("a\0", 3)])
        self.refused("node of sluice_bootstrap has a character 0", sluice.Job,
                     bootstrap=sluice.Folder("/nowhere", 0, 2, "n\0"))

    def test_bootstrap_that_gives_no_bytes(self):
        class Wrong(sluice.Bootstrap):
            def __init__(self, value):
                super().__init__(0, 2)
                self.value = value

            def put(self, key, value):
                pass

            def get(self, key, timeout):
                return self.value

        for value in (None, "text", 7, [1]):
            with self.assertRaisesRegex(sluice.BootError, r"bootstrap function get\(\) returned 1 on rank 0") as caught:
                sluice.Job(bootstrap=Wrong(value))
            self.assertRegex(str(caught.exception.__cause__),
                             f"Wrong.get.. returned {type(value).__name__} for sluice[0-9]*.card.0, but must return bytes")
        with self.assertRaisesRegex(sluice.WireError, "refuses the 3 bytes that get"):
            sluice.Job(bootstrap=Wrong(memoryview(b"abc")))


class Folders(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="sluice-folder-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def start(self, rank, ranks=2, **environment):
        """A process that joins a job in the folder, and prints a sum over the ranks."""
        code = ("import sys, sluice\n"
                "with sluice.Job(bootstrap=sluice.Folder(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))) as job:\n"
                "    print(job.sum([1 + job.rank]))\n")
        process = subprocess.Popen([sys.executable, "-c", code, self.folder, str(rank), str(ranks)], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   env=dict(os.environ, **environment))
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def join(self, *processes):
        for process in processes:
            self.assertEqual((process.communicate(timeout=120)[0], process.returncode), ("[3.0]\n", 0))

    def refused(self, why):
        process = self.start(0, SLUICE_BOOT_TIMEOUT="300ms")
        self.assertRegex(process.communicate(timeout=120)[0], why)
        self.assertEqual(process.returncode, 1)

    def test_files_of_a_job_are_private(self):
        ranks.run(2, "rank_leaves_private_files").all_well()

    def test_files_of_an_earlier_job_are_not_met(self):
        self.refused("TimeoutError: .*rank 1")
        self.assertTrue(os.listdir(self.folder))  # the files of rank 0, whose job did not begin
        for late in (0, 1):
            early = self.start(1 - late)
            time.sleep(0.5)  # it finds only the files of the earlier job
            self.join(early, self.start(late))
            self.assertEqual(os.listdir(self.folder), [])

    def test_without_rank_0(self):
        said = self.start(1, 3, SLUICE_BOOT_TIMEOUT="300ms").communicate(timeout=120)[0]
        self.assertRegex(said, f"TimeoutError: rank 0 of this job is not in {self.folder}")
        self.assertRegex(said, "WaitTimeoutError: .*missing: rank 0")

    def test_symbolic_links_are_not_followed(self):
        victim = os.path.join(self.folder, "victim")
        with open(victim, "w", encoding="ascii") as file:
            file.write("precious")
        for name in ("sluice0.card.0", "sluice0.card.0.0.part", "sluice0.card.1.1.part"):
            os.symlink(victim, os.path.join(self.folder, name))
        self.join(self.start(0), self.start(1))
        os.symlink(victim, os.path.join(self.folder, "sluice-hello.1"))
        self.refused("PermissionError: rank 0 cannot read .*sluice-hello.1")
        with open(victim, encoding="ascii") as file:
            self.assertEqual(file.read(), "precious")

    def test_others_can_write_to_the_folder(self):
        os.chmod(self.folder, 0o757)
        self.refused(r"PermissionError: rank 0 refuses the directory .* can be written by others \(mode 0757\)")

    @unittest.skipIf(os.geteuid(), "only root can give a folder to another group")
    def test_group_that_can_write_to_the_folder(self):
        os.chmod(self.folder, 0o770)
        os.chown(self.folder, -1, os.getuid())  # this is the owner's private group
        self.join(self.start(0), self.start(1))
        os.chown(self.folder, -1, 65534)
        self.refused(r"PermissionError: rank 0 refuses the directory .* can be written by others \(mode 0770\)")

    @unittest.skipIf(os.geteuid(), "only root can make a folder of another user")
    def test_folder_of_another_user(self):
        os.chown(self.folder, 65534, -1)
        self.refused("PermissionError: rank 0 refuses the directory .* belongs to user 65534")

    def test_two_processes_of_one_rank(self):
        rivals = [self.start(1), self.start(1)]
        end = time.monotonic() + 60
        while all(process.poll() is None for process in rivals) and time.monotonic() < end:
            time.sleep(0.01)
        loser, winner = sorted(rivals, key=lambda process: process.poll() is None)
        self.assertIn(f"RuntimeError: another process meets in {self.folder} as rank 1",
                      loser.communicate(timeout=120)[0])
        self.join(self.start(0), winner)


class Ranks(unittest.TestCase):
    def test_means(self):
        ranks.run(2, "rank_means", flags=["-X", "dev"]).all_well()

    def test_figures(self):
        advised = [said.count("no recipe was given, so each step sends the whole gradient, 0.0 MB")
                   for _, said in ranks.run(2, "rank_figures", SLUICE_ADVICE="yes").all_well()]
        self.assertEqual(advised, [1, 0])

    def test_pieces(self):
        ranks.run(2, "rank_pieces", flags=["-X", "dev"]).all_well()

    def test_groups(self):
        ranks.run(4, "rank_groups").all_well()

    def test_groups_and_a_killed_rank(self):
        results = ranks.run(8, "rank_groups_and_a_killed_rank", SLUICE_LOST_AFTER="3s")
        for rank, (status, said) in enumerate(results):
            self.assertEqual(status, -signal.SIGKILL if rank == KILLED else 0, f"rank {rank} printed: {said}")

    def test_other_threads_go_on_during_a_wait(self):
        ranks.run(2, "rank_waits_with_the_interpreter_free").all_well()

    def test_an_exception_is_told_to_the_others(self):
        (status, said), (status_raised, said_raised) = ranks.run(2, "rank_raises", fresh=True)
        self.assertEqual((status, status_raised), (1, 1))
        self.assertIn("RuntimeError: no more", said_raised)
        self.assertRegex(said, r"PeerError: .*rank 1 \(node n1\)")

    def test_difference_is_named(self):
        for status, said in ranks.run(2, "rank_differs", fresh=True):
            self.assertEqual(status, 1)
            self.assertRegex(said, "Error: .*rank")

    def test_store_that_fails(self):
        class Broken(sluice.Bootstrap):
            def put(self, key, value):
                raise OSError("no store here")

        with self.assertRaisesRegex(sluice.Error, "put") as caught:
            sluice.Job(bootstrap=Broken(0, 2))
        self.assertEqual(str(caught.exception.__cause__), "no store here")

    def test_alone_where_a_launcher_started_several(self):
        with unittest.mock.patch.dict(os.environ, WORLD_SIZE="2", RANK="1"):
            with self.assertRaisesRegex(sluice.InvalidError, "WORLD_SIZE=2, but this process is a job of one, because "
                                        "there is no PMIx and MASTER_ADDR, MASTER_PORT are not set"):
                sluice.Job()
        with unittest.mock.patch.dict(os.environ, OMPI_COMM_WORLD_SIZE="2"):
            with self.assertRaisesRegex(sluice.InvalidError, "OMPI_COMM_WORLD_SIZE=2, but this process is a job of one"):
                sluice.Job()
        with unittest.mock.patch.dict(os.environ, WORLD_SIZE="1"):
            sluice.Job().close()


if __name__ == "__main__":
    unittest.main()
