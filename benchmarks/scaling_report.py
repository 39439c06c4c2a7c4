"""Tables, plots and memory fits of benchmarks/scaling.py. All words but the headings come from the measured lines.

No command line: scaling.py has it.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
from arguments import RESULTS

FILE = RESULTS / "scaling.md"
SHARES = {"time_environments": "environments", "time_wire": "wire", "time_batch_wait": "batch wait",
          "time_inference": "inference", "time_queue_blocked": "queue blocked", "time_training": "training",
          "time_training_wait": "training wait"}
MEMORY = [f"{part}_{kind}_mb" for part in ("learner", "actor", "supervisor") for kind in ("rss", "own")]
WAITS = ("batch_fill", "batch_wait_ms", "inference_ms", "update_ms")
TITLES = {"actors": "Actors", "environments": "Environments", "unroll": "Unroll length", "batch": "Batch size",
          "learners": "Learners", "memory": "Memory"}
GROWS = {"actors": "actors", "environments": "environments", "unroll": "unroll, steps", "batch": "batch, unrolls",
         "learners": "learners"}
WORDS = "Why it bends, in words"
NO_WORDS = "(Not written yet. This section is kept when the file is written anew.)"
COLUMNS = """\
steps/s and frames/s: trained, after warm-up, over whole cycles of unrolls. Start: from launch to the first update. CPU:
seconds per 1,000 trained steps, of all actors and of the learner; cores: what the whole run kept busy. Round trip: from
sending a group's step until its actions are there, as it follows from steps/s and the time that stepping takes. Policy
lag: in updates, mean. Memory: the most RSS seen, of the learner (several: together) and of one actor.

Shares, each of its own time, so that they do not sum to 1: of an actor's, *environments* (stepping); of a group's,
*wire* (its messages on the way, or waiting until the actor has stepped another group) and *batch wait*; of the
inference thread's, *inference* and *queue blocked* (by slow training); of the training thread's, *training* and
*training wait* (for unrolls). A thread that waits for a core counts as working.
"""
HEADER = ("steps/s", "frames/s", "range of steps/s", "start, s", "CPU, actors", "CPU, learner", "cores", "batch fill",
          "batch wait, ms", "round trip, ms", "policy lag", "learner, MB", "actor, MB", *SHARES.values())


# --- tables -----------------------------------------------------------------------------------------------------------


def medians(lines: pd.DataFrame) -> pd.DataFrame:
    """A row per series and value, in the order of the lines: medians of the rounds that succeeded, and their number."""
    good = lines[lines["error"] == ""]
    keys = lines[["series", "value"]].drop_duplicates()
    grouped = good.groupby(["series", "value"])
    found = grouped.median(numeric_only=True).join(grouped["round"].count().rename("rounds"))
    if len(good):
        speed = grouped["steps_per_second"]
        found = found.join(speed.min().rename("low")).join(speed.max().rename("high"))
    return keys.merge(found.reset_index(), on=["series", "value"], how="left")


def cells(row: Any) -> list[str]:
    """What a row shows after its value."""
    return [
        f"{row.steps_per_second:,.0f}", f"{row.frames_per_second:,.0f}", f"{row.low:,.0f} to {row.high:,.0f}",
        f"{row.start_s:.1f}", f"{row.actor_cpu_s:.3f}", f"{row.learner_cpu_s:.3f}", f"{row.cores_busy:.2f}",
        f"{row.batch_fill:.0%}", f"{row.batch_wait_ms:.1f}", f"{row.round_trip_ms:.1f}", f"{row.policy_lag_mean:.2f}",
        f"{row.learner_rss_mb:,.0f}", f"{row.actor_rss_mb:,.0f}", *(f"{getattr(row, name):.0%}" for name in SHARES),
    ]


def table(sweep: str, lines: pd.DataFrame) -> list[str]:
    """The Markdown table of a sweep; a setting of which every round failed has its error instead of numbers."""
    head = ["", GROWS[sweep], *HEADER]
    made = [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for row in medians(lines).itertuples():
        same = lines[(lines["series"] == row.series) & (lines["value"] == row.value)]
        failures = [said.replace("|", "/").splitlines()[0] for said in same["error"] if said]
        if len(failures) == len(same):
            made.append(f"| {row.series} | {row.value:,} | failed: {failures[0]} |" + " |" * (len(HEADER) - 1))
            continue
        note = f" ({len(failures)} of {len(same)} rounds failed: {failures[0]})" if failures else ""
        made.append(f"| {row.series}{note} | {row.value:,} | {' | '.join(cells(row))} |")
    return made


def changes(lines: pd.DataFrame) -> list[str]:
    """From each value to the next: how steps/s changed, and which shares grew and shrank most."""
    said = []
    for series, rows in medians(lines).dropna(subset="steps_per_second").groupby("series", sort=False):
        for (_, before), (_, after) in zip(rows.iloc[:-1].iterrows(), rows.iloc[1:].iterrows(), strict=True):
            moved = {title: after[name] - before[name] for name, title in SHARES.items()}
            names = {title: name for name, title in SHARES.items()}
            told = [f"{title} {before[names[title]]:.0%} → {after[names[title]]:.0%}"
                    for title in (max(moved, key=moved.get), min(moved, key=moved.get))]
            gain = after["steps_per_second"] / before["steps_per_second"] - 1
            said.append(f"- {series}, {before['value']:,.0f} → {after['value']:,.0f}: steps/s {gain:+.0%}; grew most: "
                        f"{told[0]}; fell most: {told[1]}; cores {before['cores_busy']:.2f} → "
                        f"{after['cores_busy']:.2f}.")
    return said


# --- memory -----------------------------------------------------------------------------------------------------------


def fits(lines: pd.DataFrame) -> pd.DataFrame:
    """Straight lines through memory over environments: part, kind, over, base_mb, each_mb, deviation_mb (largest)."""
    rows = medians(lines[lines["sweep"] == "environments"]).dropna(subset="steps_per_second")
    found = []
    for part, over in (("learner", "environments"), ("actor", "envs_per_actor"), ("supervisor", "environments")):
        for kind in ("rss", "own"):
            x, y = rows[over].to_numpy(float), rows[f"{part}_{kind}_mb"].to_numpy(float)
            if len(x) < 2:
                continue
            each, base = np.polyfit(x, y, 1)
            found.append({"part": part, "kind": kind, "over": over, "base_mb": base, "each_mb": each,
                          "deviation_mb": np.abs(y - base - each * x).max()})
    return pd.DataFrame(found)


def memory_table(lines: pd.DataFrame) -> list[str]:
    """Memory per environment (the slope) and per process (what is left at none), as Markdown."""
    failed = lines[(lines["sweep"] == "environments") & (lines["error"] != "")]
    left_out = [f"Left out, as it failed: {one.environments:,} environments: {one.error.splitlines()[0]}\n"
                for one in failed.itertuples()]
    found = fits(lines)
    if found.empty:
        return ["Fewer than two runs succeeded: no line to draw.\n", *left_out]
    made = ["| | process without environments, MB | each environment, KB | largest distance from the line, MB |",
            "|---|---|---|---|"]
    kinds = {"rss": "RSS", "own": "of its own (RSS without shared pages)"}
    for one in found.itertuples():
        made.append(f"| {one.part}, {kinds[one.kind]} | {one.base_mb:,.1f} | {one.each_mb * 1000:,.1f} | "
                    f"{one.deviation_mb:,.1f} |")
    own = found[found["kind"] == "own"].set_index("part")
    each = own["each_mb"]["learner"] + own["each_mb"]["actor"]
    made += ["", f"Each environment takes {each * 1000:,.0f} KB in actor and learner together; each actor "
                 f"{own['base_mb']['actor']:,.0f} MB of its own before its first environment.", ""]
    return [*made, *left_out]


def memory_points(lines: pd.DataFrame) -> pd.DataFrame:
    """What the fits are drawn through."""
    return lines.loc[lines["sweep"] == "environments", ["round", "environments", "envs_per_actor", *MEMORY, "error"]]


# --- sections, plots, files -------------------------------------------------------------------------------------------


def section(name: str, lines: pd.DataFrame, conditions: str) -> str:
    """One section with its heading."""
    head = [f"## {TITLES[name]}", "", conditions, ""]
    if name == "memory":
        return "\n".join([*head, *memory_table(lines), "![memory](scaling-memory.png)", ""])
    own = lines[lines["sweep"] == name]
    load = own["load"].median()
    said = f"Load average before each run, which the runs before it raise: {load:.1f} (median)."
    return "\n".join([*head, said, "", *table(name, own), "", f"![{name}](scaling-{name}.png)", "", *changes(own), ""])


def with_all_columns(lines: pd.DataFrame) -> pd.DataFrame:
    """The lines with every column, also where all runs failed and nothing was measured."""
    numbers = ["start_s", "steps_per_second", "frames_per_second", "cores_busy", "actor_cpu_s", "learner_cpu_s",
               *WAITS, *SHARES, "round_trip_ms", "policy_lag_mean", *MEMORY]
    missing = [name for name in numbers if name not in lines]
    return lines.assign(**dict.fromkeys(missing, np.nan))


def plot(sweep: str, lines: pd.DataFrame) -> Any:
    """Speed, CPU and shares over what grows, side by side."""
    import altair as alt

    rows = medians(lines[lines["sweep"] == sweep]).dropna(subset="steps_per_second")
    axis = alt.Axis(values=sorted(set(rows["value"])), format="d")
    x = alt.X("value:Q", title=GROWS[sweep], scale=alt.Scale(type="log", base=2), axis=axis)
    dash = alt.StrokeDash("series:N", title=None)
    base = alt.Chart(rows).encode(x=x)
    speed = base.mark_line(point=True).encode(
        y=alt.Y("steps_per_second:Q", title="trained steps/s", scale=alt.Scale(zero=True)), strokeDash=dash)
    ranges = base.mark_rule().encode(y="low:Q", y2="high:Q")
    cpu = _long(rows, {"actor_cpu_s": "actors", "learner_cpu_s": "learner"})
    costs = alt.Chart(cpu).mark_line(point=True).encode(
        x=x, y=alt.Y("amount:Q", title="CPU seconds per 1,000 steps", scale=alt.Scale(zero=True)),
        color=alt.Color("part:N", title="CPU"), strokeDash=dash)
    shares = alt.Chart(_long(rows, SHARES)).mark_line(point=True).encode(
        x=x, y=alt.Y("amount:Q", title="share of time", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])),
        color=alt.Color("part:N", title="share", scale=alt.Scale(scheme="category10"), sort=list(SHARES.values())),
        strokeDash=dash)
    panels = [one.properties(width=280, height=260) for one in (speed + ranges, costs, shares)]
    return alt.hconcat(*panels).resolve_scale(color="independent").properties(title=TITLES[sweep])


def _long(rows: pd.DataFrame, titles: dict[str, str]) -> pd.DataFrame:
    """Columns `series`, `value`, `part`, `amount`: a row for each of the columns in `titles`."""
    renamed = rows[["series", "value", *titles]].rename(columns=titles)
    return renamed.melt(["series", "value"], var_name="part", value_name="amount")


def memory_plot(lines: pd.DataFrame) -> Any:
    """Own memory of learner and actor over the environments that each has, with the fitted lines."""
    import altair as alt

    points, panels = memory_points(lines), []
    found = fits(lines)
    for one in found[found["kind"] == "own"].itertuples():
        line = pd.DataFrame({"x": [0, points[one.over].max()]})
        line["y"] = one.base_mb + one.each_mb * line["x"]
        dots = alt.Chart(points).mark_circle(size=60).encode(
            x=alt.X(f"{one.over}:Q", title="environments" + (" of the actor" if one.part == "actor" else "")),
            y=alt.Y(f"{one.part}_own_mb:Q", title=f"{one.part}, MB of its own"))
        panels.append((dots + alt.Chart(line).mark_line().encode(x="x:Q", y="y:Q")).properties(width=240, height=220))
    return alt.hconcat(*panels)


def write(sections: dict[str, str], lines: pd.DataFrame) -> None:
    """CSV and PNG of each section, and scaling.md, in which other sections and the words stay as they are."""
    RESULTS.mkdir(exist_ok=True)
    for name in sections:
        file = RESULTS / f"scaling-{name}.csv"
        own = memory_points(lines) if name == "memory" else lines[lines["sweep"] == name]
        own.round(4).to_csv(file, index=False)
        if (own["error"] == "").sum() > 1:
            chart = memory_plot(lines) if name == "memory" else plot(name, lines)
            chart.save(file.with_suffix(".png"), scale_factor=1.5)
        else:
            file.with_suffix(".png").unlink(missing_ok=True)  # of another measurement
    parts = {**_parts(FILE.read_text() if FILE.exists() else ""),
             **{TITLES[name]: text for name, text in sections.items()}}
    parts.setdefault(WORDS, f"## {WORDS}\n\n{NO_WORDS}\n")
    ordered = [parts[title] for title in (*TITLES.values(), WORDS) if title in parts]
    FILE.write_text("\n".join(["# Scaling: what more of each costs", "", COLUMNS, *ordered]))


def _parts(text: str) -> dict[str, str]:
    """The sections of a Markdown file by their headings."""
    found = re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    return {one.partition("\n")[0].strip(): f"## {one.rstrip()}\n" for one in found}
