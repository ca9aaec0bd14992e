"""What the programs among the examples compute, by NumPy: prints programs.json."""

import json
import math
import re
from collections import Counter

import numpy as np


def table(m, n, value):
    return np.array([[value(i, j) for j in range(n)] for i in range(m)])


def pca():
    points = table(300, 4, lambda i, j: np.sin(i * (j + 1)) + (2 * np.cos(3 * i) if j == 0 else j * np.cos(i)))
    return [np.linalg.eigvalsh(np.cov(points.T))[-1]]


def mlp():
    def wave(m, n, scale):
        return table(m, n, lambda i, j: np.sin(scale * (3 * i + 7 * j + 1)) / 2)

    x = wave(6, 8, 1)
    h = x @ wave(8, 24, 0.7) + wave(24, 1, 0.3).T
    gelu = h / 2 * (1 + np.vectorize(math.erf)(h / np.sqrt(2)))
    y = gelu @ wave(24, 8, 1.3) + wave(8, 1, 2.1).T + x
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
    n = 200
    x = np.linalg.solve(2 * np.eye(n) - np.eye(n, k=1) - np.eye(n, k=-1), np.full(n, 1 / (n + 1) ** 2))
    return [np.linalg.norm(x), x[n // 2]]


def k_means():
    points = table(300, 2, lambda i, j: 2 * np.sin(5 * i * i + 3 * j) + (10 * (i % 3) if j == 0 else 0))
    centres = np.array([[1, 0.5], [7, 0.5], [13, 0.5]])
    for _ in range(10):
        squares = ((points[:, None] - centres) ** 2).sum(2)
        nearest = squares.argmin(1)
        centres = np.array([points[nearest == k].mean(0) for k in range(3)])
    return [squares.min(1).sum()]


def arrow():
    i = np.arange(1000)
    density = (3 + np.cos(i / 80)) / (np.sin(i / 50) ** 2 + 1)
    return [1000, density.mean(), 700, (density[700] - density.mean()) / density.std()]


programs = [pca, mlp, ridge_regression, jacobi, ring, master_worker, word_count, conjugate_gradients, k_means, arrow]
print(json.dumps({program.__name__: [float(x) for x in program()] for program in programs}, indent=1))
