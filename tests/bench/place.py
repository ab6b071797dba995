#!/usr/bin/env python3
"""place.py: puts tables of measurements into the Markdown files that show them.

usage: place.py WORD FILE... <TEXT

TEXT consists of parts, each after a line <!-- part NAME -->. A part replaces what one of the files
has between <!-- WORD NAME begins --> and <!-- WORD NAME ends -->. Parts that were not measured
leave their place as it is; a part without a place is an error.
"""
import re
import sys

PART = re.compile(r"^<!-- part ([a-z_]+) -->\n", re.M)


def part(name):
    print(f"\n<!-- part {name} -->")


def split(text):
    """The parts of a text, by name."""
    pieces = PART.split(text)  # the text before the first part, then name, text, name, text...
    return dict(zip(pieces[1::2], (piece.strip("\n") for piece in pieces[2::2])))


def places(word, text):
    """The names of the parts that a Markdown text has places for."""
    return re.findall(rf"<!-- {word} ([a-z_]+) begins -->", text)


def place(word, parts, paths):
    """Writes each part into the file that has its place. Returns the names that have none."""
    left = set(parts)
    for path in paths:
        with open(path) as f:
            old = f.read()
        left -= set(places(word, old))

        def put(found):
            name = found[2]
            text = parts[name] + "\n" if parts.get(name) else ""
            return found[1] + text + found[3] if name in parts else found[0]
        new = re.sub(rf"(<!-- {word} ([a-z_]+) begins -->\n).*?(<!-- {word} \2 ends -->)", put, old,
                     flags=re.S)
        if new != old:
            with open(path, "w") as f:
                f.write(new)
    return sorted(left)


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__.strip())
    left = place(sys.argv[1], split(sys.stdin.read()), sys.argv[2:])
    if left:
        sys.exit(f"place: {', '.join(left)}: no place in {', '.join(sys.argv[2:])}")


if __name__ == "__main__":
    main()
