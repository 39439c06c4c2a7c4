"""What an .onnx file of `wb.export_policy` takes and gives, and how an action is made of it: for its metadata and card.

A file holds one step of one environment. Inputs: `observation` (or each part, as `observation.name`) [1, 1, *stacked],
as the network sees it; `previous_action` [1, 1, *action], `reward` float32 [1, 1], `start` bool [1, 1], and `state_0`,
... [1, ...] where there is memory. Outputs: `policy_logits` and `value`, or `q_values`, and `next_state_0`, ...

Its metadata: `environment`, the spec as JSON, and `acting` as JSON: the output that actions are made of, and for each
part of an action the kind, `low` and `high` of numbers, and Python for the likeliest one (`x`: the output's numbers).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from workbench.environment_spec import ActionSpec, EnvironmentSpec, NativeSpace, Part

TRAINING_ONLY = ("features",)  # outputs that nobody needs to act
KINDS = {"categorical": "one choice: x are logits, or values", "multi_discrete": "several choices: x are their logits",
         "bernoulli": "switches: x are the logits of 1",
         "tanh_normal": "numbers: x are means, then what softplus makes deviations, of a normal before tanh"}


def acting(spec: EnvironmentSpec, *, output: str, note: str = "") -> dict[str, Any]:
    """How an action is made of the numbers of `output`, as plain data; `note`: what else is to be known."""
    parts: list[dict[str, Any]] = []
    begin = 0
    for name, actions in _parts(spec.actions):
        space = actions.native or NativeSpace(actions.shape)
        kept = _kept(actions, begin)
        columns = {key: list(of) for key, of in asdict(space).items() if of or key == "shape"}
        parts.append({"name": name, "kind": actions.kind, "numbers": [begin, begin + actions.parameters], **columns,
                      "action": _given(actions, kept, space), "previous_action": kept})
        begin += actions.parameters
    return {"output": output, "parts": parts, "note": note}


def _parts(actions: ActionSpec) -> list[tuple[str, ActionSpec]]:
    return [(part.name, part.actions) for part in actions.parts] or [("", actions)]


def _kept(actions: ActionSpec, begin: int) -> str:
    """Python for the likeliest action as a network gets it as the previous one, of the numbers `x`."""
    if actions.kind == "tanh_normal":
        return f"x[{begin}:{begin + len(actions.sizes)}]"
    if actions.kind == "bernoulli":
        return f"(x[{begin}:{begin + len(actions.sizes)}] > 0).astype('int64')"
    choices = []
    for size in actions.sizes:
        choices.append(f"x[{begin}:{begin + size}].argmax()")
        begin += size
    return choices[0] if actions.kind == "categorical" else f"np.array([{', '.join(choices)}])"


def _given(actions: ActionSpec, kept: str, space: NativeSpace) -> str:
    """Python for the same action as the environment takes it, of `low` and `high` where it is numbers."""
    start = space.start
    if actions.kind == "tanh_normal":
        kept = f"np.clip(low + (high - low) * (np.tanh({kept}) + 1) / 2, low, high)"
    elif any(start):
        kept = f"{kept} + {start[0] if actions.kind == 'categorical' else f'np.array({list(start)})'}"
    return kept if len(space.shape) == len(actions.shape) else f"({kept}).reshape({space.shape})"


# --- the code on a card -----------------------------------------------------------------------------------------------


def code(file: str, *, spec: EnvironmentSpec, facts: Mapping[str, Any]) -> str:
    """Python that plays an episode by the file; `facts`: what its export answered."""
    inputs, how = facts["inputs"], facts["acting"]
    others = {name: entry for name, entry in inputs.items() if not name.startswith("observation")}
    states = [name for name in others if name.startswith("state_")]
    first = {name: f"np.{'ones' if name == 'start' else 'zeros'}({tuple(shape)}, {dtype!r})"
             for name, (dtype, shape) in others.items()}
    dtype, shape = others["previous_action"]
    told = ", ".join(facts["outputs"]) if len(facts["outputs"]) > 1 else f"({facts['outputs'][0]},)"
    kept = [part["previous_action"] for part in how["parts"]]
    previous = kept[0] if len(kept) == 1 else f"np.hstack([{', '.join(kept)}])"
    later = {"previous_action": f"np.reshape({previous}, {tuple(shape)}).astype({dtype!r})",
             "reward": "np.full((1, 1), reward, 'float32')", "start": "np.zeros((1, 1), 'bool')",
             **{name: f"next_{name}" for name in states}}
    return "\n".join([
        "import gymnasium", "import numpy as np", "import onnxruntime", "", *([_PLANES] if spec.shows_images else []),
        *([_MEMBER] if any(map(_may_be_index, "/".join(part.name for part in spec.parts).split("/"))) else []),
        f"session = onnxruntime.InferenceSession({file!r})",
        f"env = gymnasium.make({spec.name!r})  # or your own, with the same spaces, with the options and wrappers of "
        "training",
        "observation, _ = env.reset()", *_stacks(spec), *_dict("given", first), "ended = False",
        *([f"# {how['note']}"] if how["note"] else []), "while not ended:",
        *(f"    {line}" for line in _pushed(spec)),
        *(f"    given[{name!r}] = {value}" for name, value in _seen(spec)),
        f"    {told} = session.run(None, given)", f"    x = {how['output']}[0, 0]",
        *(f"    {line}" for line in _action(how["parts"])),
        "    observation, reward, terminated, truncated, _ = env.step(action)", "    ended = terminated or truncated",
        *(f"    {line}" for line in _dict("given", later))])


_PLANES = """def planes(image):  # channels first
    image = np.asarray(image)
    if image.dtype != np.uint8:  # switches
        image = np.uint8(255) * (image != 0)
    if image.ndim == 2:
        return image[None]
    return np.moveaxis(image, -1, 0) if image.shape[2] <= image.shape[0] else image

"""


_MEMBER = """def member(whole, key):  # of a Tuple or a Dict
    return whole[int(key) if isinstance(whole, (tuple, gymnasium.spaces.Tuple)) else key]

"""


def _dict(name: str, values: Mapping[str, str]) -> list[str]:
    """Lines that make a dict, an entry each."""
    indent = " " * len(f"{name} = {{")
    lines = [f"{indent}{key!r}: {value}," for key, value in values.items()]
    return [f"{name} = {{{lines[0].strip()}", *lines[1:-1], lines[-1].removesuffix(",") + "}"]


def _stacks(spec: EnvironmentSpec) -> list[str]:
    """Lines before an episode: frames from before it are zeros."""
    if spec.frame_stack == 1:
        return []
    zeros = {part.name: f"np.zeros({part.shape}, {part.dtype!r})" for part in spec.seen}
    [first, *more] = [f"frames = {zeros['']}"] if list(zeros) == [""] else _dict("frames", zeros)
    return [f"{first}  # the last {spec.frame_stack}, newest last", *more]


def _pushed(spec: EnvironmentSpec) -> Iterator[str]:
    """Lines that take in the newest frame of each array of an observation."""
    for part in spec.seen if spec.frame_stack > 1 else ():
        kept, own = _frames_of(part), part.shape[0] // spec.frame_stack
        yield f"{kept} = np.concatenate([{kept}[{own}:], {_newest(part)}])"


def _seen(spec: EnvironmentSpec) -> Iterator[tuple[str, str]]:
    """Each observation's input, and Python for it."""
    for part in spec.seen:
        array = _frames_of(part) if spec.frame_stack > 1 else _newest(part)
        yield f"observation.{part.name}".rstrip("."), f"{array}[None, None]"


def _frames_of(part: Part) -> str:
    """Where the code keeps the frames of a part."""
    return f"frames[{part.name!r}]" if part.name else "frames"


def _newest(part: Part) -> str:
    """Python for the newest frame of a part, as the network sees it."""
    observed, space = "observation", "env.observation_space"
    for key in part.name.split("/") if part.name else ():
        observed, space = (f"member({whole}, {key!r})" if _may_be_index(key) else f"{whole}[{key!r}]"
                           for whole in (observed, space))
    return (f"planes({observed})" if len(part.shape) == 3 else
            f"gymnasium.spaces.flatten({space}, {observed}).astype({part.dtype!r})")


def _may_be_index(key: str) -> bool:
    return key.isdecimal() and key.isascii()


def _action(parts: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    """Lines that make `action`."""
    single = len(parts) == 1
    if not single:
        yield "action = {}  # or a tuple, where the environment's action space is one"
    for part in parts:
        if part["kind"] == "tanh_normal":
            yield (f"low, high = np.array({part['low']}, 'float32'), np.array({part['high']}, 'float32')"
                   if "low" in part else
                   "low, high = -1.0, 1.0  # not known where this was written: put those of the action space here")
        place = "" if single else f"[{part['name']!r}]"
        yield f"action{place} = {part['action']}"


def tables(spec: EnvironmentSpec, facts: Mapping[str, Any]) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Titles and rows of the inputs, the outputs and the action."""
    stacked = f", the last {spec.frame_stack} frames joined, oldest first" if spec.frame_stack > 1 else ""
    words = {"observation": f"as the network sees it, a choice as a one-hot{stacked}; [1 step, 1 environment, ...]",
             "previous_action": "the last action as the code above keeps it; zeros at the first step of an episode",
             "reward": "that came with the observation; 0 at first",
             "start": "true at the first step of an episode", "state": "next_state of the step before; zeros at first"}
    yield "Inputs", [(name, f"{dtype} {shape}", words["state" if name.startswith("state_") else name.split(".")[0]])
                     for name, (dtype, shape) in facts["inputs"].items()]
    said = {"policy_logits": "the numbers x of which the action is made",
            "q_values": "the value of each action, rescaled where training does that; the numbers x of which the "
                        "action is made",
            "value": "the discounted sum of rewards that is expected, in the units of training"}
    yield "Outputs", [(name, "", said.get(name, "the memory after this step" if name.startswith("next_") else ""))
                      for name in facts["outputs"]]
    yield "Action", [(part["name"] or "the likeliest action", KINDS[part["kind"]], part["action"])
                     for part in facts["acting"]["parts"]]
