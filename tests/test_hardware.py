"""What a machine has, from files as Linux writes them."""

from __future__ import annotations

import os

import pytest
import torch

from tests.conftest import write_files
from workbench.config import chosen, hardware

ALLOWED = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(("files", "cores"), [
    ({}, ALLOWED),
    ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, ALLOWED),
    ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"}, 1),
    ({"proc/self/cgroup": "0::/pod/job\n", "sys/fs/cgroup/pod/job/cpu.max": "max 100000\n",
      "sys/fs/cgroup/pod/cpu.max": "100000 100000\n"}, 1),
    ({"proc/self/cgroup": "3:cpuset:/\n1:cpu,cpuacct:/docker/a\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "90000\n",
      "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, 1),
    ({"proc/self/cgroup": "1:cpu:/\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
      "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, ALLOWED),
    ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": f"{100000 * 10**4} 100000\n"}, ALLOWED),
], ids=["no files", "no limit", "half a core", "of a parent", "version 1", "version 1 without", "more than there are"])
def test_cores_are_those_of_the_affinity_or_fewer_by_the_quota(tmp_path, files, cores):
    assert hardware.cores(write_files(tmp_path, files)) == cores


@pytest.mark.parametrize(("text", "has", "bf16"), [
    ("vendor_id\t: AuthenticAMD\nmodel name\t: AMD EPYC\nflags\t\t: fpu avx avx2 fma\n", ("avx2",), False),
    ("vendor_id\t: AuthenticAMD\nflags\t: avx2 avx512f avx512_bf16\n", ("avx2", "avx512f", "avx512_bf16"), True),
    ("vendor_id\t: GenuineIntel\nflags\t: avx2 avx512f avx512_bf16\n", ("avx2", "avx512f", "avx512_bf16"), False),
    ("vendor_id\t: GenuineIntel\nflags\t: avx2 amx_bf16 amx_tile\n", ("avx2", "amx_tile", "amx_bf16"), True),
    ("Features\t: fp asimd bf16 sve\n", ("asimd", "sve", "bf16"), False),
    ("", (), False),
])
def test_instruction_sets_that_matter_are_read_and_decide_on_bf16(tmp_path, text, has, bf16):
    root = write_files(tmp_path, {"proc/cpuinfo": text})
    found = hardware.instructions(root)
    assert found == has
    assert chosen.faster_in_bf16("cpu", instructions=found, maker=hardware.maker(root)) == bf16


def test_bf16_of_this_cpu_is_what_torch_says():
    found = {"avx512_bf16": torch.cpu._is_avx512_bf16_supported(), "amx_tile": torch.cpu._is_amx_tile_supported()}
    assert {name: name in hardware.instructions() for name in found} == found


def test_the_build_of_torch_is_known_without_loading_it():
    assert hardware.torch_build() == (torch.version.cuda or torch.version.hip or "")


def test_several_gpus_are_told_with_number_and_capability(tmp_path, monkeypatch):
    says = "#!/bin/sh\nfor i in 1 2; do echo 'A100, 81920, 8.0'; done\n"
    write_files(tmp_path, {"dev/nvidiactl": "", "nvidia-smi": says})
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    assert hardware.accelerator({}, tmp_path) == hardware.Accelerator("cuda", "2 x A100, 80 GiB", (8, 0))


@pytest.mark.parametrize(("asked", "has_cuda", "variable", "device"), [
    ("auto", True, None, "cuda"), ("auto", False, None, "cpu"), ("auto", True, "cpu", "cpu"),
    ("cpu", True, "tpu", "cpu"), ("auto", False, "tpu", "tpu"),
])
def test_a_device_is_as_asked_or_the_kernels_or_what_there_is(asked, has_cuda, variable, device):
    environment = {chosen.DEVICE_VARIABLE: variable} if variable else {}
    assert chosen.device(asked, has_cuda=has_cuda, environment=environment) == device


def test_a_gpu_computes_in_bf16_since_ampere():
    found = [chosen.faster_in_bf16("cuda", capability=one) for one in (None, (7, 5), (8, 0), (9, 0))]
    assert found == [False, False, True, True]


def test_networks_of_ones_own_and_those_without_images_compute_in_fp32():
    def precision(asked="auto", *, images=True, own_network=False, bf16=True):
        return chosen.precision(asked, images=images, own_network=own_network, bf16=bf16)

    assert precision() == "bf16"
    assert {precision(images=False), precision(own_network=True), precision(bf16=False), precision("fp32")} == {"fp32"}
    assert precision("bf16", images=False, own_network=True, bf16=False) == "bf16"


def test_learners_of_a_machine_share_its_threads():
    assert [chosen.training_threads(cores=cores) for cores in (1, 2, 8)] == [1, 1, 4]
    assert [chosen.training_threads(cores=8, learners=number) for number in (2, 3, 16)] == [2, 1, 1]
    assert chosen.training_threads(6, cores=2) == 6
