"""The documentation as its readers get it: the site builds without a warning, links lead somewhere, words are spelt."""

import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs").rglob("*.md"))
TEXTS = [
    *PAGES,
    *sorted(ROOT.glob("*.md")),
    *sorted(ROOT.glob("benchmarks/**/*.md")),
    *sorted(ROOT.glob("launch/*.md")),
]
# Words of the field that the spelling check takes for misspelt ones.
WORDS = "te,nd,ans,hist,fo,rouge"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-E", str(ROOT / "docs"), str(out)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return out


class Page(HTMLParser):
    """Where a page can be jumped to, where it leads, and what it loads."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        self.ids.add(told.get("id") or "")
        if tag == "a" and told.get("href"):
            self.links.append(str(told["href"]))
        if tag in ("script", "img", "iframe") and told.get("src"):
            self.loaded.append(str(told["src"]))
        if tag == "link" and told.get("rel") == "stylesheet":
            self.loaded.append(str(told["href"]))


def test_every_page_is_on_the_site_and_its_links_lead_somewhere(site: Path) -> None:
    pages = {path: Page(path) for path in site.rglob("*.html") if "_static" not in path.parts}
    for page in PAGES:
        assert site / page.relative_to(ROOT / "docs").with_suffix(".html") in pages
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            assert target.exists(), f"{path.name} links to {link}"
            if parts.fragment and target in pages:
                assert unquote(parts.fragment) in pages[target].ids, f"{path.name} links to {link}"


def test_pages_load_nothing_from_the_network_and_hold_their_formulas(site: Path) -> None:
    for path in site.rglob("*.html"):
        if "_static" not in path.parts:
            assert not [name for name in Page(path).loaded if urlsplit(name).netloc], path.name
    text = (site / "methods" / "grpo.html").read_text(encoding="utf-8")
    assert text.count("<math") == 3
    assert "$$" not in text


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_between_files_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)\s]+)\)", path.read_text(encoding="utf-8")):
        parts = urlsplit(target)
        if not parts.scheme and parts.path:
            assert (path.parent / parts.path).exists(), f"{path.name} links to {target}"


def test_words_are_spelt() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "codespell_lib", "--ignore-words-list", WORDS, *map(str, TEXTS)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
