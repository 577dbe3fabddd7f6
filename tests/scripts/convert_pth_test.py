#!/usr/bin/env python3
"""What scripts/convert-pth.py makes of PyTorch files that are made to do harm: a line and exit code 1, and no file."""
import json
import os
import pathlib
import pickle
import resource
import struct
import subprocess
import sys
import tempfile
import unittest
import zipfile

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts" / "convert-pth.py"
HARMFUL = ["os.system", "posix.system", "subprocess.call", "builtins.eval", "builtins.exec", "builtins.__import__"]


class Global:
    """A name that a pickle calls, with what it is called with: written by hand, as nothing here has it."""

    def __init__(self, name, arguments):
        self.name, self.arguments = name, arguments


class Storage:
    def __init__(self, kind, key, count):
        self.kind, self.key, self.count = kind, key, count


def pickled(value):
    """As torch.save pickles it (protocol 2), with whatever is to be called."""
    if isinstance(value, Global):
        module, name = value.name.rsplit(".", 1)
        return b"c" + f"{module}\n{name}\n".encode() + pickled(tuple(value.arguments)) + b"R"
    if isinstance(value, Storage):
        kind = b"ctorch\n" + value.kind.encode() + b"\n"
        return b"(" + pickled("storage") + kind + pickled(value.key) + pickled("cpu") + pickled(value.count) + b"tQ"
    if isinstance(value, dict):
        return b"}" + b"".join(pickled(key) + pickled(item) + b"s" for key, item in value.items())
    if isinstance(value, tuple):
        return b"(" + b"".join(map(pickled, value)) + b"t"
    return pickle.dumps(value, 2)[2:-1]  # without protocol and end


def tensor(sizes, strides, offset=0, storage=Storage("FloatStorage", "0", 6)):
    return Global("torch._utils._rebuild_tensor_v2", (storage, offset, sizes, strides, False, {}))


class ConvertPth(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.out = self.folder / "out.safetensors"

    def convert(self, value, numbers=range(6), compression=zipfile.ZIP_STORED, data=None):
        with zipfile.ZipFile(self.folder / "in.pth", "w", compression) as archive:
            archive.writestr("archive/data.pkl", data or b"\x80\x02" + pickled(value) + b".")
            archive.writestr("archive/data/0", struct.pack(f"<{len(numbers)}f", *numbers))
        limit = 2 << 30
        return subprocess.run([sys.executable, str(SCRIPT), "in.pth", "out.safetensors"], cwd=self.folder, text=True,
                              capture_output=True, timeout=60,
                              preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))

    def refused(self, *arguments, **more):
        done = self.convert(*arguments, **more)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertTrue(done.stderr.startswith("convert-pth: "), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertEqual(sorted(each.name for each in self.folder.iterdir()), ["in.pth"])

    def test_what_is_sound_is_converted(self):
        done = self.convert({"a": tensor((2, 3), (3, 1)), "b": tensor((3, 2), (1, 3))})
        self.assertEqual(done.returncode, 0, done.stderr)
        written = self.out.read_bytes()
        size = struct.unpack("<Q", written[:8])[0]
        header, numbers = json.loads(written[8 : 8 + size]), written[8 + size :]
        self.assertEqual(header["b"], {"dtype": "F32", "shape": [3, 2], "data_offsets": [24, 48]})
        self.assertEqual(struct.unpack("<12f", numbers), (0, 1, 2, 3, 4, 5, 0, 3, 1, 4, 2, 5))

    def test_nothing_that_a_pickle_names_is_called(self):
        mark = self.folder / "called"
        for name in HARMFUL:
            with self.subTest(name):
                words = f"open({str(mark)!r}, 'w')" if name.startswith("builtins") else f"touch {mark}"
                self.refused({"a": Global(name, (words,))})
                # Beside what is sound it is left out.
                done = self.convert({"a": Global(name, (words,)), "b": tensor((6,), (1,))})
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertFalse(mark.exists())
                self.out.unlink()

    def test_views_that_are_more_than_their_numbers(self):
        for sizes, strides, offset in [((1 << 40,), (0,), 0), ((7,), (1,), 0), ((2, 3), (4, 1), 0), ((6,), (1,), 1),
                                       ((6,), (1,), -1), ((2,), (-1,), 1), ((2.0, 3), (3, 1), 0), ((6,), (1, 1), 0),
                                       ((1 << 20, 1 << 20), (0, 0), 0), ((-1, -6), (1, 1), 0)]:
            with self.subTest(f"{sizes} {strides} {offset}"):
                self.refused({"a": tensor(sizes, strides, offset)})

    def test_storages_that_are_not_as_told(self):
        for storage in [Storage("FloatStorage", "1", 6), Storage("FloatStorage", "0", 1 << 40),
                        Storage("FloatStorage", "0", 7), Storage("FloatStorage", "../data.pkl", 6),
                        Storage("Float8Storage", "0", 6)]:
            with self.subTest(storage.kind + storage.key + str(storage.count)):
                self.refused({"a": tensor((6,), (1,), storage=storage)})

    def test_one_storage_under_many_names(self):
        self.refused({f"a{i}": tensor((1000,), (1,), storage=Storage("FloatStorage", "0", 1000)) for i in range(2000)},
                     numbers=range(1000))

    def test_what_is_compressed(self):
        self.refused({"a": tensor((1 << 20,), (1,), storage=Storage("FloatStorage", "0", 1 << 20))},
                     numbers=[0.0] * (1 << 20), compression=zipfile.ZIP_DEFLATED)

    def test_what_is_no_dictionary_of_tensors(self):
        self.refused([1, 2])
        self.refused({"a": 1})
        self.refused({1: tensor((6,), (1,))})
        self.refused(None, data=b"\x80\x02}q\x00X\xff\xff\xff\x7f")
        self.refused(None, data=b"")
        (self.folder / "in.pth").write_bytes(b"PK\x03\x04" + os.urandom(100))
        done = subprocess.run([sys.executable, str(SCRIPT), "in.pth", "out"], cwd=self.folder, text=True,
                              capture_output=True)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)


if __name__ == "__main__":
    unittest.main()
