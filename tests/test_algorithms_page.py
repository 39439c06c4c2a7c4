"""docs/algorithms.md is fresh, and the algorithm that it shows keeps the rules."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import workbench as wb

DOCS = Path(__file__).parents[1] / "docs"


def test_the_page_of_algorithms_is_fresh() -> None:
    made = runpy.run_path(str(DOCS / "algorithms.py"))["page"]()
    assert (DOCS / "algorithms.md").read_text(encoding="utf-8") == made, "make it anew: python docs/algorithms.py"


def test_the_algorithm_on_the_page_keeps_the_rules() -> None:
    text = (DOCS / "algorithms.md").read_text(encoding="utf-8")
    begin = "import torch|from workbench|from torch.nn|class TwoRates|def wide"
    cells = re.findall(rf"```python\n((?:{begin}).*?)```", text, re.S)
    names: dict[str, type] = {"wb": wb}  # type: ignore[dict-item]
    for cell in cells:
        exec(re.split("wb.(?:check_algorithm|launch)", cell)[0], names)
    assert len(cells) == 5
    wb.check_algorithm(names["Reinforce"])
    wb.check_algorithm(names["Reinforce"], "ALE/Pong-v5", beta=0.5)
    wb.check_algorithm(names["Reinforce"], network=names["wide"])
    wb.check_algorithm(names["Bonus"], bonus=0.5)
    wb.check_algorithm(names["DQN"])
    wb.check_algorithm(names["DQN"], "ALE/Pong-v5", discount=0.9)
    wb.check_algorithm(names["TwoRates"])
    wb.check_algorithm(names["TwoRates"], "ALE/Pong-v5", value_factor=0.0)
