"""The notebook runs from its first cell to its last, and shows what its text says."""

import ast
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient
from tests.waits import LONG_SECONDS

NOTEBOOK = Path(__file__).resolve().parents[3] / "examples" / "orders.ipynb"


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.nightly
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """From a broker to a plot: dead letters and the archive hold what was sent."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    notebook: Any = nbformat.read(NOTEBOOK, as_version=4)  # type: ignore[no-untyped-call]
    NotebookClient(notebook, timeout=LONG_SECONDS, kernel_name="python3").execute()
    outputs = [one for cell in notebook.cells for one in cell.get("outputs", ())]
    assert [one for one in outputs if one.output_type == "error"] == []
    assert sum("image/png" in one.get("data", {}) for one in outputs) == 1
    (groups,) = (one for one in outputs if "p99_bytes" in str(one.get("data", "")))
    counts: dict[str, dict[str, int]] = {"orders": {}, "%DLQ%kitchen": {}}
    for row in ast.literal_eval(groups.data["text/plain"]):
        counts[row["topic"]][row["tag"]] = row["messages"]
    assert sum(counts["orders"].values()) == 2_000
    assert counts["%DLQ%kitchen"] == {"stone": counts["orders"]["stone"]}
