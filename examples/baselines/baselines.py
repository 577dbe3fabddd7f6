#!/usr/bin/env python3
"""Prints what a job's metric is without its model: baselines on the samples that the job evaluates, from those that it trains on.

    scripts/setup-examples.sh                                                      numpy, into .venv-examples
    scripts/build.sh release write_samples
    .venv-examples/bin/python examples/baselines/baselines.py text examples/small-lm/tiny.yaml --trained 4800 --evaluated 4096
    .venv-examples/bin/python examples/baselines/baselines.py KIND JOB [KEY=VALUE...]

KIND is the job's data.type: text, series, stimuli, slices, pictures or clips. `build/write_samples` reads the data as a run
does, so that samples, parts and normalization are the run's. README.md defines each baseline.
"""
import argparse
import collections
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WRITER = ROOT / "build" / "write_samples"
TYPES = {"F32": np.float32, "I64": np.int64, "U8": np.uint8}


def samples(fields, options, *overrides, trained=0, evaluated=None):
    """The fields of both parts: {"train.FIELD": array, ..., "train": names, "held_out": names}."""
    counts = [str(trained), str(options.evaluated if evaluated is None else evaluated)]
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder) / "samples.safetensors"
        command = [str(options.writer), str(file), *counts, fields, options.job, *options.override, *overrides]
        if subprocess.run(command).returncode != 0:
            sys.exit(1)
        data = file.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])
    found = {part: names.splitlines() for part, names in header.pop("__metadata__").items() if not part.startswith("hash:")}
    for name, each in header.items():
        first, end = each["data_offsets"]
        found[name] = np.frombuffer(data[begin + first : begin + end], TYPES[each["dtype"]]).reshape(each["shape"])
    return found


# Texts: nats a token. n-grams are numbered: the root, the n-gram of no tokens, has number 0.


def pieces(part, found):
    """Windows with their last target, [windows, length + 1]."""
    return np.hstack([found[part + ".tokens"], found[part + ".targets"][:, -1:]])


def frequencies(train, held_out, vocabulary):
    """By each token's frequency, each counted once more; by the token before, falling back to it (Witten and Bell 1991, method C)."""
    count = np.bincount(train[:, 1:].ravel(), minlength=vocabulary)
    frequency = (count + 1) / (count.sum() + vocabulary)
    targets = held_out[:, 1:].ravel()
    found = {"by the tokens' frequencies": -np.log(frequency[targets]).mean()}
    if vocabulary <= 1024:
        pairs = np.bincount((train[:, :-1] * vocabulary + train[:, 1:]).ravel(), minlength=vocabulary**2).reshape(vocabulary, vocabulary)
        before = held_out[:, :-1].ravel()
        after, different = pairs.sum(1)[before], (pairs > 0).sum(1)[before]
        probability = (pairs[before, targets] + different * frequency[targets]) / np.maximum(1, after + different)
        found["by the token before"] = -np.log(np.where(after > 0, probability, frequency[targets])).mean()
    return found


def discounts(counts):
    """D1, D2 and D3 of modified Kneser-Ney smoothing (Chen and Goodman 1998); 0.5, 1 and 1.5 if a count of counts is 0."""
    n = [int((counts == times).sum()) for times in (1, 2, 3, 4)]
    if 0 in n:
        return np.array([0, 0.5, 1, 1.5])
    share = n[0] / (n[0] + 2 * n[1])
    found = [times - (times + 1) * share * n[times] / n[times - 1] for times in (1, 2, 3)]
    return np.array([0, *found]) if all(0 < d <= times for times, d in enumerate(found, 1)) else np.array([0, 0.5, 1, 1.5])


def kneser_ney(train, held_out, vocabulary, order=5):
    """Nats a token by interpolated modified Kneser-Ney smoothing; n-grams cross no border of two windows."""
    length = train.shape[1]
    order = min(order, length)
    grams, known = [np.zeros_like(train)], [np.zeros_like(held_out)]  # [n][window, begin]: number of the n-gram there; -1: not known
    keys, suffixes, counts = [np.zeros(1, np.int64)], [None], [None]
    for n in range(1, order + 1):
        begins = length - n + 1
        key = grams[-1][:, :begins] * vocabulary + train[:, n - 1 :]
        unique, first, number, times = np.unique(key.ravel(), return_index=True, return_inverse=True, return_counts=True)
        keys.append(unique)
        grams.append(number.reshape(key.shape))
        suffixes.append(grams[n - 1][first // begins, first % begins + 1] if n > 1 else None)
        counts.append(times)
        wanted = np.where(known[-1][:, :begins] < 0, -1, known[-1][:, :begins] * vocabulary + held_out[:, n - 1 :])
        at = np.minimum(np.searchsorted(unique, wanted), len(unique) - 1)
        known.append(np.where(unique[at] == wanted, at, -1))
    for n in range(1, order):  # n-grams below the highest order count the different tokens before them
        counts[n] = np.bincount(suffixes[n + 1], minlength=len(keys[n]))
    probability = np.full((held_out.shape[0], length), 1 / vocabulary)
    for n in range(1, order + 1):
        count, context = counts[n], keys[n] // vocabulary
        discount = discounts(count)
        total = np.bincount(context, count, minlength=len(keys[n - 1]))
        kept = np.bincount(context, discount[np.minimum(count, 3)], minlength=len(keys[n - 1]))
        begins = length - n + 1
        before, gram = known[n - 1][:, :begins], known[n]
        seen = (before >= 0) & (total[before] > 0)
        times = np.where(gram >= 0, count[gram], 0)
        own = times - discount[np.minimum(times, 3)]
        lower = probability[:, n - 1 :]
        probability[:, n - 1 :] = np.where(seen, (own + kept[before] * lower) / np.maximum(1, total[before]), lower)
    return -np.log(probability[:, 1:]).mean()


def text(options):
    found = samples("tokens,targets", options, trained=options.trained)
    vocabulary = options.vocabulary
    train, held_out = pieces("train", found), pieces("held_out", found)
    spread = samples("tokens,targets", options, trained=-max(1, 2**22 // (train.shape[1] - 1)))  # at most 4 Mi tokens
    values = frequencies(pieces("train", spread), held_out, vocabulary)
    values["5-gram, Kneser-Ney, equal tokens"] = kneser_ney(train, held_out, vocabulary)
    return [("evaluation_loss", name, value) for name, value in values.items()]


# Series: accuracies.


def normalized_alone(series):
    """Mean 0 and deviation 1 in each channel of each series; a channel that does not vary becomes 0."""
    series = series.astype(np.float64)
    mean, variance = series.mean(1, keepdims=True), series.var(1, keepdims=True)
    varies = variance > 1e-12 * mean**2
    return np.where(varies, (series - mean) / np.sqrt(np.where(varies, variance, 1)), 0)


def warping_distances(one, others):
    """Dependent dynamic time warping over the whole length: from `one` [length, channels] to `others` [series, length, channels].

    The least sum of squared distances between the vectors that a path pairs (DTW_D of Shokoohi-Yekta and others, 2017)."""
    count, length, _ = others.shape
    before = last = np.full((count, length + 1), np.inf)  # of two antidiagonals, by the vector of `one`, from 1
    for diagonal in range(2 * length - 1):
        i = np.arange(max(0, diagonal - length + 1), min(diagonal + 1, length))
        cost = ((one[i] - others[:, diagonal - i]) ** 2).sum(2)
        least = np.minimum(np.minimum(last[:, i], last[:, i + 1]), before[:, i]) if diagonal else 0
        before, last = last, np.full((count, length + 1), np.inf)
        last[:, i + 1] = cost + least
    return last[:, length]


def series(options):
    found = samples("vectors,labels", options, "data.train_ratio_of_vectors=1", "data.order=time")
    train, held_out = (found[part + ".vectors"][:, :, :-1].astype(np.float64) for part in ("train", "held_out"))
    labels, wanted = found["train.labels"], found["held_out.labels"]
    values = {"1-nearest neighbor": [((train - one) ** 2).sum((1, 2)).argmin() for one in held_out],
              "1-nearest neighbor, time warping": [warping_distances(one, train).argmin() for one in held_out]}
    train, held_out = normalized_alone(train), normalized_alone(held_out)
    values["1-nearest neighbor, time warping, each normalized"] = [warping_distances(one, train).argmin() for one in held_out]
    values["most frequent class"] = [np.flatnonzero(labels == np.bincount(labels).argmax())[0]] * len(wanted)
    return [("accuracy", name, (labels[nearest] == wanted).mean()) for name, nearest in values.items()]


# fMRI: correlations of predicted and measured voxels.


def correlation(predicted, measured):
    """The mean over the voxels; a voxel with constant values counts as 0."""
    x, y = predicted - predicted.mean(0), measured - measured.mean(0)
    xx, yy = (x**2).sum(0), (y**2).sum(0)
    varies = xx * yy > 1e-12 * (predicted**2).sum(0) * (measured**2).sum(0)
    return np.where(varies, (x * y).sum(0) / np.sqrt(np.where(varies, xx * yy, 1)), 0).mean()


def ridge(products, measured, fitted, wanted, penalties):
    """Predictions of ridge regressions with an intercept, one for each penalty, from the dot products of all rows."""
    mean = measured[fitted].mean(0)
    square = products[np.ix_(fitted, fitted)]
    average = square.mean(0)
    centered = square - average - average[:, None] + average.mean()
    across = products[np.ix_(wanted, fitted)]
    across = across - across.mean(1, keepdims=True) - average + average.mean()
    values, vectors = np.linalg.eigh(centered)
    values = np.maximum(values, 0)
    left, right = across @ vectors, vectors.T @ (measured[fitted] - mean)
    return [mean + (left / (values + penalty)) @ right for penalty in penalties]


def scaled(inputs, fitted):
    """Mean 0, and the same sum of variances of the columns for each input: many columns do not outweigh few."""
    inputs = inputs.reshape(len(inputs), -1).astype(np.float64)
    mean, variance = inputs[:fitted].mean(0), inputs[:fitted].var(0)
    varies = variance > 1e-12 * (mean**2 + variance)
    total = variance[varies].sum()
    return (inputs - mean)[:, varies] / math.sqrt(total if total > 0 else 1)


def stimuli(options):
    found = samples("words,frames,mel,voxels", options)
    fitted = len(found["train"])
    both = {name: np.concatenate([found["train." + name], found["held_out." + name]]) for name in ("words", "frames", "mel", "voxels")}
    voxels = both["voxels"].astype(np.float64)
    rows, measured = np.arange(len(voxels)), voxels[fitted:]
    labels = [words[-1].tobytes() for words in both["words"]]  # the last of a sample's words are the label's
    means = {label: voxels[[row for row in range(fitted) if labels[row] == label]].mean(0) for label in set(labels[:fitted])}
    values = {"training mean": 0.0,
              "mean of the label": correlation(np.array([means.get(label, 0 * voxels[0]) for label in labels[fitted:]]), measured)}
    products = sum(table @ table.T for table in (scaled(both[name], fitted) for name in ("words", "frames", "mel")))
    # The penalty that predicts best the training runs, or the fifths of a single run, that are left out in turn.
    runs = rows[:fitted] * 5 // fitted
    if options.texts:
        lines = options.texts.read_text().splitlines()
        runs = np.array([lines[int(name.split()[1])].split()[1] for name in found["train"]])  # "volume 12 of FILE"
    penalties = 10.0 ** (-2 + 0.5 * np.arange(13))
    sums = np.zeros(len(penalties))
    for run in np.unique(runs):
        left_out = np.flatnonzero(runs == run)
        for at, predicted in enumerate(ridge(products, voxels, np.flatnonzero(runs != run), left_out, penalties)):
            sums[at] += correlation(predicted, voxels[left_out])
    best = penalties[[sums.argmax()]]
    values["ridge regression"] = correlation(ridge(products, voxels, rows[:fitted], rows[fitted:], best)[0], measured)
    return [("correlation", name, value) for name, value in values.items()]


# Masks: Dice.


def dice(both, one, other):
    return np.where(one + other > 0, 2 * both / np.maximum(1, one + other), 0)


def mean_mask(train, held_out):
    """The sum of Dice of the mean training mask, cut at that of 0.05, 0.10, ..., 0.95 which is best on the training masks."""
    level = np.minimum(19, train.sum(0, dtype=np.int64) * 20 // len(train))
    cuts = level[None] >= np.arange(1, 20)[:, None]

    def dices(masks):
        return dice(masks.astype(np.float64) @ cuts.T, cuts.sum(1), masks.sum(1, dtype=np.int64)[:, None]).sum(0)

    return dices(held_out)[dices(train).argmax()]


def brightness(train, held_out):
    """The sum of Dice of all pixels brighter, or not brighter, than the threshold that is best on the training pictures."""
    thresholds = np.arange(33, dtype=np.float32) / 8 - 2

    def dices(pictures, masks):
        sums = np.zeros(66)
        for picture, mask in zip(pictures, masks):
            above = picture[None] >= thresholds[:, None]
            for begin, chosen in ((0, above), (33, ~above)):
                sums[begin : begin + 33] += dice((chosen & (mask > 0)).sum(1), chosen.sum(1), mask.sum())
        return sums

    return dices(*held_out)[dices(*train).argmax()]


def by_structure(found, part, field):
    """The samples of each structure, which the tokens of the prompt name."""
    groups = collections.defaultdict(list)
    for at, tokens in enumerate(found[part + ".tokens"]):
        groups[tokens.tobytes()].append(at)
    flat = found[f"{part}.{field}"]
    return {name: flat[rows].reshape(len(rows), -1) for name, rows in groups.items()}


def mean_masks(found, most=None):
    train, held_out = by_structure(found, "train", "mask"), by_structure(found, "held_out", "mask")
    total = sum(mean_mask(spread(train[name], most), masks) for name, masks in held_out.items() if name in train)
    return total / len(found["held_out.mask"])


def spread(rows, most):
    return rows if most is None or len(rows) <= most else rows[np.arange(most) * len(rows) // most]


def slices(options):
    found = samples("mask,tokens", options, "data.augment=0")
    # The masks of all slices, also of those that show fewer pixels of a structure than a sample has.
    every = samples("mask,tokens", options, "data.augment=0", "data.min_pixels=1", "data.validation_fraction=0", "data.test_fraction=0",
                    "data.evaluate_on=validation", evaluated=0)
    masks = {(name, tokens.tobytes()): mask for name, tokens, mask in zip(every["train"], every["train.tokens"], every["train.mask"])}
    places = [name.split(" ", 3) for name in found["train"]]  # "slice 12 of VOLUME"
    total = 0.0
    for name, tokens, mask in zip(found["held_out"], found["held_out.tokens"], found["held_out.mask"]):
        _, at, _, volume = name.split(" ", 3)
        distances = [(abs(int(place[1]) - int(at)), row) for row, place in enumerate(places) if place[3] == volume]
        nearest = masks.get((found["train"][min(distances)[1]], tokens.tobytes())) if distances else None
        if nearest is not None:
            total += float(dice((mask & nearest).sum(), mask.sum(), nearest.sum()))
    return [("dice", "the structure's mean mask", mean_masks(found)),
            ("dice", "the mask of the nearest slice trained on", total / len(found["held_out"]))]


def pictures(options):
    most = 256  # training samples of each structure
    found = samples("image,mask,tokens", options, "data.augment=0")
    for part in ("train", "held_out"):
        found[part + ".image"] = found[part + ".image"].mean(3)
    train, held_out = ([by_structure(found, part, field) for field in ("image", "mask")] for part in ("train", "held_out"))
    total = sum(brightness([spread(each[name], most) for each in train], [each[name] for each in held_out])
                for name in held_out[0] if name in train[0])
    return [("dice", "the structure's mean mask", mean_masks(found, most)),
            ("dice", "the best threshold of brightness", total / len(found["held_out.mask"]))]


# Clips: captions.


def cells(frames):
    """At most four frames of each clip, evenly spaced, averaged to 8 x 8 cells: [clips, frames, 192]."""
    taken = min(4, frames.shape[1])
    size = frames.shape[-1]
    frames = frames[:, np.arange(taken) * frames.shape[1] // taken]
    borders = [(at * size // 8, max(at * size // 8 + 1, (at + 1) * size // 8)) for at in range(8)]
    found = [[frames[..., top:bottom, left:right].mean((3, 4)) for left, right in borders] for top, bottom in borders]
    return np.floor(np.moveaxis(np.array(found), (0, 1), (2, 3)).reshape(len(frames), taken, -1) + 0.5)


def without_video(train, held_out):
    """The most frequent caption; for each token of a caption the token that most often followed the same beginning."""
    followed = collections.defaultdict(collections.Counter)
    for caption in train:
        for at, token in enumerate(caption):
            followed[caption[:at]][token] += 1
    usual = collections.Counter(train).most_common(1)[0][0]
    right, nats = [], []
    for caption in held_out:
        for at, token in enumerate(caption):
            counts = followed[caption[:at]]
            right.append(bool(counts) and min(counts, key=lambda each: (-counts[each], each)) == token)
            nats.append(-math.log(counts[token] / sum(counts.values())) if counts[token] else math.inf)
    values = [("captions_right", sum(caption == usual for caption in held_out) / len(held_out)),
              ("caption_tokens_right", sum(right) / len(right)), ("caption_loss", sum(nats) / len(nats))]
    return [(metric, "without the video", value) for metric, value in values if math.isfinite(value)]


def clips(options):
    found = samples("frames,targets", options, "model.vision.image_mean=[0,0,0]", "model.vision.image_std=[1,1,1]")
    train, held_out = ([tuple(int(token) for token in row if token >= 0) for row in found[part + ".targets"]]
                       for part in ("train", "held_out"))
    frames = {part: np.rint(found[part + ".frames"].astype(np.float64) * 255) for part in ("train", "held_out")}
    summaries = {part: cells(each) for part, each in frames.items()}
    colors = {part: each.mean((1, 3, 4)) for part, each in frames.items()}
    right = np.zeros(2)
    for at, caption in enumerate(held_out):
        own = summaries["held_out"][at]
        distances = np.array([((own[:, None] - known[None]) ** 2).sum(2).min() for known in summaries["train"]])
        right += [train[distances.argmin()] == caption, train[((colors["train"] - colors["held_out"][at]) ** 2).sum(1).argmin()] == caption]
    nearest = right / len(held_out)
    return without_video(train, held_out) + [("captions_right", "nearest frame", nearest[0]), ("captions_right", "mean color", nearest[1])]


def main():
    kinds = {each.__name__: each for each in (text, series, stimuli, slices, pictures, clips)}
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=kinds)
    parser.add_argument("job")
    parser.add_argument("override", nargs="*", metavar="KEY=VALUE")
    parser.add_argument("--trained", type=int, default=0, help="text: windows that the run has read; 0: all")
    parser.add_argument("--evaluated", type=int, default=0, help="samples of an evaluation; 0: all that are held out")
    parser.add_argument("--vocabulary", type=int, default=257, help="text: tokens of the vocabulary; 257: bytes")
    parser.add_argument("--texts", type=pathlib.Path, help="stimuli: the job's data.texts, which names the runs")
    parser.add_argument("--writer", type=pathlib.Path, default=WRITER)
    parser.add_argument("--json", action="store_true", help="as in the report of `plimsoll train --json`")
    options = parser.parse_intermixed_args()
    if not options.writer.exists():
        sys.exit(f"baselines: {options.writer} is missing; run scripts/build.sh release write_samples")
    found = kinds[options.kind](options)
    if options.json:
        print(json.dumps([{"metric": metric, "name": name, "value": float(value)} for metric, name, value in found]))
        return
    for metric, name, value in found:
        print(f"{metric:22} {name:52} {value:.4f}")


if __name__ == "__main__":
    main()
