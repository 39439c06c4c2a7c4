"""Writes rlax_numbers.json: what rlax says of random inputs, with which `test_rlax.py` compares our functions.

rlax needs an environment of its own: python -m venv build/rlax; build/rlax/bin/pip install rlax==0.1.9;
JAX_ENABLE_X64=1 build/rlax/bin/python tests/algorithms/rlax_numbers.py
"""

import json
from pathlib import Path

import jax
import numpy as np
import rlax

T, A = 7, 4


def main() -> None:
    random = np.random.default_rng(0)
    r_t, values = random.normal(size=T), random.normal(size=T + 1)
    discount_t = 0.97 * (random.random(T) > 0.2)
    log_rho = random.normal(size=T) * 0.5
    advantages, log_probs = random.normal(size=2 * T), np.log(random.random(2 * T))
    mu, pi = (np.log(random.dirichlet(np.ones(A), T)) for _ in range(2))
    q, target_q = random.normal(size=(T, A)), random.normal(size=(T, A))
    actions = random.integers(0, A, T)
    kl = random.random(T)
    targets, weight, bias = random.normal(3.0, 20.0, (2, T)), random.normal(size=A), random.normal(size=1)

    corrected = rlax.vtrace_td_error_and_advantage(
        values[:-1], values[1:], r_t, discount_t, np.exp(log_rho), 0.9, 1.2, 1.0)
    corrected_1 = rlax.vtrace_td_error_and_advantage(
        values[:-1], values[1:], r_t, discount_t, np.exp(log_rho), 1.0, 1.2, 1.0)
    pair = rlax.SIGNED_HYPERBOLIC_PAIR
    double_q = np.array(target_q)[np.arange(T), q.argmax(-1)]
    temperature, alpha = rlax.LagrangePenalty(0.7, 0.1, False), rlax.LagrangePenalty(3.0, 0.05, False)

    initial_state, popart_update = rlax.popart(1, 0.1 / T, 1e-4, 1e6)  # rlax adds up steps where we average
    popart, params = [], {"w": weight[:, None], "b": bias}
    state = initial_state()
    for number in range(2):
        params, state = popart_update(params, state, targets[number], np.zeros(T, np.int64))
        popart.append([state.shift[0], state.second_moment[0], state.scale[0], *params["w"][:, 0], params["b"][0]])

    def vmpo(of_temperature: float, of_alpha: float) -> tuple[float, float]:
        loss, weights, _ = rlax.vmpo_compute_weights_and_temperature_loss(
            advantages, np.ones(2 * T), np.ones(2 * T), temperature._replace(alpha=of_temperature), lambda x: x, 0.5)
        penalty, dual = rlax.compute_parametric_kl_penalty_and_dual_loss(
            [(kl, alpha._replace(alpha=of_alpha))], lambda x: x, True)
        return loss + (penalty + dual).mean(), -(weights * log_probs).sum()

    numbers = {
        "inputs": {
            "r_t": r_t, "values": values, "discount_t": discount_t, "log_rho": log_rho, "advantages": advantages,
            "log_probs": log_probs, "mu": mu, "pi": pi, "q": q, "target_q": target_q, "actions": actions, "kl": kl,
            "targets": targets, "weight": weight, "bias": bias,
        },
        "gae": rlax.truncated_generalized_advantage_estimation(r_t, discount_t, 0.9, values),
        "vtrace_errors": corrected.errors, "vtrace_pg_advantage": corrected.pg_advantage,
        "vtrace_pg_advantage_of_1": corrected_1.pg_advantage,
        "clipped_surrogate": rlax.clipped_surrogate_pg_loss(np.exp(log_rho), advantages[:T], 0.2),
        "categorical_kl": rlax.categorical_kl_divergence(mu, pi),
        "rescaled": pair.apply(values), "unrescaled": pair.apply_inv(values),
        "transformed_n_step": rlax.transformed_n_step_returns(pair, r_t, discount_t, double_q, 3),
        "vmpo": vmpo(0.7, 3.0), "vmpo_temperature_slope": jax.grad(lambda eta: vmpo(eta, 3.0)[0])(0.7),
        "vmpo_alpha_slope": jax.grad(lambda a: vmpo(0.7, a)[0])(3.0),
        "popart": popart,
    }
    plain = jax.tree_util.tree_map(lambda value: np.asarray(value).tolist(), numbers)
    Path(__file__).with_suffix(".json").write_text(json.dumps(plain, indent=1) + "\n")


if __name__ == "__main__":
    main()
