"""The tests that compare what they trained with a threshold (tests/thresholds.h), found in their sources."""

import re
from pathlib import Path

CALL = re.compile(r"\bexpect_(?:above|below)\(")
TEST = re.compile(r"^TEST(?:_F|_P)?\((\w+),\s*(\w+)\)", re.M)


def threshold_tests(root=Path(__file__).resolve().parent.parent):
    """By test program: gtest filters, one for each test that calls expect_above() or expect_below()."""
    filters = {}
    for source in sorted((root / "tests").glob("*/**/*_test.cpp")):
        text = source.read_text()
        tests = list(TEST.finditer(text))
        for test, following in zip(tests, [*tests[1:], None]):
            if CALL.search(text, test.start(), following.start() if following else len(text)):
                program = source.relative_to(root / "tests").parts[0] + "_tests"
                filters.setdefault(program, []).append(f"*{test[1]}.{test[2]}*")
    return filters
