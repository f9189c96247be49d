"""answers.py ENGINE LAKE DOCUMENT [update]: runs the queries of a document and compares their answers with the printed ones.

A query is a block ```sql, its answer the block ```text after it. With update the answers are replaced.
"""
import datetime
import re
import sys

from engine import open_lake


def word(value):
    if value is None:
        return "NULL"
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, datetime.datetime):
        return value.strftime("%Y-%m-%d %H:%M:%S")
    if hasattr(value, "as_tuple"):  # a decimal
        return f"{float(value):.10g}"
    return str(value)


def table(rows):
    if not rows:
        return "(no rows)\n"
    lines = [list(rows[0])] + [[word(v) for v in row.values()] for row in rows]
    widths = [max(len(line[i]) for line in lines) for i in range(len(lines[0]))]
    return "".join("  ".join(v.ljust(w) for v, w in zip(line, widths)).rstrip() + "\n" for line in lines)


engine, lake, document = sys.argv[1:4]
text = open(document).read()
db = open_lake(engine, lake)
wrong = 0
count = 0


def answer(match):
    global wrong, count
    count += 1
    got = table(db.rows(match.group(1)))
    if got != match.group(2):
        wrong += 1
        print(f"{match.group(1)}\n{engine} answers:\n{got}\nthe document has:\n{match.group(2)}", file=sys.stderr)
    return f"```sql\n{match.group(1)}```\n\n```text\n{got}```"


new = re.sub(r"```sql\n(.*?)```\n\n```text\n(.*?)```", answer, text, flags=re.S)
if sys.argv[4:] == ["update"]:
    open(document, "w").write(new)
    sys.exit(0)
print(f"{engine}: {count} answers compared, {wrong} differ")
sys.exit(1 if wrong or count != 10 else 0)
