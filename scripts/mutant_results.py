"""The results of mutants (scripts/mutate.py): one JSON object a line, and their tables."""

import json

from mutants import FOLDERS, key_of, killed_by_own

OUTCOMES = ("killed", "survived", "equivalent", "not reached", "not compiling")


def read_results(file):
    """The last line of a mutant counts. `at_first` is its outcome when it ran the first time."""
    results = {}
    if file.exists():
        for line in file.read_text().splitlines():
            result = json.loads(line)
            earlier = results.get(key_of(result), result)
            results[key_of(result)] = result | {"at_first": earlier.get("at_first", result["outcome"])}
    return results


def runs_of(results):
    """By seed, in the order of the results: the mutants of the run. Early runs noted no seed."""
    runs = {}
    for result in results:
        if result["outcome"] in OUTCOMES:
            runs.setdefault(result.get("seed"), []).append(result)
    return runs


def rows_of(results):
    """By folder, and last of all: the numbers of the table as (heading, number)."""
    rows = []
    for folder in [*FOLDERS, "all"]:
        mine = [r for r in results if folder in ("all", r["folder"])]
        if not mine:
            continue
        count = lambda outcome: sum(r["outcome"] == outcome for r in mine)
        own = sum(r["outcome"] == "killed" and killed_by_own(r) for r in mine)
        killed, survived = count("killed"), count("survived")
        share = f"{100 * killed / (killed + survived):.0f}" if killed + survived else "-"
        rows.append({"folder": folder, "drawn": len(mine), "compiling": len(mine) - count("not compiling"),
                     "equivalent": count("equivalent"), "not reached": count("not reached"), "killed by own tests": own,
                     "killed above": killed - own, "survived": survived, "killed %": share})
    return rows


def state_of(result):
    """What is known of a mutant that survived at first, in words."""
    state = f"killed since by `{result['test']}` of {result['program']}" if result["outcome"] == "killed" else "survives"
    return state + (f": {result['why']}" if "why" in result else "")


def text_table(results):
    lines = []
    for seed, run in runs_of(results).items():
        rows = rows_of(run)
        lines.append(f"\n{'no seed noted' if seed is None else f'seed {seed}'}")
        lines.append("  ".join(["folder".ljust(12), *list(rows[0])[1:]]))
        lines += ["  ".join([row["folder"].ljust(12), *[str(row[h]).rjust(len(h)) for h in list(row)[1:]]]) for row in rows]
    for outcome in ("survived", "not reached", "equivalent"):
        for result in results:
            if result["outcome"] == outcome:
                lines.append(f"\n{outcome}: {result['file']}:{result['line']} ({result['operator']})\n  - {result['before']}\n"
                             f"  + {result['after']}" + (f"\n  {result['why']}" if "why" in result else ""))
    return "\n".join(lines)


def cell(text):
    return text.replace("|", "\\|")


def code(text):
    """Code in a cell of a table: Markdown ends a cell at a bar, also in code."""
    return f"`{cell(text)}`"


def markdown(results):
    """The page of the results: a table for each run, each mutant that survived its run, and the mutants that no test can kill."""
    lines = ["# Mutants", "", "`scripts/mutate.py --table --markdown FILE` makes this page. A mutant is a small bug that the script puts "
             "into one line of the", "sources. \"Own tests\" are those of the folder of the source; tests of the folders above run if all "
             "of them pass.", "\"Equivalent\" mutants change no behavior. \"Not reached\" are those in code that the processor did not run. "
             "The share \"killed %\" is of", "the killed and the surviving mutants.", ""]
    for seed, run in runs_of(results).items():
        rows = rows_of(run)
        commits = sorted({r["commit"] for r in run if "commit" in r})
        lines += [f"## {'Early runs' if seed is None else f'Seed {seed}'}", ""]
        if commits:
            lines += [f"Commit {', '.join(commits)}.", ""]
        lines += ["| " + " | ".join(rows[0]) + " |", "|---" + "|---:" * (len(rows[0]) - 1) + "|"]
        lines += ["| " + " | ".join(map(str, row.values())) + " |" for row in rows] + [""]
    survivors = [r for r in results if r["outcome"] in ("survived", "killed") and r["at_first"] == "survived"]
    lines += ["## Survivors", "", "Mutants that no test noticed when they ran the first time, and their state.", ""]
    if survivors:
        lines += ["| place | line | mutant | state |", "|---|---|---|---|"]
        lines += [f"| {r['file']}:{r['line']} | {code(r['before'])} | {code(r['after'])} | {cell(state_of(r))} |" for r in survivors]
    else:
        lines += ["None."]
    for outcome, heading in (("equivalent", "Equivalent mutants"), ("not reached", "Mutants in code that the processor did not run")):
        marked = [r for r in results if r["outcome"] == outcome]
        if marked:
            lines += ["", f"## {heading}", "", "| place | line | mutant | reason |", "|---|---|---|---|"]
            lines += [f"| {r['file']}:{r['line']} | {code(r['before'])} | {code(r['after'])} | {cell(r['why'])} |" for r in marked]
    return "\n".join(lines) + "\n"
