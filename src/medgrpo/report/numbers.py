"""How numbers are written on every page."""


def format_p(p: float) -> str:
    """`p = .0342`, `p = .282` from .1 up (where the border at .05 is far), `p < .001` below that."""
    bare = bare_p(p)
    return f"p {bare[0]} {bare[1:]}" if bare.startswith("<") else f"p = {bare}"


def bare_p(p: float) -> str:
    """The same for a table's column: `.0342`, `.282`, `<.001`."""
    if p < 0.001:
        return "<.001"
    return f"{p:.3f}" if p == 1 else f"{p:.{4 if p < 0.1 else 3}f}".removeprefix("0")


def stars(p: float, alpha: float = 0.05) -> str:
    """`n.s.` from alpha up; else `***` below .001, `**` below .01, `*` for the rest."""
    if p >= alpha:
        return "n.s."
    return "***" if p < 0.001 else "**" if p < 0.01 else "*"


def percent(share: float | None) -> str:
    """A share of 1 in per cent, without the sign: `71.1`; `–` where nothing was counted."""
    return "–" if share is None else f"{100 * share:.1f}"


def points(share: float) -> str:
    """A difference of shares in points: `+2.1`, `-0.3`, `±0.0`."""
    text = f"{100 * share:+.1f}"
    return "±0.0" if text in ("+0.0", "-0.0") else text


def percent_interval(interval: tuple[float, float]) -> str:
    """`87.6–91.2`."""
    return f"{percent(interval[0])}–{percent(interval[1])}"


def points_interval(interval: tuple[float, float]) -> str:
    """`[-0.0, +3.4]` is written `[0.0, +3.4]`."""
    return f"[{', '.join(points(end).lstrip('±') for end in interval)}]"
