"""Sines and cosines of quotients of floats by rational arithmetic, whatever their size."""

import math
from fractions import Fraction

_PI = Fraction(
    31415926535897932384626433832795028841971693993751058209749445923078164062862089986280348253421170679821480865132823,
    10**115,
)


def sine_and_cosine(position: float, timescale: float) -> tuple[float, float]:
    """Returns both of `position / timescale`, of angles below 1e90."""
    angle = Fraction(position) / Fraction(timescale)
    rest = float(angle - 2 * _PI * round(angle / (2 * _PI)))
    return math.sin(rest), math.cos(rest)
