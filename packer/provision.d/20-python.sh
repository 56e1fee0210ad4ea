# shellcheck shell=bash
# Two virtual environments: the server's, and the appliance's own, so that upgrading the
# server cannot break the tools that check it.

: "${TORCH_VERSION:=2.14.1+cpu}"
version=$(python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
locks=$REPO/packer/locks
lib=/opt/infinity/appliance/lib

if [ ! -f "$locks/server-$version.txt" ]; then
    echo "There is no lock file for Python $version. Hint: add it in packer/locks/compile.sh." >&2
    exit 1
fi

# install VENV LOCK: exactly the locked packages, each checked against its hashes.
install_locked() {
    local venv=$1 lock=$2 from=()
    if [ -n "${WHEELHOUSE:-}" ]; then
        from=(--no-index --find-links "$WHEELHOUSE/$lock")
    fi
    python3 -m venv --clear "$venv"
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir \
        --only-binary :all: --no-deps --require-hashes "${from[@]}" \
        --requirement "$locks/$lock-$version.txt"
    # Our own code, on both interpreters' path without being a package of either.
    echo "$lib" >"$venv/lib/python$version/site-packages/appliance.pth"
}

# The version's "+cpu" is part of the pin: no index has a CUDA build by that name.
install_torch() {
    local venv=$1 from
    case $TORCH_VERSION in
        *+cpu) ;;
        *)
            echo "TORCH_VERSION=$TORCH_VERSION is no CPU build. Hint: it has to end in +cpu." >&2
            exit 1
            ;;
    esac
    if [ -n "${WHEELHOUSE:-}" ]; then
        from=(--no-index --find-links "$WHEELHOUSE/torch")
    else
        from=(--index-url https://download.pytorch.org/whl/cpu)
    fi
    "$venv/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir \
        --only-binary :all: --no-deps "${from[@]}" "torch==$TORCH_VERSION"
}

refuse_cuda() {
    local venv=$1
    if "$venv/bin/pip" list --disable-pip-version-check --format freeze \
        | grep -iE '^(nvidia|triton|cuda)'; then
        echo "The packages above belong to a CUDA build. Hint: see packer/locks/overrides.in." >&2
        exit 1
    fi
    "$venv/bin/python" -I -c '
import sys, torch
sys.exit(f"torch {torch.__version__} is a CUDA build." if torch.version.cuda else 0)'
}

# A link, so that another version can take its place in one step (infinity-upgrade).
install_locked /opt/infinity/venvs/image server
install_torch /opt/infinity/venvs/image
refuse_cuda /opt/infinity/venvs/image
ln -sfn venvs/image /opt/infinity/venv
install_locked /opt/infinity/appliance/venv appliance
