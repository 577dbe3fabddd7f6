#!/usr/bin/env python3
"""The arithmetic of examples/baselines/baselines.py on small arrays: figures by hand, or by a slow version of each rule.

Needs numpy: scripts/setup-examples.sh puts it into .venv-examples, whose Python is started here. Without it, exits with 77.
"""
import collections
import importlib.util
import math
import os
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PYTHON = ROOT / ".venv-examples/bin/python"

try:
    import numpy as np
except ModuleNotFoundError:
    if not PYTHON.exists() or sys.prefix == str(PYTHON.parent.parent):
        print("baselines: skipped, there is no numpy; scripts/setup-examples.sh installs it")
        sys.exit(77)
    os.execv(PYTHON, [str(PYTHON), *sys.argv])

SPEC = importlib.util.spec_from_file_location("baselines", ROOT / "examples/baselines/baselines.py")
baselines = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(baselines)


def draw(seed=7):
    return np.random.default_rng(seed)


class Text(unittest.TestCase):
    def test_frequencies_and_the_token_before(self):
        train, held_out = np.array([[0, 1, 1]]), np.array([[0, 1, 0]])
        found = baselines.frequencies(train, held_out, 2)
        # Targets 1 and 1, each token counted once more: 1/4 and 3/4.
        self.assertAlmostEqual(found["by the tokens' frequencies"], -(math.log(3 / 4) + math.log(1 / 4)) / 2)
        # One different token followed each: (1 + 3/4) / 2 for 1 behind 0, (0 + 1/4) / 2 for 0 behind 1.
        self.assertAlmostEqual(found["by the token before"], -(math.log(7 / 8) + math.log(1 / 8)) / 2)

    def test_a_token_that_was_never_before_falls_back_to_the_frequencies(self):
        found = baselines.frequencies(np.array([[0, 1]]), np.array([[2, 1]]), 3)
        self.assertAlmostEqual(found["by the token before"], -math.log(2 / 4))

    def test_a_large_vocabulary_has_no_table_of_pairs(self):
        self.assertEqual(list(baselines.frequencies(np.array([[0, 1]]), np.array([[0, 1]]), 1025)), ["by the tokens' frequencies"])

    def test_discounts(self):
        counts = np.array([1, 1, 1, 1, 2, 2, 3, 4])  # n1 to n4: 4, 2, 1, 1; n1 / (n1 + 2 n2) = 1/2
        np.testing.assert_allclose(baselines.discounts(counts), [0, 1 - 2 / 4, 2 - 3 / 4, 3 - 4 / 2])
        np.testing.assert_allclose(baselines.discounts(np.array([1, 2, 3])), [0, 0.5, 1, 1.5])

    def slow_kneser_ney(self, train, held_out, vocabulary, order):
        grams = {n: collections.Counter(tuple(row[at:at + n]) for row in train.tolist() for at in range(len(row) - n + 1))
                 for n in range(1, order + 1)}
        counts = {order: grams[order]}
        for n in range(1, order):
            counts[n] = collections.Counter(gram[1:] for gram in grams[n + 1])
        discount = {n: baselines.discounts(np.array([counts[n][gram] for gram in grams[n]])) for n in counts}

        def probability(context, token):
            if context is None:
                return 1 / vocabulary
            n = len(context) + 1
            lower = probability(context[1:] if context else None, token)
            after = {gram: count for gram, count in counts[n].items() if gram[:-1] == context}
            if not sum(after.values()):
                return lower
            kept = sum(discount[n][min(count, 3)] for count in after.values())
            count = after.get((*context, token), 0)
            return (count - discount[n][min(count, 3)] + kept * lower) / sum(after.values())

        nats = [-math.log(probability(tuple(row[max(0, at - order + 1):at]), row[at]))
                for row in held_out.tolist() for at in range(1, len(row))]
        return sum(nats) / len(nats)

    def test_kneser_ney_equals_a_slow_version(self):
        for seed in range(4):
            some = draw(seed)
            train, held_out = some.integers(0, 4, (9, 7)), some.integers(0, 5, (4, 7))
            for order in (1, 2, 3, 5):
                self.assertAlmostEqual(baselines.kneser_ney(train, held_out, 5, order), self.slow_kneser_ney(train, held_out, 5, order), 10)

    def test_kneser_ney_of_short_windows_has_the_order_of_a_window(self):
        train, held_out = np.array([[0, 1], [1, 0]]), np.array([[0, 1]])
        self.assertEqual(baselines.kneser_ney(train, held_out, 2, 5), baselines.kneser_ney(train, held_out, 2, 2))


class Series(unittest.TestCase):
    def test_each_channel_is_normalized_alone(self):
        found = baselines.normalized_alone(np.array([[[1, 5], [3, 5]], [[10, 0], [10, 4]]], np.float32))
        np.testing.assert_allclose(found, [[[-1, 0], [1, 0]], [[0, -1], [0, 1]]])

    def test_warping_pairs_shifted_series(self):
        one = np.array([[0.0], [0], [1], [2]])
        others = np.array([[[0.0], [1], [2], [2]], [[0], [0], [1], [4]]])
        np.testing.assert_allclose(baselines.warping_distances(one, others), [0, 4])

    def test_warping_equals_a_slow_version(self):
        some = draw()
        one, others = some.normal(size=(5, 2)), some.normal(size=(6, 5, 2))
        for other, found in zip(others, baselines.warping_distances(one, others)):
            best = np.full((6, 6), np.inf)
            best[0, 0] = 0
            for i in range(5):
                for j in range(5):
                    best[i + 1, j + 1] = ((one[i] - other[j]) ** 2).sum() + min(best[i, j], best[i, j + 1], best[i + 1, j])
            self.assertAlmostEqual(found, best[5, 5])


class Voxels(unittest.TestCase):
    def test_correlation_is_the_mean_over_voxels(self):
        measured = np.array([[0.0, 1, 2], [1, 2, 2], [2, 3, 2]])
        predicted = np.array([[0.0, 3, 1], [2, 2, 2], [4, 1, 5]])
        self.assertAlmostEqual(baselines.correlation(predicted, measured), (1 - 1 + 0) / 3)

    def test_ridge_equals_the_normal_equations(self):
        some = draw()
        inputs, measured = some.normal(size=(12, 4)), some.normal(size=(12, 3))
        fitted, wanted, penalties = np.arange(8), np.arange(8, 12), [0.1, 10.0]
        x, y = inputs[fitted], measured[fitted]
        for penalty, found in zip(penalties, baselines.ridge(inputs @ inputs.T, measured, fitted, wanted, penalties)):
            weights = np.linalg.solve((x - x.mean(0)).T @ (x - x.mean(0)) + penalty * np.eye(4), (x - x.mean(0)).T @ (y - y.mean(0)))
            np.testing.assert_allclose(found, y.mean(0) + (inputs[wanted] - x.mean(0)) @ weights)

    def test_inputs_have_one_sum_of_variances(self):
        inputs = np.array([[0.0, 7, 0], [2, 7, 8], [100, 9, 100]])
        found = baselines.scaled(inputs, 2)
        np.testing.assert_allclose(found[:2], np.array([[-1, -4], [1, 4]]) / math.sqrt(17))
        self.assertEqual(found.shape, (3, 2))  # the second column does not vary in the fitted rows


class Masks(unittest.TestCase):
    def test_dice(self):
        np.testing.assert_allclose(baselines.dice(np.array([2, 0, 0]), np.array([4, 3, 0]), np.array([4, 1, 0])), [0.5, 0, 0])

    def test_the_mean_mask_is_cut_where_training_masks_agree_best(self):
        train = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0]], np.uint8)
        # Two pixels are in at least two of three masks: both of the first masks, one of the third.
        self.assertAlmostEqual(baselines.mean_mask(train, np.array([[1, 1, 0, 0]], np.uint8)), 1)
        self.assertAlmostEqual(baselines.mean_mask(train, np.array([[0, 1, 1, 1], [0, 0, 0, 1]], np.uint8)), 2 / 5)

    def test_the_lowest_cut_has_pixels_of_one_mask_in_twenty(self):
        masks = np.eye(20, dtype=np.uint8)
        self.assertAlmostEqual(baselines.mean_mask(masks, masks), 20 * 2 / 21)

    def test_brightness_takes_the_threshold_and_side_of_the_training(self):
        train = np.array([[-1.0, -1, 1, 1]], np.float32), np.array([[1, 1, 0, 0]], np.uint8)
        held_out = np.array([[1.0, -1, -1, 1], [1, 1, 1, -1]], np.float32), np.array([[0, 1, 1, 0], [1, 0, 0, 1]], np.uint8)
        self.assertAlmostEqual(baselines.brightness(train, held_out), 1 + 2 / 3)

    def test_samples_of_a_structure_are_one_group(self):
        found = {"train.tokens": np.array([[1, 2], [3, 4], [1, 2]]), "train.mask": np.arange(12).reshape(3, 2, 2)}
        groups = baselines.by_structure(found, "train", "mask")
        self.assertEqual([group.tolist() for group in groups.values()], [[[0, 1, 2, 3], [8, 9, 10, 11]], [[4, 5, 6, 7]]])

    def test_few_of_many_rows_are_spread_evenly(self):
        self.assertEqual(baselines.spread(np.arange(10), 4).tolist(), [0, 2, 5, 7])
        self.assertEqual(baselines.spread(np.arange(3), 4).tolist(), [0, 1, 2])


class Captions(unittest.TestCase):
    def test_cells_are_means_of_at_most_four_frames(self):
        frames = np.zeros((1, 8, 3, 16, 16))
        frames[0, :, 0] = np.arange(8)[:, None, None]
        frames[0, :, 1, :2, :2] = [[1, 2], [3, 4]]
        found = baselines.cells(frames).reshape(1, 4, 8, 8, 3)
        self.assertEqual(found[0, :, 5, 6, 0].tolist(), [0, 2, 4, 6])
        self.assertEqual(found[0, 0, 0, 0, 1], 3)  # 2.5 is rounded up
        self.assertEqual(found[0, 0, 0, 1, 1], 0)

    def test_captions_without_the_video(self):
        train = [(1, 2), (1, 2), (1, 3), (4,)]
        found = dict((metric, value) for metric, _, value in baselines.without_video(train, [(1, 2), (4,)]))
        self.assertAlmostEqual(found["captions_right"], 1 / 2)
        self.assertAlmostEqual(found["caption_tokens_right"], 2 / 3)  # the first token of (4,) is not the most frequent one
        self.assertAlmostEqual(found["caption_loss"], -(math.log(3 / 4) + math.log(2 / 3) + math.log(1 / 4)) / 3)
        self.assertNotIn("caption_loss", dict((metric, value) for metric, _, value in baselines.without_video(train, [(5,)])))


if __name__ == "__main__":
    unittest.main()
