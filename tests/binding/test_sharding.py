"""Kernels on several devices: eight of the host in one process, and two processes that talk over gloo."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from . import sharded_programs

HERE = Path(__file__).resolve().parent


def environment(devices: int) -> dict[str, str]:
    flags = f"--xla_force_host_platform_device_count={devices}"
    return {**os.environ, "XLA_FLAGS": flags, "JAX_PLATFORMS": "cpu"}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    """What went wrong in each check, all run in one process."""
    command = [sys.executable, str(HERE / "sharded_programs.py")]
    ran = subprocess.run(command, env=environment(8), capture_output=True, text=True, timeout=600)
    assert ran.returncode == 0, ran.stderr
    found: dict[str, str] = json.loads(ran.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("name", sharded_programs.CHECKS)
def test_on_eight_devices(outcomes: dict[str, str], name: str) -> None:
    assert not outcomes[name], outcomes[name]


def test_in_two_processes() -> None:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        port = probe.getsockname()[1]
    commands = [[sys.executable, str(HERE / "distributed_program.py"), str(port), str(i)] for i in range(2)]
    running = [
        subprocess.Popen(c, env=environment(2), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for c in commands
    ]
    try:
        for process in running:
            out, err = process.communicate(timeout=300)
            assert process.returncode == 0, err
            assert out.splitlines()[-1] == "agrees"
    finally:
        for process in running:
            process.kill()
