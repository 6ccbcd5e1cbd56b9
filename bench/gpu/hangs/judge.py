"""Prints the rank and the line that the first cause of an answer names, for hangs.sh."""

import json
import re
import sys

try:
    causes = json.load(open(sys.argv[1]))["causes"]
except (OSError, ValueError, KeyError):
    causes = []
ranks = sorted({r for c in causes for r in c["ranks"]})
where = re.search(r"[\w.]+:\d+", causes[0].get("where", "")) if causes else None
print(",".join(map(str, ranks)) or "none", where.group() if where else "no-line")
