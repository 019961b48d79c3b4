"""Records MXNet's answers to the programs: `python make_recorded.py [PROGRAM ...]` where it and the packages are.

Cases that MXNet itself cannot run are left out, and named. What its oneDNN refuses is recorded without oneDNN.
"""

import json
import os
import subprocess
import sys

import recorded_results as results


def run(program, cases, **environment):
    """What a program prints for cases (all of them where none is named), even when the process dies."""
    command = [sys.executable, str(results.PROGRAMS / (program + ".py")), *cases]
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=False,
    )
    return results.lines(done.stdout)


def names(program):
    """The cases of a program, in order."""
    done = subprocess.run(
        [sys.executable, str(results.PROGRAMS / (program + ".py")), "--list"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    return [line[5:] for line in done.stdout.splitlines() if line.startswith("case ")]


def record(program):
    found = run(program, [])
    for case in names(program):
        if "error" in found.get(case, {"error": "the process died"}):
            found.update(run(program, [case], MXNET_MKLDNN_ENABLED="0"))
    kept = {}
    for case, line in found.items():
        if "error" in line:
            print(program, case, "left out:", line["error"].splitlines()[0][:150])
        else:
            kept[case] = {"facts": line["facts"], "outputs": line["outputs"]}
    text = ",\n".join("%s: %s" % (json.dumps(case), json.dumps(line)) for case, line in kept.items())
    (results.RECORDED / (program + ".json")).write_text("{\n" + text + "\n}\n")
    print(program, len(kept), "cases")


if __name__ == "__main__":
    for chosen in sys.argv[1:] or results.NEEDS:
        record(chosen)
