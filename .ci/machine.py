"""Prints the machine that the tests run on: its processor, and the versions of Python and JAX."""

import os
import platform
import subprocess
from pathlib import Path

import jax
import jaxlib


def processor() -> str:
    """The processor's own name; ARM's kernels give none, lscpu knows them by their numbers."""
    try:
        told = subprocess.run(["lscpu"], capture_output=True, text=True, env=os.environ | {"LC_ALL": "C"}).stdout
    except FileNotFoundError:
        told = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    fields = dict(line.split(":", 1) for line in told.splitlines() if ":" in line)
    fields = {name.strip().lower(): value.strip() for name, value in fields.items()}
    return fields.get("model name") or platform.processor() or "unknown"


print(
    f"{platform.machine()}, {processor()}, {os.cpu_count()} cores; Python {platform.python_version()}, "
    f"JAX {jax.__version__}, jaxlib {jaxlib.__version__}"
)
