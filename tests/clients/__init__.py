# A package for pytest, so that a fixture of package scope ends with this folder's last test.
