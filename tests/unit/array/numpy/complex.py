"""What NumPy makes of special and ordinary complex numbers, for the tests to compare with: python3 complex.py > complex.json"""

import json
import numpy as np

np.seterr(all="ignore")

# Of complex64 the large and small ones are those of float32.
PARTS = {
    "complex128": [
        0.0, -0.0, 1.0, -1.0, 0.6, -0.8, np.pi / 2, -20.5, 1e-9, 1e-160, 5e-324, 710.0, -710.25, 1000.0, -1e5, 1e308, -1.7e308,
        np.inf, -np.inf, np.nan,
    ],
    "complex64": [
        0.0, -0.0, 1.0, -0.75, 3.25, -20.5, 2.0**-13, 2.0**-149, 88.9, -89.25, 1e38, -3e38, np.inf, -np.inf, np.nan,
    ],
}
FUNCTIONS = ["sqrt", "exp", "log", "sin", "cos", "sinh", "cosh", "tanh"]


def number(x):
    """A number as JSON has it, as short as its dtype lets it be; text for what JSON has not."""
    if np.isnan(x):
        return "NaN"
    if np.isinf(x):
        return "Infinity" if x > 0 else "-Infinity"
    return "-0" if x == 0 and np.signbit(x) else float(str(x))


def flat(values):
    return [number(x) for x in np.stack([values.real, values.imag], axis=-1).ravel()]


def grid(dtype, parts):
    real = np.float32 if dtype == "complex64" else np.float64
    values = np.empty(len(parts) ** 2, dtype=dtype)
    values.real, values.imag = np.repeat(np.array(parts, dtype=real), len(parts)), np.tile(np.array(parts, dtype=real), len(parts))
    return values


result = {}
for dtype, parts in PARTS.items():
    values = grid(dtype, parts)
    result[dtype] = {"values": flat(values), **{name: flat(getattr(np, name)(values)) for name in FUNCTIONS}}
print(json.dumps(result, separators=(",", ":")).replace('],"', '],\n"'))
