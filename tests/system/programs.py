"""What the programs among the examples compute, by NumPy: prints programs.json."""

import json
import re
from collections import Counter

import numpy as np


def table(m, n, value):
    return np.array([[value(i, j) for j in range(n)] for i in range(m)])


def pca():
    points = table(300, 4, lambda i, j: np.sin(i * (j + 1)) + (2 * np.cos(3 * i) if j == 0 else j * np.cos(i)))
    largest = np.linalg.eigvalsh(np.cov(points.T))[-1]
    return [largest, largest]


def mlp():
    def wave(m, n, scale):
        return table(m, n, lambda i, j: np.sin(scale * (3 * i + 7 * j + 1)) / 2)

    x = wave(6, 8, 1)
    h = x @ wave(8, 24, 0.7)
    gelu = h / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h**3)))
    y = gelu @ wave(24, 8, 1.3) + x
    return [np.linalg.norm(y), y[0, 0]]


def ridge_regression():
    x = table(400, 5, lambda i, j: np.cos(i * (j + 1) / 7))
    y = x @ (np.arange(5) - 1.5) + np.sin(11 * np.arange(400)) / 10
    weights = np.linalg.solve(x.T @ x + 0.5 * np.eye(5), x.T @ y)
    return [*weights, np.linalg.norm(x @ weights - y)]


def jacobi():
    u = np.zeros((24, 24))
    u[0] = np.sin(np.pi * np.arange(24) / 23)
    for _ in range(60):
        u[1:-1, 1:-1] = (u[:-2, 1:-1] + u[2:, 1:-1] + u[1:-1, :-2] + u[1:-1, 2:]) / 4
    return [u.sum(), u[12, 12]]


def ring():
    return [np.sqrt(np.arange(100)).sum()]


def master_worker():
    x = (np.arange(40)[:, None] + (np.arange(1000) + 0.5) / 1000) / 40
    return [(4 / (1 + x**2)).mean()]


def word_count():
    with open("examples/word_count.ts") as file:
        text = file.read().split("`")[1]
    counts = Counter(re.findall("[a-z]+", text.lower()))
    return [count for _, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:5]]


def conjugate_gradients():
    return []  # Compares itself with the exact solution.


def k_means():
    return [205.2412627]  # By NumPy, of the points that DistributedArray.random makes.


def arrow():
    i = np.arange(1000)
    density = (3 + np.cos(i / 80)) / (np.sin(i / 50) ** 2 + 1)
    return [1000, density.mean(), 700, (density[700] - density.mean()) / density.std()]


programs = [pca, mlp, ridge_regression, jacobi, ring, master_worker, word_count, conjugate_gradients, k_means, arrow]
print(json.dumps({program.__name__: [float(x) for x in program()] for program in programs}, indent=1))
