"""The layers of the ziggurat by which normals are drawn: rectangles of one area under exp(-x²/2)."""

import functools
from decimal import Decimal, localcontext

import numpy as np

LAYERS = 256
TAIL = 3.6541528853610088  # where the tail begins


@functools.cache
def layer_table() -> np.ndarray:
    """Return the table (512, 4) of threshold, signed width, rise and height of each layer, the layers of positive
    normals first.

    The layers, r = x_255 > ... > x_1 > x_0 = 0, have one area, A = r f(r) + ∫_r^∞ f with f(x) = exp(-x²/2), so
    f(x_i) = f(x_(i+1)) + A / x_(i+1); the lowest, the tail under it included, is as wide as A / f(r). Source:
    Marsaglia & Tsang, The ziggurat method for generating random variables, J. Stat. Softw. 5(8) (2000); r as in NumPy.
    """
    with localcontext() as context:
        context.prec = 25  # the recurrence loses about three digits near x = 0
        r = Decimal("3.6541528853610087963519472518")
        mills = r  # 1 / mills = ∫_r^∞ f / f(r), by Laplace's continued fraction
        for k in range(300, 0, -1):
            mills = r + k / mills
        x, f = [Decimal(0)] * LAYERS, [Decimal(1)] * LAYERS
        x[-1], f[-1] = r, (-r * r / 2).exp()
        area = f[-1] * (r + 1 / mills)
        for i in range(LAYERS - 2, 0, -1):
            f[i] = f[i + 1] + area / x[i + 1]
            x[i] = (-2 * f[i].ln()).sqrt()
        base = area / f[-1]
        unit = Decimal(2) ** 52
        table = np.zeros((2, LAYERS, 4))
        table[:, 0, :2] = int(r / base * unit), base / unit
        table[:, 1:, 0] = [int(x[i - 1] / x[i] * unit) for i in range(1, LAYERS)]
        table[:, 1:, 1] = [width / unit for width in x[1:]]
        table[:, 1:, 2] = [f[i - 1] - f[i] for i in range(1, LAYERS)]
        table[:, 1:, 3] = f[1:]
    table[1, :, 1] *= -1.0
    table.flags.writeable = False
    return table.reshape(2 * LAYERS, 4)
