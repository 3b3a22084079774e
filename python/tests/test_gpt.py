# SPDX-License-Identifier: BSD-3-Clause
"""Tests that real ranks train the small GPT of python/bench to the same bits as simulated ranks. torch.sh runs it."""
import os
import sys
import unittest

import torch

import ranks

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
import simulated_table  # noqa: E402
import simulated_gpt  # noqa: E402

ROWS, STEPS = ("A", "shard", "keep1"), 3


def training(folder, row):
    torch.set_num_threads(1)
    path = os.path.join(folder, "text")
    if not os.path.exists(path):
        with open(path + f".{os.getpid()}", "wb") as file:
            letters = torch.randint(97, 123, (4000,), generator=torch.Generator().manual_seed(1))
            file.write(bytes(letters.tolist()))
        os.rename(file.name, path)
    _, recipe, options = simulated_table.ROWS[row]
    return simulated_gpt.Training(simulated_gpt.options_of([path, recipe, *options, "--steps", str(STEPS),
                                                             "--points", "1"]))


def rank_gpt(job, folder):
    for row in ROWS:
        print(row, training(folder, row).join(job), flush=True)
    job.close()


def rank_simulates(job, folder):
    for row in ROWS:
        print(row, training(folder, row).run()["digest"], flush=True)
    job.close()


class Gpt(unittest.TestCase):
    def test_real_ranks_have_the_digests_of_simulated_ones(self):
        (_, expected), = ranks.run(1, "rank_simulates").all_well()
        digests = [line.split() for line in expected.splitlines() if line.split(" ")[0] in ROWS]
        self.assertEqual([row for row, _ in digests], list(ROWS))
        self.assertEqual(len({digest for _, digest in digests}), len(ROWS))
        for _, said in ranks.run(simulated_gpt.WORKERS, "rank_gpt").all_well():
            self.assertEqual([line.split() for line in said.splitlines() if line.split(" ")[0] in ROWS], digests)


if __name__ == "__main__":
    unittest.main()
