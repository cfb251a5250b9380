"""Nothing unfinished, nothing that only exists on one machine."""

import re

from .sources import ROOT, files, modules, name_of

TEXT = {".py", ".md", ".html", ".js", ".css", ".yaml", ".toml", ".in", ".json", ""}
# Put together here, so that this file does not accuse itself.
UNFINISHED = re.compile("|".join(rf"\b{a}{b}\b" for a, b in (("TO", "DO"), ("FIX", "ME"))))
SKIPPED = re.compile("|".join(rf"\b{a}{b}\b" for a, b in (("skip", "if"), ("x", "fail("[:-1]))))
FOREIGN = re.compile("|".join(("/ro" + "ot/", "/wo" + "rk/", r"\.\./sha" + "red")))


def test_nothing_is_left_unfinished() -> None:
    found = []
    for path in files():
        if path.suffix in TEXT and path.name != "package-lock.json":
            for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
                if UNFINISHED.search(line) or FOREIGN.search(line):
                    found.append(f"{name_of(path)}:{number}: {line.strip()}")
    assert not found


def test_no_test_is_skipped() -> None:
    found = []
    for path in modules("tests"):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if SKIPPED.search(line) or "mark.sk" + "ip" in line or "pytest.sk" + "ip" in line:
                found.append(f"{name_of(path)}:{number}: {line.strip()}")
    assert not found


def test_locks_name_no_index() -> None:
    locks = [*ROOT.glob("*.lock"), ROOT / "package-lock.json"]
    assert len(locks) >= 4
    for lock in locks:
        text = lock.read_text(encoding="utf-8")
        assert "index-url" not in text
        assert '"resolved"' not in text


def test_locked_packages_have_hashes() -> None:
    for lock in ROOT.glob("*.lock"):
        for entry in re.split(r"\n(?=\S)", lock.read_text(encoding="utf-8").strip()):
            assert "--hash=sha256:" in entry, f"{lock.name}: {entry.splitlines()[0]}"
