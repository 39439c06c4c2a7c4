"""Environments behind one contract: Atari (native), any Gymnasium id, and factories typed in a notebook."""

from workbench.environments.contract import VectorEnvironment
from workbench.environments.registry import check_name, make, make_configured, register_environment, registered_factory

__all__ = ["VectorEnvironment", "check_name", "make", "make_configured", "register_environment", "registered_factory"]
