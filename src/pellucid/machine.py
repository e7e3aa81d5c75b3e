"""What this process may use of the machine: a container often has fewer cores and less memory than the host shows."""

from __future__ import annotations

import ctypes
import os
import platform
from pathlib import Path


def available_cores() -> int:
    """Cores that this process may run on: its affinity, and the quota of its control group (versions 1 and 2)."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = _cgroup_quota()
    return max(1, min(cores, int(quota)) if quota else cores)


def _cgroup_quota() -> float | None:
    quota = _read("/sys/fs/cgroup/cpu.max")
    if quota:
        limit, _, span = quota.partition(" ")
        return None if limit == "max" else max(1.0, float(limit) / float(span or 100000))
    old, period = _read("/sys/fs/cgroup/cpu/cpu.cfs_quota_us"), _read("/sys/fs/cgroup/cpu/cpu.cfs_period_us")
    if old and period and int(old) > 0:
        return max(1.0, int(old) / int(period))
    return None


def available_memory() -> int | None:
    """Bytes that this process could still get, or None where the system does not say."""
    free = None
    for line in (_read("/proc/meminfo") or "").splitlines():
        if line.startswith("MemAvailable:"):
            free = int(line.split()[1]) * 1024
    limit, used = _read("/sys/fs/cgroup/memory.max"), _read("/sys/fs/cgroup/memory.current")
    if limit and used and limit != "max":
        left = max(0, int(limit) - int(used))
        free = left if free is None else min(free, left)
    return free


def processor_name() -> str:
    """What the processor calls itself, or as much as the system says."""
    for line in (_read("/proc/cpuinfo") or "").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def keep_freed_memory() -> None:
    """Tell the C library to keep what is freed for what is asked for next. Does nothing where it is not glibc's.

    A training step frees some hundred megabytes and asks for as many again. By default glibc hands large pieces back to
    the system each time, which must then clear and map them anew: a tenth of a step of a small model.
    """
    trim_threshold, mmap_threshold, largest_mmap_threshold = -1, -3, 32 << 20  # <malloc.h>; more is refused
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, AttributeError, TypeError):
        return
    mallopt(mmap_threshold, largest_mmap_threshold)
    mallopt(trim_threshold, 2**31 - 1)


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError):
        return None
