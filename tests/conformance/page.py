"""docs/conformance.md holds tables that scripts write, each between two marks."""
import pathlib
import re
import sys

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/conformance.md"


def write(script, text):
    """Puts what a script found into its place: write("scripts/skew.sh", "| … |")."""
    begin, end = f"<!-- {script} writes this -->\n", "<!-- end -->"
    page = PAGE.read_text()
    if begin not in page:
        sys.exit(f"error: {PAGE} lacks the line {begin}")
    PAGE.write_text(re.sub(f"{re.escape(begin)}.*?{end}", lambda _: f"{begin}{text}\n{end}", page,
                           count=1, flags=re.S))


if __name__ == "__main__":
    write(sys.argv[1], sys.stdin.read().strip())
