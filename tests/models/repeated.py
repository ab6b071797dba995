#!/usr/bin/env python3
"""repeated.py: reads generated CUDA on stdin; prints what a kernel computes twice in one scope, and
exits with 1 if there is any: `kernel: name and name: expression`."""
import re
import sys

ASSIGNMENT = re.compile(r"\s*const (?:float|int|bool) (\w+) = (.*[-+*/(].*);$")
kernel, scopes, repeated = "", [{}], False
for line in sys.stdin:
    title = re.match(r"// (\w+__\w+):", line)
    if title:
        kernel = title[1]
    found = ASSIGNMENT.match(line)
    if found:
        name, expression = found.groups()
        before = [scope[expression] for scope in scopes if expression in scope]
        if before:
            print(f"{kernel}: {before[0]} and {name}: {expression}")
            repeated = True
        scopes[-1][expression] = name
    for c in line:
        if c == "{":
            scopes.append({})
        elif c == "}" and len(scopes) > 1:
            scopes.pop()
sys.exit(repeated)
