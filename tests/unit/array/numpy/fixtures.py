"""What NumPy makes of some values, for the tests to compare with: python3 fixtures.py > fixtures.json"""

import json
import math
import numpy as np

np.seterr(all="ignore")

SPECIAL = [-np.inf, -2.5, -1.0, -0.5, -0.0, 0.0, 0.25, 1.0, 1.5, 2.0, 3.0, np.inf, np.nan]
INTEGERS = [-128, -7, -1, 0, 1, 2, 3, 100, 127]
COMPLEX = [0, 1, -1, 1j, 3 - 4j, -0.5 + 2j, 1e200 + 1e200j]
NAMES = {
    "negative": "negative", "abs": "abs", "sign": "sign", "square": "square", "sqrt": "sqrt", "exp": "exp", "expm1": "expm1",
    "log": "log", "log1p": "log1p", "log2": "log2", "log10": "log10", "sin": "sin", "cos": "cos", "tan": "tan",
    "asin": "arcsin", "acos": "arccos", "atan": "arctan", "sinh": "sinh", "cosh": "cosh", "tanh": "tanh", "floor": "floor",
    "ceil": "ceil", "trunc": "trunc", "round": "rint", "isNaN": "isnan", "isFinite": "isfinite",
    "logicalNot": "logical_not", "conj": "conj", "real": "real", "imag": "imag",
}
PAIRS = {
    "add": "add", "subtract": "subtract", "multiply": "multiply", "divide": "divide", "power": "power",
    "minimum": "minimum", "maximum": "maximum", "atan2": "arctan2", "equal": "equal", "notEqual": "not_equal",
    "less": "less", "lessEqual": "less_equal", "greater": "greater", "greaterEqual": "greater_equal",
    "logicalAnd": "logical_and", "logicalOr": "logical_or", "logicalXor": "logical_xor",
}
OF_INTEGERS = ["negative", "abs", "sign", "square", "conj", "logicalNot"]
OF_INTEGER_PAIRS = ["add", "subtract", "multiply", "minimum", "maximum", "equal", "less", "logicalAnd", "logicalXor"]
OF_COMPLEX = ["negative", "abs", "square", "sqrt", "exp", "log", "sin", "cos", "sinh", "cosh", "tanh", "conj", "real", "imag"]
OF_COMPLEX_PAIRS = ["add", "subtract", "multiply", "divide", "power", "equal", "notEqual"]
DTYPES = ["int8", "uint8", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128"]


def number(x):
    """A number as JSON has it; text for what JSON has not."""
    x = float(x)
    if np.isnan(x):
        return "NaN"
    if np.isinf(x):
        return "Infinity" if x > 0 else "-Infinity"
    return "-0" if x == 0 and np.signbit(x) else x


def flat(values):
    values = np.asarray(values)
    if values.dtype.kind == "c":
        values = np.stack([values.real, values.imag], axis=-1)
    return [number(x) for x in values.ravel()]


def pairs(values, dtype):
    a = np.array(values, dtype=dtype)
    return np.repeat(a, len(a)), np.tile(a, len(a))


fixtures = {
    "promotion": {a: {b: np.promote_types(a, b).name for b in DTYPES} for a in DTYPES},
    "special": [number(x) for x in SPECIAL],
    "integers": INTEGERS,
    "complex": flat(np.array(COMPLEX)),
    "float64": {
        **{js: flat(getattr(np, f)(np.array(SPECIAL))) for js, f in NAMES.items()},
        **{js: flat([getattr(math, js)(x) for x in SPECIAL]) for js in ("erf", "erfc")},
        **{js: flat(getattr(np, f)(*pairs(SPECIAL, float))) for js, f in PAIRS.items()},
    },
    "float32": {js: flat(getattr(np, f)(*pairs(SPECIAL, np.float32))) for js, f in PAIRS.items() if js not in ("power", "atan2")},
    "int8": {
        **{js: flat(getattr(np, NAMES[js])(np.array(INTEGERS, dtype=np.int8))) for js in OF_INTEGERS},
        **{js: flat(getattr(np, PAIRS[js])(*pairs(INTEGERS, np.int8))) for js in OF_INTEGER_PAIRS},
    },
    "complex128": {
        **{js: flat(getattr(np, NAMES[js])(np.array(COMPLEX))) for js in OF_COMPLEX},
        **{js: flat(getattr(np, PAIRS[js])(*pairs(COMPLEX, complex))) for js in OF_COMPLEX_PAIRS},
    },
}
GRID = np.array([[(3 * i + 5 * j) % 7 - 2.5 for j in range(5)] for i in range(7)])
REDUCTIONS = ["sum", "prod", "mean", "var", "std", "min", "max", "argmin", "argmax", "all", "any"]
fixtures["grid"] = flat(GRID)
fixtures["reductions"] = {
    name: {str(axis): flat(getattr(np, name)(GRID, axis=axis)) for axis in (None, 0, 1)} for name in REDUCTIONS
}
fixtures["reductions"]["norm1"] = {str(axis): flat(np.sum(np.abs(GRID), axis=axis)) for axis in (None, 0, 1)}
fixtures["reductions"]["norm2"] = {str(axis): flat(np.linalg.norm(GRID.ravel() if axis is None else GRID, axis=axis)) for axis in (None, 0, 1)}
fixtures["reductions"]["normInfinity"] = {str(axis): flat(np.max(np.abs(GRID), axis=axis)) for axis in (None, 0, 1)}
CUBE = np.array([[[np.sin(i + 10 * j + 100 * k) for k in range(4)] for j in range(3)] for i in range(5)])
ORDS = {"fro": "fro", "1": 1, "Infinity": np.inf}
fixtures["matrixNorms"] = {
    js: {"None": flat(np.linalg.norm(GRID, ord)), **{f"{r},{c}": flat(np.linalg.norm(CUBE, ord, axis=(r, c))) for r, c in ((1, 2), (0, 1), (2, 0))}}
    for js, ord in ORDS.items()
}
ERROR_POINTS = [s * x for x in (1e-300, 1e-9, 0.1, 0.49, 0.5, 0.51, 0.7, 0.99, 1.3, 1.9, 2.6, 3.3, 4.7, 5.9, 7.7, 12.3, 19.9, 26.1) for s in (1, -1)]
fixtures["errorFunction"] = {"x": ERROR_POINTS, **{js: [getattr(math, js)(x) for x in ERROR_POINTS] for js in ("erf", "erfc")}}
TEXTS = [
    ("float64", [3], [1.0, 2.5, -3.0]),
    ("float64", [3], [0.1, 1 / 3, 100.0]),
    ("float64", [4], [1e-5, 1.0, 2.0, 3.0]),
    ("float64", [3], [1e10, -1.5, 123456789.123456789]),
    ("float64", [2], [1e300, 1e-300]),
    ("float64", [4], [0.0, -0.0, 0.5, 999.0]),
    ("float64", [4], [np.nan, np.inf, -np.inf, 1.25]),
    ("float64", [2], [np.nan, np.nan]),
    ("float64", [2], [np.inf, -np.inf]),
    ("float64", [3], [np.nan, 1e20, -1e-20]),
    ("float64", [2], [1e7, 12345.678]),
    ("float64", [2], [0.123456785, 0.1]),
    ("float32", [3], [0.1, 1 / 3, 1e-3]),
    ("float32", [2], [16777216.0, 3.1]),
    ("float16", [3], [0.1, 1000.0, -3.14]),
    ("float16", [3], [-7648.0, 19168.0, 56128.0]),
    ("float16", [4], [46.625, 63.125, 0.75, -218.25]),
    ("float32", [3], [3238.28125, 2355.8901, -1706.8611]),
    ("float32", [2], [2500000.0, 30000.25]),
    ("float64", [4], [-9276135.625, 17766803.0, -2.0, 4437246.375]),
    ("float64", [2], [0.00390625 + 2**-13, 9.5]),
    ("int32", [2, 3], [1, -20, 300, 4, 5, 6]),
    ("uint8", [3], [0, 1, 255]),
    ("int64", [2], [2**62, -1]),
    ("complex128", [3], [1 + 2j, -0.5 - 1.25j, 1e-3]),
    ("complex64", [2], [0.1 + 1j, -3j]),
    ("complex128", [2], [complex(np.nan, 1), complex(1, -np.inf)]),
    ("float64", [2, 2, 2], [1, 2, 3, 4, 5, 6, 7, 8]),
    ("float64", [2, 0], []),
    ("int32", [30], list(range(1000, 1030))),
    ("float64", [4, 12], [i / 7 for i in range(48)]),
    ("int32", [2000], list(range(2000))),
    ("float64", [40, 40], [i * 0.5 for i in range(1600)]),
    ("float64", [3, 400], [i * 1.0 for i in range(1200)]),
    ("int32", [9, 9, 20], list(range(1620))),
]
fixtures["texts"] = [
    {"dtype": t, "shape": shape, "values": flat(np.array(v, dtype=t)), "text": str(np.array(v, dtype=t).reshape(shape))}
    for t, shape, v in TEXTS
]
print(json.dumps(fixtures, separators=(",", ":")).replace('},"', '},\n"'))
