# SPDX-License-Identifier: BSD-3-Clause
"""Runs the examples of sluice.torch.integrations with two ranks. A framework that is not installed is skipped."""
import gzip
import importlib.util
import os
import random
import re
import runpy
import socket
import sys
import tempfile
import unittest

import ranks

EXAMPLES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "examples")
FRAMEWORKS = [name for name in ("accelerate", "transformers", "lightning") if importlib.util.find_spec(name)]
STEPS, BATCH = 8, 8
os.environ["HF_HUB_OFFLINE"] = "1"
ranks.PACKAGES += ["torch", "accelerate", "transformers.trainer", "lightning"]


def write_rows(folder, count):
    """Writes files like those of Fashion-MNIST."""
    values = random.Random(1)
    for name, header, size in (("images-idx3", 16, 784), ("labels-idx1", 8, 1)):
        with gzip.open(os.path.join(folder, f"train-{name}-ubyte.gz"), "wb", 1) as file:
            file.write(bytes(header) + bytes(values.randrange(256 if size > 1 else 10) for _ in range(count * size)))


def run_example(path, *options):
    sys.argv = [path, *options]
    sys.path.insert(0, EXAMPLES)
    runpy.run_path(path, run_name="__main__")


class Integrations(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.TemporaryDirectory()
        cls.folder = cls.made.name
        write_rows(cls.folder, 2 * STEPS * BATCH)

    @classmethod
    def tearDownClass(cls):
        cls.made.cleanup()

    def train(self, example, recipe, *options, status=0, fresh=False):
        """Returns the last figures of rank 0, or what rank 1 printed if the job is to fail."""
        with socket.socket() as free:
            free.bind(("localhost", 0))
            port = free.getsockname()[1]
        files = [tempfile.NamedTemporaryFile("w+", encoding="utf-8") for _ in range(2)]
        texts = []
        for ended, text in ranks.ended([(ranks.start(
                {**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
                 "GROUP_RANK": "0", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port), "TORCHELASTIC_RUN_ID": "test",
                 "SLUICE_LOST_AFTER": "30s"}, said, run_example, os.path.join(EXAMPLES, example), "--data", self.folder,
                "--steps", str(STEPS), "--batch", str(BATCH), "--recipe", recipe, *options, fresh=fresh), said)
                for rank, said in enumerate(files)]):
            self.assertEqual(ended, status, text)
            texts.append(text)
        if status:
            return texts[1]
        found = re.search(r"final loss=(\S+) parameters=(\S+)", texts[0])
        self.assertIsNotNone(found, texts[0])
        return found.groups()

    def dense(self, framework, example):
        """Dense is Gloo. New interpreters import what the example names, and nothing more."""
        if framework not in FRAMEWORKS:
            self.skipTest(f"{framework} is not installed")
        self.assertEqual(self.train(example, "up=all down=all", fresh=True), self.train(example, "none"))

    def resumes(self, framework, example, name, part):
        """A resumed run ends like one that was not interrupted, and needs the file of each rank."""
        if framework not in FRAMEWORKS:
            self.skipTest(f"{framework} is not installed")
        sparse = "up=topk(0.05) down=topk(0.1)"
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = os.path.join(folder, "checkpoint" + name)
            whole = self.train(example, sparse, "--checkpoint", checkpoint)
            self.assertEqual(self.train(example, sparse, "--checkpoint", checkpoint), whole)
            lost = checkpoint + part
            os.unlink(lost)
            self.assertIn("rank 1 has no file", self.train(example, sparse, "--checkpoint", checkpoint, status=1))

    def test_accelerate(self):
        self.dense("accelerate", "with_accelerate.py")

    def test_accelerate_resumes(self):
        self.resumes("accelerate", "with_accelerate.py", "", "/sluice-rank1.pt")

    def test_trainer(self):
        self.dense("transformers", "with_trainer.py")

    def test_trainer_resumes(self):
        self.resumes("transformers", "with_trainer.py", "", f"/checkpoint-{STEPS // 2}/sluice-rank1.pt")

    def test_lightning(self):
        self.dense("lightning", "with_lightning.py")

    def test_lightning_resumes(self):
        self.resumes("lightning", "with_lightning.py", ".ckpt", ".sluice-rank1")


if __name__ == "__main__":
    unittest.main()
