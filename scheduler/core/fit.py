"""A straight line through recent measurements, by least squares with older ones fading.

Times grow with what is asked for: a prefill with its tokens, a step with the requests that
share it. Two means, a variance and a covariance are all that is kept, so that learning is a few
additions (Welford's update with exponential weights).
"""

from dataclasses import dataclass

# Measurements that count as much as all older ones together.
MEMORY = 64.0
# A measurement so many times shorter than expected says that the line is wrong.
FAR = 16.0
# One so many times longer counts as no longer than that: an engine that lets a request wait, for
# memory say, is not a slow one. What stays slow is believed in the end.
MOST = 2.0
# Measurements until a line is believed that much.
FIRST = 4.0
# Of the spread of x that a line of one measurement is taken to have seen already.
STIFFNESS = 0.25


@dataclass(slots=True)
class Fit:
    """``y = base + slope * x``. Until x has varied the slope is that of a line through (-``scale``,
    0) and the mean: with ``scale`` 0 all of y is taken to grow with x, with a large one little of
    it is. Neither part is ever negative. ``weight`` counts measurements, fading."""

    scale: float = 0.0
    weight: float = 0.0
    x: float = 0.0
    y: float = 0.0
    spread: float = 0.0
    shared: float = 0.0
    base: float = 0.0
    slope: float = 0.0

    def learn(self, x: float, y: float) -> None:
        """Take one measurement in."""
        usual = self.base + self.slope * x
        if self.weight and y * FAR < usual:
            self.weight /= 2.0
        elif self.weight >= FIRST and usual > 0.0:
            y = min(y, MOST * usual)
        weight = self.weight = min(MEMORY, self.weight + 1.0)
        part = 1.0 / weight
        off_x, off_y = x - self.x, y - self.y
        self.x += part * off_x
        self.y += part * off_y
        keep = 1.0 - part
        self.spread = keep * (self.spread + part * off_x * off_x)
        self.shared = keep * (self.shared + part * off_x * off_y)
        mean_x, mean_y = self.x, self.y
        steep = mean_y / (mean_x + self.scale) if mean_x + self.scale else 0.0
        stiff = STIFFNESS * mean_x * mean_x / weight
        total = self.spread + stiff
        slope = (self.shared + stiff * steep) / total if total else steep
        most = mean_y / mean_x if mean_x else 0.0
        self.slope = min(max(slope, 0.0), most)
        self.base = mean_y - self.slope * mean_x

    def at(self, x: float) -> float:
        """What to expect of x; 0 as long as nothing was measured."""
        return self.base + self.slope * x
