#!/usr/bin/env python3
"""The completion scripts and the manual page name all that the help names, and the shells that are installed accept them.

    tests/scripts/completion_test.py build/plimsoll
"""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PLIMSOLL = ""
SHELLS = ("bash", "zsh", "fish")
# Loads the script and prints the replies for the words $2..., of which the last one is completed.
BASH = """
source "$1"
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
_plimsoll
((${#COMPREPLY[@]} == 0)) || printf '%s\\n' "${COMPREPLY[@]}"
"""


def said(*words):
    # The help is parsed, so no line of it may be folded.
    done = subprocess.run([PLIMSOLL, *words], env={**os.environ, "COLUMNS": "1000000"}, capture_output=True, text=True)
    if done.returncode != 0:
        raise AssertionError(f"plimsoll {' '.join(words)}: exit code {done.returncode}: {done.stderr}")
    return done.stdout


def options_in(help_text):
    """Returns the options that a help lists: -h, --help, --batch-size, --batch_size."""
    found = set()
    for line in re.findall(r"^  (-\S+)", help_text, re.M):
        found.update(name for name in line.split(",") if name)
    return found


class CompletionTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        cls.texts = {target: said("completion", target) for target in (*SHELLS, "man")}
        for target, text in cls.texts.items():
            (cls.folder / target).write_text(text, encoding="utf-8")
        main = said("--help")
        cls.commands = re.findall(r"^  ([a-z]+) ", main.split("Subcommands:")[1].split("\n\n")[0], re.M)
        cls.options = {"": options_in(main), **{name: options_in(said(name, "--help")) for name in cls.commands}}
        cls.work = cls.folder / "work"
        (cls.work / "runs").mkdir(parents=True)
        for name in ("job.yaml", "my job.yml", "notes.txt"):
            (cls.work / name).touch()

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def completed(self, *words):
        """Returns what bash offers for the last word of `plimsoll WORDS`; words are split at = as bash splits them."""
        pieces = []
        for word in ("plimsoll", *words):
            split = [piece for piece in re.split("(=)", word) if piece] or [""]
            pieces += split
        done = subprocess.run(["bash", "--norc", "-c", BASH, "bash", self.folder / "bash", *pieces], cwd=self.work,
                              capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout.splitlines()

    def test_help_was_read(self):
        self.assertTrue({"plan", "train", "monitor", "completion"} <= set(self.commands), self.commands)
        self.assertTrue({"-h", "--help", "--version"} <= self.options[""])
        self.assertTrue({"--gpu", "--batch-size", "--batch_size", "--recipe"} <= self.options["plan"])

    def test_bash_commands(self):
        self.assertEqual(self.completed("tr"), ["train", "trace"])
        self.assertEqual(self.completed(""), self.commands)

    def test_bash_options(self):
        for command in self.commands:
            self.assertEqual(set(self.completed(command, "-")), self.options[command], command)
        self.assertEqual(set(self.completed("-")), self.options[""])
        self.assertEqual(self.completed("plan", "job.yaml", "--front"), ["--frontier"])

    def test_bash_values(self):
        self.assertEqual(self.completed("plan", "job.yaml", "--recipe", ""), ["saving", "balanced", "speed"])
        self.assertEqual(self.completed("plan", "job.yaml", "--recipe=s"), ["saving", "speed"])
        self.assertEqual(self.completed("train", "--device", "c"), ["cpu", "cuda"])
        self.assertEqual(self.completed("plan", "job.yaml", "--gpu", "a600"), ["a6000"])
        self.assertEqual(self.completed("plan", "job.yaml", "--gpu", "l40s,a600"), ["l40s,a6000"])
        self.assertEqual(self.completed("gpus", "--vendor", "a"), ["amd", "apple"])
        self.assertIn("nvlink4", self.completed("plan", "--link", "nv"))
        self.assertEqual(self.completed("completion", ""), ["bash", "zsh", "fish", "man"])
        self.assertEqual(self.completed("plan", "job.yaml", "--memory", ""), [])

    def test_bash_files(self):
        self.assertEqual(set(self.completed("train", "")), {"job.yaml", "my job.yml", "runs"})
        self.assertEqual(self.completed("train", "--use-amp", "j"), ["job.yaml"])
        self.assertEqual(self.completed("plan", "job.yaml", "--html", "n"), ["notes.txt"])
        self.assertEqual(self.completed("place", "n"), ["notes.txt"])
        self.assertEqual(self.completed("plan", "job.yaml", "--dump-passes", ""), ["runs"])

    def test_bash_keys(self):
        self.assertEqual(self.completed("train", "job.yaml", "memory_"), ["memory_budget="])
        self.assertEqual(self.completed("train", "job.yaml", "optimizer.name=adamw_"), ["adamw_8bit", "adamw_4bit"])
        self.assertEqual(self.completed("train", "job.yaml", "precision=bf16-true", "precision="),
                         ["auto", "32-true", "16-mixed", "bf16-mixed", "bf16-true"])
        self.assertEqual(self.completed("train", "job.yaml", "data.images=n"), ["notes.txt"])
        self.assertEqual(self.completed("train", "job.yaml", "batch_size="), [])
        # The number behind --hot is no job file.
        self.assertEqual(self.completed("trace", "--hot", "5", "j"), ["job.yaml"])

    def test_all_words_in_every_script(self):
        keys = re.findall(r"^\| `((?:[a-z_]+\.)*[a-z_]+)` \|", (ROOT / "docs/job-file.md").read_text(encoding="utf-8"), re.M)
        self.assertGreater(len(keys), 150)
        for shell in SHELLS:
            text = self.texts[shell]
            for command in self.commands:
                self.assertRegex(text, rf"\b{command}\b", shell)
                for option in self.options[command]:
                    self.assertRegex(text, rf"\n{command or '-'}\|(?:\S+ )*{re.escape(option)}[ |]", f"{shell}: {command}")
            for key in keys:
                self.assertIn(key, text, shell)

    def test_man_page_names_everything(self):
        page = self.texts["man"].replace("\\-", "-")
        version = said("--version").splitlines()[0]
        self.assertIn(f'.TH PLIMSOLL 1 "" "{version}" "Plimsoll"', page)
        for command in self.commands:
            self.assertIn(f"\n.SS plimsoll {command}\n", page)
            own = page.split(f"\n.SS plimsoll {command}\n")[1].split("\n.S")[0] + page.split("\n.SH THE USUAL FLAGS\n")[1].split("\n.SH")[0]
            for option in self.options[command]:
                self.assertRegex(own, rf"\n\.B (?:\S+, )*{re.escape(option)}(?=[, \n])", command)
        for code in range(4):
            self.assertIn(f"\n.B {code}\n", page.split(".SH EXIT STATUS")[1])

    def test_man_page_names_the_variables(self):
        read = set()
        for path in (ROOT / "src").rglob("*.cpp"):
            text = path.read_text(encoding="utf-8")
            if "getenv" in text:
                read.update(re.findall(r'"(PLIMSOLL_[A-Z0-9_]+)"', text))
        # The program sets these for the processes that it starts.
        read -= {"PLIMSOLL_RANKS", "PLIMSOLL_RANK"}
        self.assertTrue(read)
        listed = self.texts["man"].split(".SH ENVIRONMENT")[1]
        for name in read:
            self.assertIn(name, listed)

    def test_man_page_is_valid(self):
        if shutil.which("groff") is None:
            self.skipTest("groff is not installed")
        done = subprocess.run(["groff", "-Kutf8", "-Tutf8", "-ww", "-man", self.folder / "man"], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertTrue("--gradient-checkpointing" in re.sub(".\x08", "", done.stdout), "an option is not in the printed page")

    def test_man_reads_the_page(self):
        if shutil.which("man") is None:
            self.skipTest("man is not installed")
        done = subprocess.run(["man", "--warnings", "-l", self.folder / "man"], capture_output=True, text=True)
        if "minimized" in done.stdout:
            self.skipTest("man is a stand-in that shows no pages")
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def accepts(self, shell, *arguments):
        if shutil.which(shell) is None:
            self.skipTest(f"{shell} is not installed")
        done = subprocess.run([shell, *arguments], cwd=self.work, capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return done.stdout

    def test_bash_accepts(self):
        self.accepts("bash", "-n", self.folder / "bash")

    def test_zsh_accepts(self):
        self.accepts("zsh", "-n", self.folder / "zsh")

    def test_fish_accepts(self):
        self.accepts("fish", "--no-execute", self.folder / "fish")

    def test_fish_completes(self):
        def offered(line):
            text = self.accepts("fish", "-c", f"source {self.folder / 'fish'}; complete -C '{line}'")
            return [entry.split("\t")[0] for entry in text.splitlines()]
        self.assertEqual(set(offered("plimsoll tr")), {"train", "trace"})
        self.assertTrue(self.options["plan"] - {"-h"} <= set(offered("plimsoll plan --")))
        self.assertEqual(set(offered("plimsoll plan --recipe s")), {"saving", "speed"})
        self.assertIn("job.yaml", offered("plimsoll train "))
        self.assertEqual(offered("plimsoll train job.yaml memory_"), ["memory_budget="])
        self.assertEqual(offered("plimsoll train job.yaml scheduler.name=c"), ["scheduler.name=constant", "scheduler.name=cosine"])
        self.assertIn("l40s,a6000", offered("plimsoll plan job.yaml --gpu l40s,a60"))


if __name__ == "__main__":
    PLIMSOLL = sys.argv.pop(1)
    unittest.main()
