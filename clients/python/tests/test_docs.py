"""The pages and the notebook do what they say."""

import os
import re
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


class DocsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name)

    def test_the_howto_does_what_it_says(self):
        text = (ROOT / "docs/howto/python.md").read_text()
        blocks = re.findall(r"^```python(?: file=(\S+))?\n(.*?)^```$", text, re.M | re.S)
        self.assertGreater(len(blocks), 5)
        program = ""
        for name, code in blocks:
            if name:
                (self.dir / name).write_text(code)
            else:
                program += code
        subprocess.run([sys.executable, "-c", program], cwd=self.dir, check=True, timeout=120)

    def test_the_reference_is_that_of_the_docstrings(self):
        made = subprocess.run([sys.executable, ROOT / "clients/python/reference.py"], stdout=subprocess.PIPE, check=True, text=True)
        stale = "run clients/python/reference.py docs/reference/python.md"
        self.assertEqual(made.stdout, (ROOT / "docs/reference/python.md").read_text(), stale)

    def test_the_notebook_runs(self):
        import nbclient
        import nbformat

        notebook = nbformat.read(ROOT / "examples/notebook/orders.ipynb", as_version=4)
        started = time.monotonic()
        os.environ["IPYTHONDIR"] = str(self.dir / "ipython")
        nbclient.NotebookClient(notebook, timeout=200, resources={"metadata": {"path": str(self.dir)}}).execute()
        print(f"notebook: {time.monotonic() - started:.1f} s from its first cell to the last decision")
        texts = [output.get("text", "") or output.get("data", {}).get("text/plain", "") for c in notebook.cells for output in c.get("outputs", [])]
        self.assertRegex("\n".join(texts), r"0\.\d% of 900 later orders are wrong")
        self.assertRegex("\n".join(texts), r"(?s)'order': 'new'.*'same': True")


if __name__ == "__main__":
    unittest.main()
