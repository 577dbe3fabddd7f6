"""Sources that hold many mutants of scripts/mutants.py at once. The variable PLIMSOLL_MUTANT chooses one when a program runs,
so that one build serves all of them (mutant schemata: Untch, Offutt and Harrold, ISSTA 1993).

A mutant becomes a choice between the changed and the original expression or statement:

    x = a < b;      ->    x = (plimsoll_mutant(7) ? (a <= b) : (a < b));
    f(x);           ->    { if (!plimsoll_mutant(8)) f(x); }

Lines keep their numbers. A mutant that cannot be written as such a choice (a constexpr value, a template argument) is left out.
"""

import re
from pathlib import Path

from mutants import OPERATORS, blanked, line_of

HEADER = """#pragma once
#include <cstdlib>
inline bool plimsoll_mutant(int number) {
  static const int chosen = [] {
    const char* text = std::getenv("PLIMSOLL_MUTANT");
    return text ? std::atoi(text) : 0;
  }();
  return chosen == number;
}
"""
ASSIGNMENT = re.compile(r"(?<![=!<>])=(?!=)")
DECLARATION = re.compile(r"(?:const )?[A-Za-z][\w:<>, ]*?[&*]* [&*]?(\w+) = ")
# An expression begins behind such a word.
WORD = re.compile(r"\b(return|throw|case|else|co_return)\b")


def change_of(mutant, line):
    """(begin, end, new text) of the change in the line; None if the operator does not find it."""
    column = int(re.search(r":(\d+) ", mutant["id"])[1]) - 1
    for name, pattern, replacement in OPERATORS:
        for match in re.finditer(pattern, blanked(line)) if name == mutant["operator"] else ():
            begin, end = match.span("at")
            new = replacement(match["at"]) if callable(replacement) else replacement
            if begin == column and (line[:begin] + new + line[end:]).strip() == mutant["after"]:
                return begin, end, new
    return None


def is_stop(seen, i, logic, assignments):
    """Whether the character at i of a text without strings and comments ends an expression."""
    c = seen[i]
    if c in ";,?":
        return True
    if c == ":":
        return seen[i - 1] != ":" and seen[i + 1] != ":"
    if c == "=" and assignments:
        return ASSIGNMENT.match(seen, i) is not None
    return logic and c in "&|" and (seen[i + 1] == c or seen[i - 1] == c)


def expression_around(seen, begin, end, logic, assignments=True):
    """[left, right) of the expression that contains [begin, end). `logic`: && and || end it."""
    left, depth = begin, 0
    while left > 0:
        c = seen[left - 1]
        if depth == 0 and (c in "([{" or is_stop(seen, left - 1, logic, assignments)):
            break
        if depth == 0 and c == "}" and not seen[left:seen.find("\n", left)].strip():  # the end of a block
            break
        depth += (c in ")]}") - (c in "([{")
        left -= 1
    right, depth = end, 0
    while right < len(seen) and not (depth == 0 and (seen[right] in ")]}" or is_stop(seen, right, logic, assignments))):
        depth += (seen[right] in "([{") - (seen[right] in ")]}")
        right += 1
    flat, depth = list(seen[left:begin]), 0
    for i, c in enumerate(flat):  # words in brackets are not the expression's
        depth += (c in "([{") - (c in ")]}")
        flat[i] = c if depth == 0 else " "
    words = list(WORD.finditer("".join(flat)))
    left += words[-1].end() if words else 0
    left += len(seen[left:]) - len(seen[left:].lstrip())
    right -= len(seen[:right]) - len(seen[:right].rstrip())
    return left, right


def on_one_line(text):
    return " ".join(re.sub(r"//.*", "", line) if '"' not in line else line for line in text.split("\n"))


def choice_of(mutant, number, text, seen, at):
    """(begin, end, new text) in the source of the choice between the mutant and the original; None if there is none."""
    line_end = text.find("\n", at)
    change = change_of(mutant, text[at:line_end])
    statement = seen[max(seen.rfind(c, 0, at) for c in ";{}") + 1:line_end]
    if change is None or "constexpr" in statement or "consteval" in statement:
        return None
    begin, end, new = at + change[0], at + change[1], change[2]
    chosen, operator = f"plimsoll_mutant({number})", mutant["operator"]
    if operator == "statement":
        return begin, end, f"{{ if (!{chosen}) {text[begin:end]} }}"
    if operator == "jump":
        end = text.index(";", begin) + 1
        return begin, end, f"{{ if ({chosen}) {new}; {text[begin:end]} }}"
    if operator == "condition":
        value = DECLARATION.match(text[begin:end])
        first = f"{text[begin:end]}; " if value else ""
        return begin, end, f"{first}{chosen} ? false : static_cast<bool>({value[1] if value else text[begin:end]})"
    left, right = expression_around(seen, begin, end, operator not in ("logic", "sum", "sign"), operator != "sum")
    if operator == "negation":
        left = begin
    if not left <= begin < end <= right:
        return None
    to_bool = "static_cast<bool>" if operator == "negation" else ""
    changed = on_one_line(text[left:begin] + new + text[end:right])
    return left, right, f"({chosen} ? {to_bool}({changed}) : {to_bool}({text[left:right]}))"


def with_choices(text, mutants, header):
    """The source with a choice for each of its mutants {number: mutant}, and the lines [first, last] of each that it has."""
    lines = text.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    seen = "\n".join(" " * len(line) if line.lstrip().startswith("#") else blanked(line) for line in lines)
    seen = re.sub(r"/\*.*?\*/", lambda match: re.sub(r"[^\n]", " ", match[0]), seen, flags=re.S)
    choices = []
    for number, mutant in mutants.items():
        i = line_of(mutant, lines)
        choice = None if i is None else choice_of(mutant, number, text, seen, starts[i])
        if choice and not any(choice[0] < end and begin < choice[1] for begin, end, _, _ in choices):
            choices.append((*choice, number))
    spans = {}
    for begin, end, new, number in sorted(choices, reverse=True):
        spans[number] = (text.count("\n", 0, begin) + 1, text.count("\n", 0, end) + 1)
        text = text[:begin] + new + text[end:]
    return (f'#include "{header}"\n#line 1\n{text}' if spans else text), spans


class ChosenMutants:
    """Writes the mutants into their sources as choices, and takes out those that do not compile."""

    def __init__(self, root, mutants, header):
        self.root, self.header = root, Path(header)
        self.mutants = dict(enumerate(mutants, 1))
        self.originals = {m["file"]: (root / m["file"]).read_text() for m in mutants}
        self.left_out, self.spans = set(), {}

    def text_of(self, file, changed=None):
        """The source with its choices; `changed`: with this text, of as many lines, instead of the original."""
        own = {n: m for n, m in self.mutants.items() if m["file"] == file and n not in self.left_out}
        return with_choices(changed or self.originals[file], own, self.header)

    def write(self, files=None):
        self.header.write_text(HEADER)
        for file in files or self.originals:
            text, spans = self.text_of(file)
            for number in [n for n, m in self.mutants.items() if m["file"] == file and n not in spans]:
                self.left_out.add(number)
                self.spans.pop(number, None)
            self.spans.update(spans)
            if (self.root / file).read_text() != text:
                (self.root / file).write_text(text)

    def restore(self):
        for file, text in self.originals.items():
            if (self.root / file).read_text() != text:
                (self.root / file).write_text(text)

    def take_out(self, errors):
        """Takes out the mutants at the places of the compiler's errors; returns how many."""
        found, files = set(), set()
        for file, line in re.findall(r"(src/[\w/.]+):(\d+):\d+: (?:fatal )?error", errors):
            files.add(file)
            found.update(n for n, (first, last) in self.spans.items()
                         if self.mutants[n]["file"] == file and first <= int(line) <= last)
        touched = {self.mutants[n]["file"] for n in found}
        for file in files - touched:  # an error at another line, for example where a value is used as a constant
            found.update(n for n in self.spans if self.mutants[n]["file"] == file)
        self.left_out |= found
        self.write({self.mutants[n]["file"] for n in found})
        return len(found)

    def number_of(self, mutant):
        """The number that chooses it; None if it is not among the choices."""
        return next((n for n in self.spans if self.mutants[n] is mutant), None)
