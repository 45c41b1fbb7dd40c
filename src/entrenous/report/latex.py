"""Tables for LaTeX with booktabs."""

from __future__ import annotations

from collections.abc import Sequence

ESCAPED = str.maketrans(
    {
        "&": r"\&",
        "%": r"\%",
        "_": r"\_",
        "#": r"\#",
        "$": r"\$",
        "{": r"\{",
        "}": r"\}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "\\": r"\textbackslash{}",
        "±": r"$\pm$",
        "<": r"$<$",
        ">": r"$>$",
    }
)


def escaped(text: str) -> str:
    """A text in which LaTeX reads every character as itself.

    >>> print(escaped("hr_10 ±5%"))
    hr\\_10 $\\pm$5\\%
    """
    return text.translate(ESCAPED)


def booktabs(header: Sequence[str], lines: Sequence[Sequence[str]], caption: str) -> str:
    """A table environment: the first column to the left, the others to the right. All texts are
    LaTeX already (see `escaped`).

    >>> print(booktabs(["a", "b"], [["x", "1"]], "One."))
    \\begin{table}
    \\caption{One.}
    \\begin{tabular}{lr}
    \\toprule
    a & b \\\\
    \\midrule
    x & 1 \\\\
    \\bottomrule
    \\end{tabular}
    \\end{table}
    """
    rows = [rf"{' & '.join(line)} \\" for line in (header, *lines)]
    body = [rows[0], r"\midrule", *rows[1:]]
    columns = "l" + "r" * (len(header) - 1)
    parts = [
        r"\begin{table}",
        rf"\caption{{{caption}}}",
        rf"\begin{{tabular}}{{{columns}}}",
        r"\toprule",
        *body,
        r"\bottomrule",
    ]
    return "\n".join([*parts, r"\end{tabular}", r"\end{table}"])
