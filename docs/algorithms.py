"""Writes docs/algorithms.md: the table of algorithms, from the code. `python docs/algorithms.py`"""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path

from workbench import algorithms
from workbench.config import ALGORITHMS, DEFAULT, RunConfig
from workbench.environment_spec import ACTION_KINDS, ACTION_WORDS, ActionSpec, EnvironmentSpec
from workbench.errors import InvalidInput
from workbench.trajectory import EnvironmentStep, Steps, Unrolled

PAGE = Path(__file__).with_suffix(".md")
SPECS = {"categorical": ActionSpec("categorical", (4,)), "multi_discrete": ActionSpec("multi_discrete", (2, 3)),
         "bernoulli": ActionSpec("bernoulli", (2, 2)), "tanh_normal": ActionSpec("tanh_normal", (0, 0)),
         "mixed": ActionSpec.mixed({"0": ActionSpec("categorical", (4,)), "1": ActionSpec("tanh_normal", (0,))})}

HEAD = """# Algorithms

Made from the code by `python docs/algorithms.py`; a test keeps it fresh.

```python
wb.launch("CartPole-v1", algorithm="ppo")                 # one of those below; vtrace where none is named
wb.sweep("CartPole-v1", algorithm="ppo", total_frames=50_000)  # over the algorithm's own space
wb.compare(["cartpole-ppo-1", "cartpole-vtrace-1"])
wb.compare({"PPO": ppo_runs, "V-trace": vtrace_runs})     # several seeds of each: a mean with a band
```

An environment's own preset replaces some of an algorithm's defaults: `wb.fields("ppo")` has the defaults,
`wb.environments("CartPole")` names the presets, and `run.config` is what a run has.

How to clone a policy, or yourself, from recorded games: [tools](tools.md#cloning-from-recorded-games).
"""

OWN = """
All of them act through central inference and train with one learner or several (gradients are averaged), on CPU, CUDA
and XLA, with a network with or without an LSTM, under `exact_resume_updates` too. Each but cloning has trained on a GPU
and gone on on a CPU ([notes](../benchmarks/NOTES.md)); none has been run on a TPU yet. Several learners normalize
advantages by the mean and the deviation of all their minibatches together. V-MPO takes the better half of each
learner's own minibatch.

A truncated episode bootstraps from the value of its true final observation. R2D2 and SAC keep that observation in the
replay and value it by the target network; with time limits below 50 steps some have the value of when they were
played, as with the other algorithms. SEED's R2D2 takes a truncated episode for an ended one.

## Your own

A class typed in a cell is an algorithm like the others: its code travels by value to this user's own processes, its
fields are checked, live and on sliders where they say so, and checkpoints, resume, fork and sweep know it.

```python
import torch, workbench as wb

class Reinforce(wb.Algorithm):
    class Config(wb.LearningConfig):                      # each unroll once; or wb.EpochsConfig, wb.ReplayConfig, or
                                                          # wb.DemonstrationsConfig
        learning_rate: float = 1e-3                       # another default of a field that all have
        beta: float = wb.setting(0.01, "weight of the entropy bonus", low=0.0, high=1.0, live=True)

    def loss(self, network, *, batch, config):
        output = self.outputs(network, batch)             # policy_logits [T+1, B, A], value [T+1, B]
        r_t, discount_t = self.rewards_and_discounts(batch, config)
        returns = [output.value[-1].detach()]
        for r, discount in zip(reversed(r_t), reversed(discount_t)):
            returns.append(r + discount * returns[-1])
        returns = torch.stack(returns[:0:-1])             # of steps 0 ... T-1
        values, logits = output.value[:-1], output.policy_logits[:-1]
        log_probs = self.distribution.log_prob(logits, actions=batch.action[:-1])
        entropy = self.distribution.entropy(logits).mean()
        policy_loss = -((returns - values.detach()) * log_probs).mean()
        total = policy_loss + 0.5 * (returns - values).square().mean() - config.beta * entropy
        return wb.Loss(total, {"loss": total.detach(), "entropy": entropy.detach()})

wb.check_algorithm(Reinforce)                             # names the rule that it breaks, or says how it is read
run = wb.launch("CartPole-v1", algorithm=Reinforce)
run.tune(beta=0.003)
```

`wb.Algorithm` is an actor and a critic but for its loss: override what differs, such as `act`, `behaviour_fields`,
`heads`, `parameters`, `state` and `load_state` for what is learnt beside the network, `updated` after each update.
Random numbers of a loss come from `self.training_generator`, which differs between learners and goes on after a
resume: `torch.rand(n, generator=g, device=g.device)` on a CPU or a GPU; XLA has none, so `generator=None` there. A loss
leaves its batch as it is. Whatever a loss depends on and an update changes belongs into `state`: a resume goes on from
it, and several learners begin with that of the first. The whole list is in `workbench/algorithms/interface.py`.

### What a batch holds

Step t holds what is known when the agent sees x_t. A batch has steps 0 ... T of B unrolls. With a burn-in or another
`overlap`, so many rows come before them, and rows count from the first of these: `stack_prefix` and `initial_state`
belong to it, `final_step` is a row (of a truncation after the overlap). The last step is there for its value, and is
the first of the next unroll. A loss over transitions pairs `batch.action[:-1]`, a_t, with `batch.reward[1:]`, which
followed it. `batch.start` and `batch.has(Flags.TERMINATED)` (`workbench.trajectory`) are masks [T+1, B].

{BATCH}

**Actions are as their kind has them** (`workbench.environment_spec.ActionSpec`): numbers are u, of which the
environment gets tanh(u) between its own bounds. `act` returns u and `batch.action` holds it. A policy without a
distribution returns its numbers before the tanh; a critic of actions reads `self.distribution.encode(action)`, which
for numbers is tanh(u).

A replay comes with `class Config(wb.ReplayConfig)`, epochs of minibatches with `wb.EpochsConfig`. Q-learning has its
acting, replay and target network from `workbench.algorithms.QLearning` (below), and a class that derives from
`workbench.algorithms.r2d2.agent.R2D2` or `sac.agent.SAC` has what these have. Else
`algorithms.target_network.TargetNetwork` follows the network (call its `prepare`, `to`, `state` and `load_state` in
yours of these names). With a replay, a loss also returns `Loss(..., priorities=...)`, [B]: ones sample all unrolls
alike. `algorithms.running_statistics.RunningStatistics` counts, and with `values_finals = True`
`algorithms.final_observations.with_finals` puts the final observations of truncated episodes among the steps. The
number that `updated(network, updates=...)` gets is the clock for what decays.

### Q-learning

A class that derives from `QLearning` acts ε-greedily by the values of its network, each environment by an ε of its own,
and has a replay and a target network, whose period and ε are live. What is left is the loss. DQN:

```python
from torch.nn import functional
from workbench.algorithms import QLearning

class DQN(QLearning):
    class Config(QLearning.Config):
        learning_rate: float = 5e-4
        unroll_length: int = 10
        batch_size: int = 16                              # unrolls: 160 transitions
        replay_min_size: int = 200                        # unrolls in the replay before the first update
        replay_ratio: float = 8.0                         # each is trained on so often
        target_update_period: int = 100                   # updates

    def loss(self, network, *, batch, config):
        q_values = self.outputs(network, batch).q_values  # [T+1, B, A]
        with torch.no_grad():
            later = self.outputs(self.target, batch).q_values.amax(-1)
        r_t, discount_t = self.rewards_and_discounts(batch, config)
        taken = q_values[:-1].gather(-1, batch.action[:-1, :, None])[..., 0]
        targets = r_t + discount_t * later[1:]
        errors = functional.smooth_l1_loss(taken, targets, reduction="none").mean(0)
        total = (batch.weight * errors).mean()            # the weights correct for the sampling by priorities
        sizes = (targets - taken.detach()).abs().mean(0)
        return wb.Loss(total, {"loss": total.detach(), "td_error": sizes.mean()}, priorities=sizes)

wb.launch("CartPole-v1", algorithm=DQN)
```

Where the environment has action masks, `q_values` of what is not allowed are -1e9: a maximum never takes them, and what
adds up or averages over actions must leave them out (`workbench.algorithms.action_masks.is_never`).

Double DQN lets the network choose and the target network value the choice:
`self.outputs(self.target, batch).q_values.gather(-1, q_values.argmax(-1, keepdim=True))[..., 0]`.

### Fields, networks and parts

A sweep without a space searches `learning_rate`, or what `Config` has in its body:
`search = {"learning_rate": (1e-4, 1e-2), "beta": (1e-3, 0.1)}`. A head of your own comes by `network=`, which
`wb.check_algorithm` takes as `wb.launch` does. Observations with several parts lie in `batch.observation` as bytes, of
which the network gets each part by its name.

Where a loss, or another method, raises in the middle of a run, the run fails and keeps a checkpoint of what it has
learnt. Mend the class under its old name and go on: `wb.resume(run, algorithm=Reinforce)`. The run keeps the values of
its fields, but for old defaults that the class has changed, which are said. A class that fails before its first
update leaves the run as it was: at once where the call still waits, else, as after a replay was filled, at the next
`wb.resume` or fork. `run.fork(algorithm=Reinforce)` tries a mended class in a new run, and leaves this one alone.

An export holds no code: `wb.evaluate("exported", algorithm=Reinforce)`, and whatever else plays or loads it, is given
the class ([tools](tools.md#a-policy-to-take-away)).

A run gets a module as its file is at the launch. Restart the kernel, or `importlib.reload` the module, after an edit:
a launch says which functions are not those that you imported, and is refused where fields differ.

A variation of one that ships derives from its class, and has its fields, schedule and metrics:

```python
from workbench.algorithms.ppo.agent import PPO

class Bonus(PPO):
    class Config(PPO.Config):
        bonus: float = wb.setting(0.1, "reward of each step beside the environment's", low=0.0, high=10.0, live=True)

    def rewards(self, batch, config):
        return super().rewards(batch, config) + config.bonus

wb.launch("CartPole-v1", algorithm=Bonus, preset="classic")   # as PPO is launched there; else by its own defaults
```

An environment's presets are for the algorithms that ship: a class of your own begins with the defaults of its `Config`.
Where the two are compared, `wb.compare({...}).differences` shows the fields in which they differ.

Parts may learn at rates of their own. Here a live field says how much faster the value learns than the policy:

```python
class TwoRates(Reinforce):
    class Config(Reinforce.Config):
        value_factor: float = wb.setting(3.0, "learning rate of the value, as a factor of learning_rate", low=0.0,
                                         high=100.0, live=True)

    def rate_factors(self, network, *, config):           # parameters, and the factor of the learning rate
        return [(network.value.parameters(), config.value_factor)]

wb.check_algorithm(TwoRates)
```

Warm-up, schedule and a new `learning_rate` reach every part. A factor of 0 holds a part still as long as it is 0;
`None` in its place freezes it for good, without a gradient, as for a torso that another run has trained. The optimizer
is of one kind, and `max_gradient_norm` clips by the norm over all parts together. SAC's `critic_rate_factor` and
V-MPO's `multiplier_rate_factor` are made so. An algorithm that ships is a folder beside it
([CONTRIBUTING.md](../CONTRIBUTING.md)).

A policy of another form is a `Distribution` of your own (`workbench.algorithms`), such as a Beta: your `__init__`
sets `self.distribution` to it. It has `sample`, `mode` and `log_prob`, `encode` and `to_environment` (those of
`workbench.algorithms.distributions.TanhNormal` do for numbers), and `entropy` or `kl` where a loss asks for them.
Acting, losses and what people see of the policy go by it. Unrolls keep an action as its kind has it, numbers as u
with tanh(u) in [-1, 1]. An .onnx file holds the network alone, and says so.

`default_network = my_network` in the class is the network of a launch or a sweep that gives none. A run keeps the one
that it began with, until `wb.resume(run, algorithm=...)` brings a class with a mended one; and whoever plays an export
gives it: `network=my_network`. `loss` gets it with what decodes and normalises observations around it. A method or a
layer of your own network is that of `workbench.algorithms.inner(network)`.

## Your own network

`network=` takes the name of one (`wb.fields("network")`), or a class or function that makes one for the environment's
`spec`: its process calls it, so it imports torch itself. A torso of your own is enough, with the usual heads on it:

```python
def wide(spec):
    import math

    from torch import nn
    from workbench.networks import PolicyValueNetwork

    class Wide(nn.Sequential):
        features = 256                                    # of what it returns: [N, features]

        def __init__(self):
            numbers = math.prod(spec.stacked_shape)       # of an observation: bytes for images, else floats
            super().__init__(nn.Flatten(), nn.Linear(numbers, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU())

    return PolicyValueNetwork(Wide(), actions=spec.actions)   # also value_torso=, lstm_size=

wb.launch("CartPole-v1", network=wide)
```

From end to end it is any `nn.Module` with two methods, for T steps of B environments; acting is the same with T = 1:

- `initial_state(batch)` returns a tuple of zeros, each [batch, ...], or `()` without memory.
- `forward(observation, previous_action, reward, start, state)` returns (output, the state after the last step).
  `observation` is [T, B, *stacked], or a dict of such by part; images are bytes: `.float() / 255`. `previous_action`
  [T, B, *action] is 0 where `start` (bool, [T, B]) is set, and `reward` [T, B] is of the episode before: there the
  network puts zeros in the place of `reward` and `state`, and a new run tries whether it does. It changes no input in
  place, as `reward.clamp_()` does.

The learner trains it in train mode; acting, evaluations and target networks run it in eval mode, where `nn.Dropout`
drops nothing and `nn.BatchNorm1d` takes its running statistics: what is trained is not quite the policy that acted.

The output is a `PolicyValueOutput(policy_logits, value)` of `workbench.algorithms`, in float32: [T, B, N] with
N = `spec.actions.parameters`, and [T, B]. For R2D2 it is a `QValueOutput(q_values)`. `spec` has `stacked_shape`,
`observation_dtype`, `num_actions`, `actions` and `frame_stack`, and in `seen` the `name`, `shape` and `dtype` of each
part. A run tries its network on a few steps, and on one step and one row, before it trains, and says what is wrong;
`wb.check_algorithm(..., network=wide)` does so without a run. While it learns, each call's shapes are compared with
these: another one ends the run with a last checkpoint, and `wb.resume(run, network=Mended)` goes on.

A network of your own for SAC returns a `PolicyCriticsOutput` (policy, value, features) and has a method
`q_values(features, actions, *, frozen=False)` for twin critics: [2, T, B], or [2, T, B, A] without actions where they
are choices; `frozen` takes no gradient of the critics' weights (`workbench.networks.actor_critics`). Name the critics
`critics`, and their torso, if any, `critic_torso`: MuJoCo's preset lets them learn faster.
"""


def actions(name: str) -> str:
    """The kinds of actions that the algorithm chooses."""
    kinds = []
    for kind in ACTION_KINDS:
        spec = SPECS[kind]
        try:
            algorithms.build(RunConfig.build("x", algorithm=name),
                             spec=EnvironmentSpec("x", (3,), "float32", spec.encoded_size, actions=spec))
            kinds.append(ACTION_WORDS[kind])
        except InvalidInput:
            pass
    return "all kinds" if len(kinds) == len(ACTION_KINDS) else ", ".join(kinds)


def memory(name: str) -> str:
    """Which network is the default."""
    spec = EnvironmentSpec("x", (3,), "float32", 4)
    heads = algorithms.build(RunConfig.build("x", algorithm=name), spec=spec).heads
    return "LSTM" if heads.recurrent else "none"


def batch_table() -> str:
    """The fields of a batch with their shapes and meanings, from the comments above them."""
    rows = ["| `batch.` | shape | what it is |", "|---|---|---|"]
    spec = EnvironmentSpec("x", (3,), "float32", 5, actions=SPECS["multi_discrete"])
    for kind, axes in ((EnvironmentStep, "T+1, B"), (Steps, "T+1, B"), (Unrolled, "B")):
        shapes, comment = {name: shape for name, (shape, _) in kind.specs(spec).items()}, ""
        for line in map(str.strip, inspect.getsource(kind).splitlines()):
            named = re.match(r"(\w+): .*field\(", line)
            if named and comment:
                rest, what = re.fullmatch(r"(?:\[(.*?)\], )?(.*)", comment).groups()  # type: ignore[union-attr]
                shape = ", ".join(filter(None, [axes, rest or ("..." if shapes.get(named[1], (0,)) else "")]))
                rows.append(f"| `{named[1]}` | [{shape}] | {what} |".replace("*", "\\*"))
            comment = f"{comment} {line[2:]}".strip() if line.startswith("# ") else ""
    rows.append("| `weight` | [B] | by which the unrolls' losses count; ones where each is trained on once |")
    return "\n".join(rows)


def page() -> str:
    """The text of docs/algorithms.md."""
    table = ["| name | what it is | trains on | actions | memory by default | a sweep searches |",
             "|---|---|---|---|---|---|"]
    sections = []
    for name, config in ALGORITHMS.items():
        what = (importlib.import_module(f"workbench.algorithms.{name}").__doc__ or "").strip()
        usual = " (the default)" if name == DEFAULT else ""
        table.append(f"| `{name}`{usual} | {what} | {config.trains_on} | {actions(name)} | {memory(name)} | "
                     f"{', '.join(f'`{field}`' for field in config.search)} |")
        about = inspect.cleandoc(config.__doc__ or "")
        sections += ["", f"## {name}", "", f"{about} [Its fields](fields.md#{name})."]
    return HEAD + "\n" + "\n".join(table) + "\n" + OWN.replace("{BATCH}", batch_table()) + "\n".join(sections) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.name} has {len(ALGORITHMS)} algorithms.")
