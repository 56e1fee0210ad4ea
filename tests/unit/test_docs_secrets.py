"""No command that a page tells to paste has a secret among its arguments, which all can read."""

from __future__ import annotations

import re

import pytest
from lint_tools import REPO

PAGES = sorted(
    path.relative_to(REPO).as_posix()
    for path in (REPO / "README.md", *REPO.glob("docs/*.md"), *REPO.glob("appliance/**/*.html"))
)
# A header or a login as curl's own argument. In @<(…) and -K <(…) printf, which is no process,
# hands it over through a file descriptor.
EXPOSED = re.compile(r"(?:-H|--header)[ =]*[\"']?Authorization|\s(?:-u|--user)[ =]+\S*:\S")


@pytest.mark.parametrize("page", PAGES)
def test_no_command_to_paste_shows_a_secret_to_others(page: str) -> None:
    assert not [line for line in (REPO / page).read_text().splitlines() if EXPOSED.search(line)]
