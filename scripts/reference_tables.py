"""The tables of bytes that a system's authors drew up, each figure beside ours; scripts/claims.py makes and writes them.

"tables" of examples/SYSTEM/claims.json has them, one after the other:

    what      whose figures they are
    set       the settings that they are compared with, as in the rows of claims
    gpu       the device to plan for; that of the system's other claims where it is left out
    card      true: within the memory that this card gives a program; else as if memory had no end
    train     true: the same settings are trained on the CPU as well, at full size, and their bytes counted in the arena
    than      settings to compare with, for figures in % that say how much less it is
    figures   of, theirs, unit, and `note` where there is something to say. `of` is one of OF, or "module NAME"; `theirs` a number,
              two for a range, or a word, with which nothing can be compared

GB are 10^9 bytes and GiB 2^30: a figure is in its authors' unit, and ours in the same. "off" is in per cent of theirs, of a range from
its nearer end on; for figures that are per cent themselves in points.
"""
UNITS = {"GB": 1e9, "GiB": 2**30}
PARTS = ["parameters", "gradients", "optimizer_state", "activations", "inputs"]
OF = {"peak": "peak", "parameters": "parameters", "gradients": "gradients", "optimizer_state": "optimizer's state",
      "activations": "activations", "inputs": "inputs", "share": "share of the card", "headroom": "headroom",
      "short": "short of the budget", "over_budget": "over the budget", "missing": "share of what is needed that is missing",
      "less": "peak, less than there", "less_activations": "activations, less than there"}


def figure_of(report, name, than=None):
    """In bytes, or in per cent; None where such a report has no such figure. `report` is of plan --json."""
    if name.startswith("module "):
        return next((each["bytes"] for each in report.get("by_module", []) if each["module"] == name[7:]), None)
    if name in PARTS:
        return report["breakdown"][name]
    least, budget = report["minimum_budget_bytes"], report["budget_bytes"]
    if name == "less":
        return 100 * (1 - report["peak_bytes"] / than["peak_bytes"])
    if name == "less_activations":
        return 100 * (1 - report["breakdown"]["activations"] / than["breakdown"]["activations"])
    return {"peak": lambda: report["peak_bytes"], "share": lambda: 100 * report["device_share"],
            "headroom": lambda: report["headroom_bytes"], "short": lambda: least - budget,
            "over_budget": lambda: 100 * (least / budget - 1), "missing": lambda: 100 * (1 - budget / least)}[name]()


def off(theirs, ours, unit):
    """By how much ours differs, in per cent of theirs or in points; None where theirs is a word. 0 within a range."""
    if isinstance(theirs, str) or ours is None:
        return None
    low, high = theirs if isinstance(theirs, list) else (theirs, theirs)
    value = ours / UNITS.get(unit, 1)
    nearer = min(max(value, low), high)
    return value - nearer if unit == "%" else 100 * (value / nearer - 1)


def compared(table, report, measured=None, than=None):
    """What bench/results/claims.json keeps of a table: theirs and ours, figure by figure."""
    made = []
    for each in table["figures"]:
        ours = figure_of(report, each["of"], than)
        one = {"of": each["of"], "theirs": each["theirs"], "unit": each["unit"], "planned": ours,
               "off": off(each["theirs"], ours, each["unit"])}
        if measured and each["of"] in ["peak", *PARTS]:
            one["measured"] = measured["measured_peak_bytes"] if each["of"] == "peak" else measured["breakdown"]["measured"][each["of"]]
        made.append(one)
    return made


def number(value, unit):
    if unit == "%":
        return f"{value:.1f} %" if value < 10 and value != int(value) else f"{value:.0f} %"
    return f"{value:.3g} {unit}" if value < 100 else f"{value:.0f} {unit}"


def shown(value, unit):
    """Bytes or per cent; "–" where there is none."""
    return "–" if value is None else number(value / UNITS.get(unit, 1), unit)


def given(theirs, unit):
    if isinstance(theirs, str):
        return theirs
    return f"{theirs[0]:g}–{theirs[1]:g} {unit}" if isinstance(theirs, list) else f"{theirs:g} {unit}"


def difference(one):
    by = one["off"]
    if by is None:
        return ""
    if isinstance(one["theirs"], list) and by == 0:
        return "within"
    if one["unit"] != "%" and by >= 200:
        return f"**{by / 100 + 1:.3g} times**"
    unit = "points" if one["unit"] == "%" else "%"
    digits = 1 if unit == "points" and abs(by) < 10 else 0
    if not round(abs(by), digits):
        return f"±0 {unit}"
    return f"**{'+' if by > 0 else '−'}{abs(by):.{digits}f} {unit}**"


def of_words(name):
    return f"`{name[7:]}`" if name.startswith("module ") else OF[name]


def table_text(tables, results):
    lines = ["| | | theirs | planned | off | measured | |", "|---|---|---|---|---|---|---|"]
    for table in tables:
        what = table["what"]
        for wanted, one in zip(table["figures"], results[what]["figures"], strict=True):
            lines.append(f"| {what} | {of_words(one['of'])} | {given(one['theirs'], one['unit'])} | {shown(one['planned'], one['unit'])} "
                         f"| {difference(one)} | {shown(one['measured'], one['unit']) if 'measured' in one else ''} "
                         f"| {wanted.get('note', '')} |")
            what = ""
    return "\n".join(lines)
