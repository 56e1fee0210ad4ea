#!/bin/sh
# Compiles the lock files, one for each venv and Python version, with every hash.
#
#   packer/locks/compile.sh [--upgrade]
#
# Without --upgrade a lock keeps what it already pins. The locks of one Python
# version agree with each other, so that one environment can hold all of them.
set -eu

UV_VERSION=0.13.9
cd "$(dirname "$0")"

# Two folders up is the checkout; the compiler lives where git does not look.
tools=../../build/locks
if [ ! -x "$tools/bin/uv" ]; then
    python3 -m venv "$tools"
    "$tools/bin/pip" install --quiet "uv==$UV_VERSION"
fi

# compile NAME PYTHON [OPTION...]
compile() {
    name=$1
    python=$2
    shift 2
    echo "$name-$python.txt"
    # manylinux_2_28 is what PyTorch's own wheels ask of the system, so nothing is lost by it.
    "$tools/bin/uv" pip compile --quiet \
        --generate-hashes --no-build --no-emit-index-url \
        --python-platform x86_64-manylinux_2_28 --python-version "$python" \
        --override overrides.in --custom-compile-command packer/locks/compile.sh \
        --output-file "$name-$python.txt" "$name.in" "$@"
}

for python in 3.11 3.12 3.13; do
    compile server "$python" "$@"
    compile appliance "$python" --constraint "server-$python.txt" "$@"
    compile sbom "$python" \
        --constraint "server-$python.txt" --constraint "appliance-$python.txt" "$@"
    compile dev "$python" --constraint "sbom-$python.txt" \
        --constraint "server-$python.txt" --constraint "appliance-$python.txt" "$@"
done
