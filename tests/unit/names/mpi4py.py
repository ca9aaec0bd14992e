"""Lists the public names of the mpi4py that is installed, a class or module a line: python3 mpi4py.py > mpi4py.txt"""
import importlib
import inspect
import sys
import textwrap

# As a script this file would be found in place of the package.
sys.path.pop(0)

import mpi4py

mpi4py.rc.initialize = False
from mpi4py import MPI, futures


def public(names):
    return sorted({name for name in names if not name.startswith("_")}, key=lambda name: (name.lower(), name))


def show(owner, names):
    print(*textwrap.wrap(" ".join(names), 118 - len(owner), initial_indent=f"{owner}: ", subsequent_indent=f"{owner}: "), sep="\n")


print(f"# mpi4py {mpi4py.__version__}, listed by mpi4py.py")
show("MPI", public(dir(MPI)))
for name in public(dir(MPI)):
    if inspect.isclass(getattr(MPI, name)) and public(vars(getattr(MPI, name))):
        show(name, public(vars(getattr(MPI, name))))
show("futures", public(futures.__all__))
for name in ["MPIPoolExecutor"]:
    show(name, public(vars(getattr(futures, name))))
show("util", ["dtlib", "pkl5", "pool", "sync"])
for name in ["dtlib", "pool", "sync"]:
    module = importlib.import_module(f"mpi4py.util.{name}")
    show(name, public(getattr(module, "__all__", [one for one in vars(module) if one.endswith("numpy_dtype")])))
