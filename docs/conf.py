"""The documentation as a site: `sphinx-build -W docs build/site`. Needs nothing from the network when read.

Formulas become MathML when the site is built, so that a page needs no script to show them.
"""

from docutils.nodes import Element, SkipNode
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

project = "medgrpo"
author = "The medgrpo developers"
language = "en"

extensions = ["myst_parser", "sphinx_copybutton"]
myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["README*"]
nitpicky = True
# GitHub knows how to colour csv and jsonl, Pygments does not.
suppress_warnings = ["misc.highlighting_failure"]

html_theme = "furo"
html_title = "medgrpo"
html_copy_source = False
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_math_renderer = "mathml"


def setup(app: Sphinx) -> None:
    """Register the renderer of formulas."""
    app.add_html_math_renderer("mathml", (_write_inline, None), (_write_block, None))


def _write_inline(self: HTML5Translator, node: Element) -> None:
    self.body.append(convert(node.astext()))
    raise SkipNode


def _write_block(self: HTML5Translator, node: Element) -> None:
    self.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>\n')
    raise SkipNode
