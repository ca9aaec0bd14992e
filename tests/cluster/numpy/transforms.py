"""What NumPy's numpy.fft makes of some arrays, for the tests to compare with: python3 transforms.py > transforms.json"""

import json
import numpy as np

SHAPES = [[12], [5], [6, 5], [3, 4, 5]]
NORMS = ["backward", "ortho", "forward"]
FUNCTIONS = {"fft": np.fft.fftn, "ifft": np.fft.ifftn, "rfft": np.fft.rfftn, "irfft": np.fft.irfftn}


def values(shape, is_complex):
    """Numbers by their places row by row, as the tests make them, too."""
    place = np.arange(np.prod(shape)).reshape(shape)
    real = place * 7 % 11 - 5.0
    return real + 1j * (place * 5 % 13 - 6.0) if is_complex else real


def numbers(array):
    """Real and imaginary parts by turns, or real numbers alone."""
    flat = array.ravel()
    parts = flat.view(np.float64) if np.iscomplexobj(flat) else flat
    return [float(f"{x:.15g}") + 0.0 for x in parts]


def cases():
    count = 0
    for shape in SHAPES:
        every = list(range(len(shape)))
        for axes in [every] if len(shape) == 1 else [every, [len(shape) - 1], [0]]:
            for name, function in FUNCTIONS.items():
                for parity in ["even", "odd"] if name == "irfft" else [None]:
                    norm = NORMS[count % 3]
                    count += 1
                    operand = values(shape, name != "rfft")
                    extents = {}
                    if name == "irfft":
                        last = 2 * (shape[axes[-1]] - 1) + (parity == "odd")
                        extents = {"s": [shape[d] for d in axes[:-1]] + [last]}
                    result = function(operand, axes=axes, norm=norm, **extents)
                    case = {"name": name, "shape": shape, "axes": axes, "norm": norm, "parity": parity}
                    yield {**case, "result": list(result.shape), "numbers": numbers(np.ascontiguousarray(result))}


print(json.dumps({"numpy": np.__version__, "cases": list(cases())}))
