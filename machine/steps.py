"""The phases of packer's provisioning as build steps: what each runs, and what it depends on."""

from __future__ import annotations

from appliance.errors import ApplianceError
from appliance.run import run
from machine import cache, wheels
from machine.layers import INSIDE, Step
from machine.model import Model

PACKER = cache.REPO / "packer"
PROVISION = PACKER / "provision.sh"
PHASES = PACKER / "provision.d"
KERNEL = cache.REPO / "machine/kernel-layer.sh"
# The distributions' kernels for virtual machines: virtio, NVMe and ENA, and no laptop's drivers.
KERNELS = {
    "bookworm": "linux-image-cloud-amd64",
    "trixie": "linux-image-cloud-amd64",
    "noble": "linux-image-virtual",
}


def packages_step(suite: str) -> Step:
    """The distribution's packages. What apt downloads is kept on the host, for the next time."""
    return Step(
        "packages",
        inputs=_scripts("10-packages"),
        commands=(_provision("10-packages"),),
        binds={"repo": cache.REPO},
        writable={"/var/cache/apt/archives": cache.folder(f"apt-{suite}")},
    )


def python_step(python: str) -> Step:
    """Both virtual environments, from wheels that were downloaded on the host."""
    names = ("server", "appliance")
    folders = {name: wheels.locked(name, python) for name in names}
    torch = wheels.torch(python)
    version = wheels.torch_version(torch)
    return Step(
        "python",
        inputs=(
            *_scripts("20-python"),
            version,
            *(wheels.lock_file(name, python).read_text() for name in names),
        ),
        commands=(_provision("20-python"),),
        environment={"WHEELHOUSE": f"{INSIDE / 'wheels'}", "TORCH_VERSION": version},
        binds={
            "repo": cache.REPO,
            **{f"wheels/{name}": folder for name, folder in folders.items()},
            "wheels/torch": torch,
        },
    )


def sbom_step(python: str) -> Step:
    """Bills of materials of what the layers below have installed."""
    return Step(
        "sbom",
        inputs=(
            *_scripts("25-sbom"),
            cache.digest_files(PACKER / "sbom_system.py"),
            wheels.lock_file("sbom", python).read_text(),
        ),
        commands=(_provision("25-sbom"),),
        environment={"WHEELHOUSE": f"{INSIDE / 'wheels'}"},
        binds={"repo": cache.REPO, "wheels/sbom": wheels.locked("sbom", python)},
    )


def model_step(chosen: Model) -> Step:
    """The model, checked once more on its way in."""
    inputs = (chosen.manifest, PACKER / "model_store.py", PACKER / "infinity.env")
    return Step(
        "model",
        inputs=(*_scripts("30-model"), cache.digest_files(*inputs)),
        commands=(_provision("30-model"),),
        environment={
            "MODEL_MANIFEST": chosen.manifest.name,
            "MODEL_FILES": f"{INSIDE / 'hub' / chosen.files.relative_to(chosen.hub)}",
        },
        binds={"repo": cache.REPO, "hub": chosen.hub},
    )


def appliance_step() -> Step:
    """Our own files, and then the cleaning that any image gets."""
    ours = ("appliance", "firstboot", "templates", "systemd", "nginx", "packer/files", "docs")
    clean = PACKER / "clean.sh"
    return Step(
        "appliance",
        inputs=(
            *_scripts("40-appliance"),
            *_scripts("50-hardening"),
            cache.digest_files(clean, *(cache.REPO / name for name in ours)),
        ),
        commands=(
            _provision("40-appliance"),
            _provision("50-hardening"),
            (f"{INSIDE}/repo/packer/clean.sh",),
        ),
        binds={"repo": cache.REPO},
    )


def kernel_step(suite: str) -> Step:
    """A kernel and a boot loader, for a disk; the cleaning once more, for what that left."""
    clean = PACKER / "clean.sh"
    return Step(
        "kernel",
        inputs=(cache.digest_files(KERNEL, clean), KERNELS[suite]),
        commands=(
            (f"{INSIDE}/repo/machine/{KERNEL.name}", KERNELS[suite]),
            (f"{INSIDE}/repo/packer/clean.sh",),
        ),
        binds={"repo": cache.REPO},
        writable={"/var/cache/apt/archives": cache.folder(f"apt-{suite}")},
    )


def record_step() -> Step:
    """The manifest; a layer of its own, because it changes with each commit."""
    commit = current_commit()
    return Step(
        "record",
        inputs=(
            *_scripts("90-record"),
            cache.digest_files(PACKER / "record.py", cache.REPO / "pyproject.toml"),
            commit,
        ),
        commands=(_provision("90-record"),),
        environment={"COMMIT": commit},
        binds={"repo": cache.REPO},
    )


def current_commit() -> str:
    """What the checkout is at, with a + when its files are others; "unknown" without git."""
    git = ("git", "-c", "safe.directory=*", "-C", cache.REPO)
    try:
        commit = run([*git, "rev-parse", "HEAD"]).stdout.strip()
        changed = run([*git, "status", "--porcelain", "--untracked-files=no"]).stdout
    except ApplianceError:
        return "unknown"
    return f"{commit}+" if changed.strip() else commit


def _scripts(name: str) -> tuple[str, ...]:
    return (cache.digest_files(PROVISION, PHASES / f"{name}.sh"),)


def _provision(name: str) -> tuple[str, ...]:
    return (f"{INSIDE}/repo/packer/provision.sh", name)
