"""Records MXNet's results of the programs: `python make_recorded.py [PROGRAM ...]` in an environment with MXNet and the
packages.

Cases that MXNet cannot run are skipped and printed. Cases that its oneDNN refuses are recorded without oneDNN.
"""

import json
import os
import subprocess
import sys

import recorded_results as results


def run(program, cases, **environment):
    """The lines that a program prints for these cases (all without any), even if the process dies."""
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
