"""nginx -t and gixy on the configuration as it is rendered, for an instance and for a folder."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from gate_harness import REPO, lay_out, nginx_command
from lint_tools import tool

from appliance.run import Completed, run

# nginx since 1.25 says so of the one form that earlier ones understand as well.
EXPECTED = 'the "listen ... http2" directive is deprecated'


@pytest.fixture
def root(tmp_path: Path) -> Path:
    lay_out(tmp_path, https_port=1443, http_port=1080, upstream_port=1997)
    return tmp_path


def as_local(text: str, root: Path) -> str:
    """An instance's nginx.conf, changed only in where it writes and as whom."""
    folders = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    temporary = "".join(f"{each}_temp_path {root}/var/lib/nginx/{each};\n" for each in folders)
    text = text.replace("user www-data;\n", "").replace("http {\n", f"http {{\n{temporary}")
    return re.sub(r" (/run|/var/log)/", rf" {root}\1/", text)


def nginx_test(root: Path) -> Completed:
    return run(nginx_command(root, "-t", "-q"), check=False)


@pytest.mark.parametrize("name", ["local.conf", "nginx.conf"])
def test_nginx_accepts_the_configuration_without_a_warning(root: Path, name: str) -> None:
    local = root / "etc/nginx/local.conf"
    text = (REPO / "nginx" / name).read_text()
    local.write_text(text if name == "local.conf" else as_local(text, root))
    done = nginx_test(root)
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if EXPECTED not in line]
    assert said == []


@pytest.mark.parametrize(
    "missing",
    [
        "etc/nginx/infinity-apikey.map",
        "etc/nginx/infinity-site.conf",
        "etc/ssl/infinity/infinity.crt",
        "etc/ssl/infinity/infinity.key",
    ],
)
def test_nginx_does_not_start_without_the_instances_own_files(root: Path, missing: str) -> None:
    (root / missing).unlink()
    assert nginx_test(root).returncode != 0


def test_an_instance_and_a_folder_share_one_http_block() -> None:
    def includes(name: str) -> list[str]:
        return re.findall(r"^ *include [^;]+;", (REPO / "nginx" / name).read_text(), re.MULTILINE)

    assert includes("nginx.conf") == includes("local.conf")
    assert len(includes("nginx.conf")) == 2


@pytest.mark.parametrize("name", ["local.conf", "nginx.conf"])
def test_gixy_finds_nothing(root: Path, name: str) -> None:
    program = tool("gixy", "pip install gixy-ng")
    done = run([program, root / "etc/nginx" / name], check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_gixy_reads_the_snippets_too(root: Path) -> None:
    snippet = root / "etc/nginx/infinity/error-answer.conf"
    snippet.write_text("return 301 http://$uri;\n")
    done = run([tool("gixy", "pip install gixy-ng"), root / "etc/nginx/local.conf"], check=False)
    assert "http_splitting" in done.stdout
