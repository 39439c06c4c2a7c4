"""TorchRL's IMPALA on Pong: its collectors, V-trace and A2C loss, joined as in its own IMPALA script.

Counter: steps of the updates that the training loop has done (in TorchRL the loop is the user's own).
Setting: collector ("single": in this process, "sync" or "async": two worker processes), environments ("vector":
ale-py's vector environment; "serial": Gymnasium's AtariPreprocessing in TorchRL's SerialEnv), shifted (V-trace gets
values of both ends of a step in one pass instead of two) and threads (of training).
No command line: measure_one.py has it.
"""

from __future__ import annotations

from functools import partial
from importlib.metadata import version
from typing import Any

import torch
from measuring import ENVIRONMENT, ENVIRONMENTS, UPDATE, Meter
from tensordict import TensorDictBase
from tensordict.nn import TensorDictModule
from torch import Tensor, nn
from torchrl.collectors import Collector, MultiAsyncCollector, MultiSyncCollector
from torchrl.data import Composite
from torchrl.envs import EnvBase, GymWrapper, SerialEnv
from torchrl.modules import ActorValueOperator, ConvNet, OneHotCategorical, ProbabilisticActor, ValueOperator
from torchrl.objectives import A2CLoss
from torchrl.objectives.value import VTrace

WORKERS = 2
SEEN, FEATURES = "observation", "features"


class Scaled(nn.Module):
    """Bytes as numbers from 0 to 1."""

    def forward(self, image: Tensor) -> Tensor:
        return image / 255.0


def make(kind: str, count: int) -> EnvBase:
    """`count` games of Pong with four stacked frames, uint8 [count, 4, 84, 84]; rewards in Pong are -1, 0 and 1."""
    import ale_py
    import gymnasium

    gymnasium.register_envs(ale_py)
    if kind == "vector":
        return GymWrapper(gymnasium.make_vec(ENVIRONMENT, num_envs=count, num_threads=1, autoreset_mode="SameStep"))
    return SerialEnv(count, _one)


def _one() -> EnvBase:
    import gymnasium

    env = gymnasium.wrappers.AtariPreprocessing(gymnasium.make(ENVIRONMENT, frameskip=1), frame_skip=4)
    return GymWrapper(gymnasium.wrappers.FrameStackObservation(env, 4))


def networks(actions: Any) -> tuple[Any, Any]:
    """Actor and critic, which share Mnih et al.'s torso (2015)."""
    torso = nn.Sequential(
        Scaled(), ConvNet(in_features=4, num_cells=[32, 64, 64], kernel_sizes=[8, 4, 3], strides=[4, 2, 1],
                          activation_class=nn.ReLU), nn.Linear(64 * 7 * 7, 512), nn.ReLU())
    policy = ProbabilisticActor(
        TensorDictModule(nn.Linear(512, actions.space.n), in_keys=[FEATURES], out_keys=["logits"]),
        in_keys=["logits"], spec=Composite(action=actions), distribution_class=OneHotCategorical, return_log_prob=True)
    both = ActorValueOperator(TensorDictModule(torso, in_keys=[SEEN], out_keys=[FEATURES]), policy,
                              ValueOperator(nn.Linear(512, 1), in_keys=[FEATURES]))
    return both.get_policy_operator(), both.get_value_operator()


def collector_of(setting: dict[str, Any], actor: Any) -> Any:
    """Gives batches of [environments, unroll]: of all environments, or of one worker's where it is asynchronous."""
    kind, wanted = setting["environments"], setting["collector"]
    if wanted == "single":
        return Collector(make(kind, ENVIRONMENTS), actor, frames_per_batch=UPDATE, total_frames=-1)
    makers = [partial(make, kind, ENVIRONMENTS // WORKERS)] * WORKERS
    if wanted == "sync":
        return MultiSyncCollector(makers, actor, frames_per_batch=UPDATE, total_frames=-1, cat_results=0)
    return MultiAsyncCollector(makers, actor, frames_per_batch=UPDATE // WORKERS, total_frames=-1)


def measure(meter: Meter, setting: dict[str, Any]) -> dict[str, Any]:
    torch.set_num_threads(setting["threads"])
    actor, critic = networks(make("vector", 1).action_spec_unbatched)
    advantage = VTrace(gamma=0.99, actor_network=actor, value_network=critic, shifted=setting["shifted"])
    loss = A2CLoss(actor_network=actor, critic_network=critic, entropy_coeff=0.01, critic_coeff=0.5)
    optimizer = torch.optim.Adam(loss.parameters(), lr=6e-4, eps=1e-5)
    collector, updates = collector_of(setting, actor), 0
    try:
        waiting: list[TensorDictBase] = []
        for part in collector:
            waiting.append(part.clone() if setting["collector"] == "async" else part)
            if sum(one.numel() for one in waiting) < UPDATE:
                continue
            batch = torch.cat(waiting) if len(waiting) > 1 else waiting[0]
            waiting = []
            with torch.no_grad():
                batch = advantage(batch)
            losses = loss(batch.reshape(-1))
            (losses["loss_critic"] + losses["loss_objective"] + losses["loss_entropy"]).backward()
            nn.utils.clip_grad_norm_(loss.parameters(), 0.5)
            optimizer.step()
            optimizer.zero_grad()
            collector.update_policy_weights_()
            updates += 1
            if meter.see(updates * UPDATE):
                break
    finally:
        collector.shutdown()
    return {"counter": "steps of the updates that the training loop has done",
            "version": version("torchrl")}
