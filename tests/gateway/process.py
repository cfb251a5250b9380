"""What a test can see of this process's memory."""

from pathlib import Path

STATUS = Path("/proc/self/status")
CLEAR = Path("/proc/self/clear_refs")


def _kilobytes(field: str) -> int:
    for line in STATUS.read_text(encoding="utf-8").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1])
    raise AssertionError(f"the kernel tells no {field}")


class PeakMemory:
    """How much the resident memory rose at most since this was made, in bytes."""

    def __init__(self) -> None:
        CLEAR.write_text("5", encoding="utf-8")  # the peak is what is held now
        self._start = _kilobytes("VmRSS")

    @property
    def grown(self) -> int:
        """Bytes over the start, at the worst moment."""
        return (_kilobytes("VmHWM") - self._start) * 1024
