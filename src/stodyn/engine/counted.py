"""Blocks on GPUs: normals by counter, the steps of a call as one kernel where that is possible."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import jax
import numpy as np

from stodyn.engine import batch
from stodyn.engine.block import LONGEST_WINDOW, MOST_SAVES, BlockRunner, Windows
from stodyn.engine.kernel import GROUP, CountedProgram
from stodyn.engine.layout import Layout, Members
from stodyn.engine.programs import Way, plan_of
from stodyn.engine.spec import Spec
from stodyn.noise import counter
from stodyn.problems.contract import first_line
from stodyn.statistics.contract import Statistic

WIDEST_BLOCK = 2**23
BLOCK_BYTES = 2**30
SAVED_BYTES = 2**31
KERNEL_OPERATIONS = 1500  # beyond this many scalar operations a step a kernel takes half a minute to compile


class BlockHalved(UserWarning):
    """A block did not fit the device's memory."""


def is_out_of_memory(error: Exception) -> bool:
    """Whether an error is a device's want of memory."""
    return "Out of memory" in str(error) or "out of memory" in str(error)


def block_width(paths: int, scalars: int) -> int:
    """Lanes in a block whose normals are counted: as few blocks as a GPU's memory allows, with few idle lanes.

    The numbers come in sixteenths of a power of two, so that runs of about the same size share a program.
    """
    most = min(WIDEST_BLOCK, max(BLOCK_BYTES // (8 * scalars), GROUP))
    share = -(-paths // -(-paths // most))
    unit = max(2 ** (share.bit_length() - 5), GROUP)
    return min(-(-share // unit) * unit, most // GROUP * GROUP)


class Counted(Way):
    """Blocks that go round the devices; without any, the processor interprets their kernels."""

    name = "kernel"
    normals = counter.NAME

    def __init__(self, spec: Spec, executor: str, devices: tuple[Any, ...], width: int):
        self.spec, self.executor, self.devices = spec, executor, devices
        self._width = width
        with jax.enable_x64(True):
            wanted = "auto" if executor in ("kernel", "printed") else executor
            run, reason = batch.executor(spec.traced, width, wanted)  # type: ignore[arg-type]
            self.run = dataclasses.replace(run, on_gpu=True) if isinstance(run, batch.Lanes) else run
        self.reason = reason

    @property
    def width(self) -> int:
        return self._width

    def block(self, layout, block, tell):
        count, number = layout.paths_in(block), block % len(self.runners)
        runner = self.runners[number]
        with jax.default_device(self.devices[number] if self.devices else jax.devices("cpu")[0]):
            generators = runner.program.generators(layout.seed, block)
            return runner.run(generators, None, self.members(layout, block), lambda steps: tell(steps * count))

    def members(self, layout: Layout, block: int) -> Members:
        """Without what a device can make itself: how many lanes are paths, and one lane of a start common to all."""
        given = layout.members(block)
        start = given.start[:, :1] if layout.has_common_start else given.start
        return Members(np.asarray(layout.paths_in(block)), np.ones(1, self.spec.dtype), np.ascontiguousarray(start),
                       given.params)  # fmt: skip

    @functools.cached_property
    def windows(self) -> Windows:
        traced: Any = self.spec.traced
        plan = plan_of(self.spec)
        apart = int(np.diff(plan.saves).min(initial=self.spec.steps))
        scalars = sum(int(np.prod(shape)) for shape in traced.state_shapes)
        saves = min(MOST_SAVES, max(SAVED_BYTES // (8 * scalars * self.width), 1))
        longest = min(LONGEST_WINDOW, saves * apart, self.spec.steps)
        return Windows(plan.t, plan.h, plan.saves, plan.looks, longest)

    @functools.cached_property
    def runners(self) -> list[BlockRunner]:
        """One for each device."""
        first, *others = self.devices or jax.devices("cpu")[:1]
        program, runner = self._program(first)
        return [runner, *(self._runner_on(device, program) for device in others)]

    def _program(self, device: Any) -> tuple[CountedProgram, BlockRunner]:
        """A kernel where it can be one, else lanes or vmap on the device."""
        windows = self.windows
        program = CountedProgram(self.run, self.spec.statistics, windows.intervals, self.spec.varies, windows.always,
                                 equal_steps=self.spec.has_equal_steps)  # fmt: skip
        refused = self._no_kernel()
        if refused is None:
            try:
                fused = dataclasses.replace(program, kernel="interpreted" if device.platform == "cpu" else "gpu")
                return fused, self._runner_on(device, fused)
            except Exception as error:  # a compiler's refusal has no class of its own: Triton, LLVM, ptxas, XLA
                if is_out_of_memory(error):
                    raise
                refused = f"no kernel: {first_line(error)[:200]}"
        if self.executor == "kernel":
            raise ValueError(f'executor="kernel" is not possible for this problem and method: {refused}')
        self.name, self.reason = self.run.name, refused
        return program, self._runner_on(device, program)

    def _no_kernel(self) -> str | None:
        """Why the run is not tried as a kernel."""
        if self.executor in ("lanes", "vmap"):
            return "asked for"
        if isinstance(self.run, batch.Vmap):
            return self.reason
        tracking = [type(s).__name__ for s in self.spec.statistics if type(s).track is not Statistic.track]
        if tracking:
            return f"{tracking[0]} looks at every step"
        operations = batch.lane_operations(self.spec.traced)  # type: ignore[arg-type]
        if operations > KERNEL_OPERATIONS and self.executor == "auto":
            return f"{operations} scalar operations a step, more than {KERNEL_OPERATIONS}"
        return None

    def _runner_on(self, device: Any, program: CountedProgram) -> BlockRunner:
        example = self.members(Layout(self.spec, self.width, 0, self.width), 0)
        with jax.default_device(device), jax.enable_x64(True):
            return BlockRunner(program, self.windows, example)
