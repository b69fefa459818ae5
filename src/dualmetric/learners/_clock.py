"""Where the time of a fit goes."""

from time import perf_counter


class Clock:
    """Seconds between one call of `stop` and the next, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._begin = perf_counter()

    def stop(self, name: str) -> None:
        """Book the time since the last stop to the given part."""
        now = perf_counter()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._begin
        self._begin = now

    def __str__(self) -> str:
        total = sum(self.seconds.values())
        parts = (f"{name} {seconds:.3f} s" for name, seconds in self.seconds.items())
        return f"{total:.3f} s: {', '.join(parts)}"
