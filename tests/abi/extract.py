"""Facts about C declarations, read from the headers of wheels with libclang.

    python3 extract.py unpack FOLDER WHEEL [LIBRARY...]   headers and the named shared libraries of a wheel into a folder
    python3 extract.py facts < REQUEST                    the facts that a JSON request asks for, as JSON

A request names, for each library, the folders of unpacked wheels, the headers, and the functions, constants (enumerators
or macros) and structs with their fields. What the headers do not have is missing from the answer.
"""

import json
import pathlib
import subprocess
import sys
import zipfile


def unpack(folder, wheel, libraries):
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if "/include/" in name or name in libraries:
                archive.extract(name, folder)


def compiler_headers():
    """The folder with stddef.h, which belongs to the compiler; libclang's wheel carries none."""
    for command, suffix in ((["gcc", "-print-file-name=include"], ""), (["clang", "-print-resource-dir"], "/include")):
        try:
            return subprocess.check_output(command, text=True).strip() + suffix
        except FileNotFoundError:
            continue
    raise SystemExit("stddef.h is needed to read C headers: install gcc or clang")


def parse(source, folders, headers):
    from clang import cindex

    layouts = ("nvidia/*/include", "nvidia/*/cu13/include", "mkl_include-*.data/data/include/fftw")
    paths = [path for folder in folders for layout in layouts for path in pathlib.Path(folder).glob(layout)]
    # Where a header is, there are those that belong to it, such as cuFFTMp's own cufft.h.
    paths.sort(key=lambda path: not any((path / header).exists() for header in headers))
    includes = [f"-I{path}" for path in paths]
    arguments = ["-x", "c++", "-std=c++17", "-isystem", compiler_headers(), *includes]
    unit = cindex.Index.create().parse("facts.cpp", args=arguments, unsaved_files=[("facts.cpp", source)])
    return unit, [str(d) for d in unit.diagnostics if d.severity >= cindex.Diagnostic.Error]


def declarations(cursor):
    """Everything declared at the top, inside of extern "C" too."""
    from clang.cindex import CursorKind

    for child in cursor.get_children():
        if child.kind in (CursorKind.LINKAGE_SPEC, CursorKind.UNEXPOSED_DECL):
            yield from declarations(child)
        else:
            yield child


def classify(type_):
    """The class of a C type: how it is passed."""
    from clang.cindex import TypeKind

    canonical = type_.get_canonical()
    kind = canonical.kind
    if kind in (TypeKind.POINTER, TypeKind.CONSTANTARRAY, TypeKind.INCOMPLETEARRAY):
        return "pointer"
    if kind == TypeKind.ENUM:
        return f"i{8 * canonical.get_size()}"
    if kind == TypeKind.RECORD:
        return f"struct:{canonical.get_size()}"
    if kind == TypeKind.VOID:
        return "void"
    if kind == TypeKind.BOOL:
        return "bool"
    letter = {
        TypeKind.FLOAT: "f", TypeKind.DOUBLE: "f",
        TypeKind.CHAR_S: "i", TypeKind.SCHAR: "i", TypeKind.SHORT: "i",
        TypeKind.INT: "i", TypeKind.LONG: "i", TypeKind.LONGLONG: "i",
        TypeKind.UCHAR: "u", TypeKind.USHORT: "u",
        TypeKind.UINT: "u", TypeKind.ULONG: "u", TypeKind.ULONGLONG: "u",
    }[kind]
    return f"{letter}{8 * canonical.get_size()}"


def signature(function):
    parameters = ", ".join(classify(parameter.type) for parameter in function.get_arguments())
    return f"{classify(function.result_type)}({parameters})"


class Constants:
    """Values of constant expressions, computed by the compiler: each is the only member of an enum."""

    def __init__(self, headers):
        self.lines = [f"#include <{header}>" for header in headers] + ["#include <stddef.h>"]
        self.headers = headers
        self.keys = []

    def ask(self, key, expression):
        self.lines.append(f"enum class facts_{len(self.keys)} : long long {{ value = (long long)({expression}) }};")
        self.keys.append(key)

    def answers(self, folders):
        unit, errors = parse("\n".join(self.lines), folders, self.headers)
        if errors:
            raise SystemExit("the headers do not have what is declared:\n" + "\n".join(errors))
        found = {}
        for cursor in declarations(unit.cursor):
            if cursor.spelling.startswith("facts_"):
                (value,) = cursor.get_children()
                found[self.keys[int(cursor.spelling.removeprefix("facts_"))]] = value.enum_value
        return unit, found


def facts(library):
    questions = Constants(library["headers"])
    for name in library["constants"]:
        questions.ask(("constant", name), name)
    for name, fields in library["structs"].items():
        questions.ask(("size", name), f"sizeof({name})")
        for field in fields:
            questions.ask(("offset", name, field), f"__builtin_offsetof({name}, {field})")
            questions.ask(("bytes", name, field), f"sizeof((({name}*)0)->{field})")
    unit, answers = questions.answers(library["folders"])
    functions = {cursor.spelling: cursor for cursor in declarations(unit.cursor) if cursor.kind.name == "FUNCTION_DECL"}
    return {
        "functions": {name: signature(functions[name]) for name in library["functions"] if name in functions},
        "constants": {name: answers["constant", name] for name in library["constants"]},
        "structs": {
            name: {
                "size": answers["size", name],
                "fields": {field: [answers["offset", name, field], answers["bytes", name, field]] for field in fields},
            }
            for name, fields in library["structs"].items()
        },
    }


if __name__ == "__main__":
    if sys.argv[1] == "unpack":
        unpack(sys.argv[2], sys.argv[3], sys.argv[4:])
    else:
        json.dump({name: facts(library) for name, library in json.load(sys.stdin).items()}, sys.stdout)
