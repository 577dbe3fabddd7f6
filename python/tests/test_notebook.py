"""The notebook of examples/python runs from top to bottom, and shows the page of a plan."""
import pathlib
import unittest

import nbformat
from nbconvert.preprocessors import ExecutePreprocessor

NOTEBOOK = pathlib.Path(__file__).resolve().parents[2] / "examples" / "python" / "memory-budget.ipynb"


class NotebookTest(unittest.TestCase):
    def test_it_runs_and_shows_the_page(self):
        notebook = nbformat.read(NOTEBOOK, as_version=4)
        self.assertTrue(all(not cell.get("outputs") for cell in notebook.cells), "outputs are cleared in the repository")
        ExecutePreprocessor(timeout=600, kernel_name="python3").preprocess(notebook, {"metadata": {"path": str(NOTEBOOK.parent)}})
        outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
        self.assertEqual([each for each in outputs if each.output_type == "error"], [])
        pages = [each["data"]["text/html"] for each in outputs if "text/html" in each.get("data", {})]
        self.assertTrue(any("<iframe" in page and "id=&quot;timeline&quot;" in page for page in pages), len(pages))
        text = "".join(each.text for each in outputs if each.output_type == "stream" and each.name == "stdout")
        self.assertIn("MiB; without a budget", text)


if __name__ == "__main__":
    unittest.main()
