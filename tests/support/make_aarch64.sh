#!/usr/bin/env bash
# Makes a folder with an AArch64 Python, NumPy, llvmlite and pytest that run under qemu-user, to test generated code for AArch64 on
# another machine. Needs Debian's apt, dpkg and qemu-user, and PyPI; no root. Nothing outside of the folder changes.
# usage: tests/support/make_aarch64.sh DIR          then: DIR/python -m pytest tests/codegen/test_general_product.py
set -euo pipefail
dir=$(realpath -m "${1:?usage: make_aarch64.sh DIR}")
repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
command -v qemu-aarch64 >/dev/null || { echo "qemu-aarch64 is missing: install qemu-user" >&2; exit 1; }
mkdir -p "$dir"/{apt/state/lists/partial,apt/cache/archives/partial,packages,root,wheels,site}
touch "$dir/apt/state/status"
apt=(apt-get -qq -o Dir::State="$dir/apt/state" -o Dir::State::status="$dir/apt/state/status" -o Dir::Cache="$dir/apt/cache"
    -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=)
"${apt[@]}" update

python=python3.11
(cd "$dir/packages" && "${apt[@]}" download $python-minimal lib$python-minimal lib$python-stdlib libc6 libgcc-s1 libstdc++6 \
    zlib1g libexpat1 libffi8 libssl3 libbz2-1.0 liblzma5 libuuid1)
for package in "$dir"/packages/*.deb; do dpkg -x "$package" "$dir/root"; done

platforms=(--platform manylinux_2_28_aarch64 --platform manylinux_2_27_aarch64 --platform manylinux2014_aarch64)
python3 -m pip download --quiet --only-binary=:all: "${platforms[@]}" --python-version 3.11 --implementation cp \
    --dest "$dir/wheels" numpy llvmlite pydantic networkx scipy pillow pytest pytest-xdist
for wheel in "$dir"/wheels/*.whl; do python3 -m zipfile -e "$wheel" "$dir/site"; done

mkdir -p "$repository/.link"
ln -sfn .. "$repository/.link/mxforge"
cat >"$dir/python" <<END
#!/bin/sh
export PYTHONPATH="$dir/site:$repository/.link" PYTHONDONTWRITEBYTECODE=1
exec qemu-aarch64 -L "$dir/root" "$dir/root/usr/bin/$python" "\$@"
END
chmod +x "$dir/python"
"$dir/python" -c 'import platform; assert platform.machine() == "aarch64"; print("made", platform.python_version(), platform.machine())'
