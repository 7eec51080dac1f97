#!/usr/bin/env python3
"""Writes a body for each function of TensorFlow's TPU API: it answers UNIMPLEMENTED, by name.

  unimplemented.py INCLUDE_FOLDER OUTPUT

The bodies are weak: a function that the adapter has is the adapter's. The prototypes are those of the
headers in TensorFlow's wheel, so each version's functions are all there, whatever they take.
"""
import pathlib
import re
import sys

HEADERS = ["tpu_executor_c_api.h", "tpu_ops_c_api.h", "tpu_profiler_c_api.h"]
PROTOTYPE = re.compile(r"(?:TFTPU_CAPI_EXPORT )?((?:const )?[\w:<>]+(?: ?\*+)?) ?(\w+)\((.*)\)$")


def statements(header):
    text = re.sub(r"//[^\n]*|/\*.*?\*/", "", header.read_text(), flags=re.S)
    text = re.sub(r"^#(?:.*\\\n)*.*$", "", text, flags=re.M)
    text = re.sub(r"(?:typedef\s+)?(?:struct|enum)[^{;()]*\{[^}]*\}[^;]*;", "", text)
    text = re.sub(r'extern "C" \{|[{}]', "", text)
    return [" ".join(each.split()) for each in text.split(";")]


def status_of(parameters, text):
    """The expression for the function's TF_Status*, or nullptr."""
    direct = re.search(r"TF_Status ?\* ?(\w+)", parameters)
    if direct:
        return direct[1]
    struct = re.search(r"(\w+_Params) ?\* ?(\w+)", parameters)
    if struct and re.search(r"TF_Status\* status;[^}]*\} *" + struct[1] + ";", text):
        return f"{struct[2]}->status"
    return "nullptr"


def bodies(include):
    seen = set()
    for name in HEADERS:
        header = include / "xla/stream_executor/tpu" / name
        for statement in statements(header):
            match = PROTOTYPE.match(statement)
            if not match or match[1] == "typedef" or match[2] in seen:
                continue
            result, function, parameters = match.groups()
            seen.add(function)
            status = status_of(parameters, header.read_text())
            answer = "" if result == "void" else f" return Nothing<{result}>();"
            yield (f"TORUS_WEAK {result} {function}({parameters}) {{ "
                   f'torus::tensorflow::SayUnimplemented("{function}", {status});{answer} }}\n')


def main():
    include, output = map(pathlib.Path, sys.argv[1:])
    output.write_text(
        "// Made by unimplemented.py.\n"
        '#include "absl/status/statusor.h"\n'
        '#include "tpu/tensorflow/adapter/handles.h"\n'
        '#define TORUS_WEAK extern "C" __attribute__((weak, visibility("default")))\n'
        "namespace { template <typename T> T Nothing() { return T(); } }\n"
        + "".join(bodies(include)))


if __name__ == "__main__":
    main()
