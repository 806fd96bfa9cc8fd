"""The layers of the ziggurat cover the normal density in parts of one area."""

import math

import numpy as np
import scipy.integrate

from stodyn.noise.ziggurat import TAIL, layer_table


def test_layers_have_equal_area_under_the_density():
    threshold, width, rise, height = layer_table().reshape(2, 256, 4)[0].T
    x = width * 2.0**52
    np.testing.assert_allclose(height[1:], np.exp(-0.5 * x[1:] ** 2), rtol=1e-14)
    np.testing.assert_allclose(rise[1:] + height[1:], [1.0, *height[1:-1]], rtol=1e-15)
    base = TAIL * math.exp(-0.5 * TAIL**2)
    tail = scipy.integrate.quad(lambda x: math.exp(-0.5 * x * x), TAIL, np.inf, epsabs=1e-16)[0]
    np.testing.assert_allclose(x[0] * math.exp(-0.5 * TAIL**2), base + tail, rtol=1e-12)
    np.testing.assert_allclose(x[1:] * rise[1:], base + tail, rtol=1e-12)
    np.testing.assert_allclose(threshold[2:] * 2.0**-52, x[1:-1] / x[2:], rtol=1e-12)
    assert threshold[1] == 0
    np.testing.assert_array_equal(
        layer_table().reshape(2, 256, 4)[1], np.stack([threshold, -width, rise, height], axis=1)
    )
