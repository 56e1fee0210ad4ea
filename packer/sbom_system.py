#!/usr/bin/env python3
"""Prints the bill of materials of the distribution's packages, in CycloneDX, from dpkg's status.

Runs in the image, in the environment of packer/locks/sbom.in. Two runs over one status print the
same: there is no time in it, and its serial number is derived from its content.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import uuid

from cyclonedx.model import ExternalReference, ExternalReferenceType, XsUri
from cyclonedx.model.bom import Bom
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.contact import OrganizationalEntity
from cyclonedx.output import make_outputter
from cyclonedx.schema import OutputFormat, SchemaVersion
from packageurl import PackageURL

FIELDS = (
    *("Package", "Version", "Architecture", "source:Package", "source:Version"),
    *("Maintainer", "Homepage"),
)


def installed() -> str:
    """One package a line, its fields separated by tabs."""
    wanted = "${db:Status-Abbrev}\t" + "\t".join(f"${{{name}}}" for name in FIELDS) + "\n"
    argv = ["dpkg-query", "--show", f"--showformat={wanted}"]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout


def components(listing: str, release: dict[str, str]) -> list[Component]:
    """A component for each package that is installed.

    Args:
        listing: as ``installed`` gives it.
        release: of /etc/os-release: ID and VERSION_ID are read.
    """
    made = []
    for line in listing.splitlines():
        state, name, version, architecture, source, source_version, maintainer, page = line.split(
            "\t"
        )
        if state.strip() != "ii":
            continue
        purl = PackageURL(
            type="deb",
            namespace=release["ID"],
            name=name,
            version=version,
            qualifiers={
                "arch": architecture,
                "distro": f"{release['ID']}-{release['VERSION_ID']}",
                "upstream": f"{source}@{source_version}",
            },
        )
        links = [ExternalReference(type=ExternalReferenceType.WEBSITE, url=XsUri(page))]
        made.append(
            Component(
                type=ComponentType.LIBRARY,
                name=name,
                version=version,
                purl=purl,
                bom_ref=purl.to_string(),
                supplier=OrganizationalEntity(name=maintainer),
                external_references=links if page else [],
            )
        )
    return made


def render(found: list[Component], release: dict[str, str]) -> str:
    """The bill as JSON."""
    system = Component(
        type=ComponentType.OPERATING_SYSTEM,
        name=release["ID"],
        version=release["VERSION_ID"],
        bom_ref="system",
    )
    listed = "\n".join(str(component.purl) for component in found)
    bom = Bom(components=found, serial_number=uuid.uuid5(uuid.NAMESPACE_URL, listed))
    bom.metadata.component = system
    bom.metadata.timestamp = None  # type: ignore[assignment] # the format has it optional
    bom.register_dependency(system, found)
    return make_outputter(bom, OutputFormat.JSON, SchemaVersion.V1_6).output_as_string(indent=2)


def main() -> int:
    release = platform.freedesktop_os_release()
    print(render(components(installed(), release), release))
    return 0


if __name__ == "__main__":
    sys.exit(main())
