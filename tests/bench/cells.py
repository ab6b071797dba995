"""cells.py: the cells of the tables of figures, as Markdown: "-" where there is none."""
import math


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def known(value):
    return isinstance(value, (int, float)) and value > 0


def fixed(value, digits=2, unit=""):
    return f"{value:.{digits}f}{unit}" if isinstance(value, (int, float)) else "-"


def number(value, unit="", digits=3):
    if not isinstance(value, (int, float)):
        return "-"
    return f"{value:.{digits}g}{unit}" if value and value < 10 ** digits else f"{value:.0f}{unit}"


def ratio(a, b, digits=2, unit="", scale=1.0):
    """a / b, or "-" where one of them is missing or zero."""
    return f"{a / b * scale:.{digits}f}{unit}" if known(a) and known(b) else "-"


def geomean(values):
    return math.exp(sum(map(math.log, values)) / len(values)) if values else None
