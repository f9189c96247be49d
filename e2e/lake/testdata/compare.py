"""compare.py ENGINE LAKE REPORT JOBS RUNS: compares each figure of rt-spool report --json with the table runs of a lake.

The waste is compared with rt-spool jobs --json: each run is a job.
"""
import datetime
import json
import sys

from engine import open_lake

compared = 0
problems = []


def moment(text):
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


def compare(path, want, got):
    """Compares a value of the report with one of the lake. What JSON has as null, or not at all, is null."""
    global compared
    if isinstance(want, dict):
        if got is None and want:
            problems.append((path, want, got))
            return
        for name, value in want.items():
            compare(f"{path}.{name}", value, got.get(name) if got else None)
        return
    if isinstance(want, list):
        got = got or []
        if len(want) != len(got):
            problems.append((path, want, got))
            return
        for i, value in enumerate(want):
            compare(f"{path}[{i}]", value, got[i])
        return
    compared += 1
    if want in (None, ""):
        same = got is None
    elif isinstance(got, datetime.datetime):
        got = got if got.tzinfo else got.replace(tzinfo=datetime.timezone.utc)
        want = moment(want)
        same = abs(want - got) < datetime.timedelta(microseconds=2)
    elif isinstance(want, int) and not isinstance(want, bool):
        same = got == min(want, 2**63 - 1)
    else:
        same = got == want and isinstance(got, bool) == isinstance(want, bool)
    if not same:
        problems.append((path, want, got))


engine, lake, report, jobs, runs = sys.argv[1:]
summaries = json.load(open(report))
waste = {line["job"]: line["waste_core_hours"] for line in json.load(open(jobs))}
assert any(waste.values()), "no job has waste"
db = open_lake(engine, lake)
rows = {row["job"]: row for row in db.rows("SELECT * FROM runs")}
counted = {row["run_name"]: row["n"] for row in db.rows("SELECT run_name, count(*) AS n FROM samples GROUP BY run_name")}
assert len(summaries) == len(rows) == int(runs), (len(summaries), len(rows))
for summary in summaries:
    row = rows[summary["job"]]
    compare(summary["job"], summary, row)
    compare(summary["job"] + ".samples", summary["record"]["readings"], counted[row["run_name"]])
    compare(summary["job"] + ".samples", row["samples"], counted[row["run_name"]])
    hours = waste[summary["job"]]
    compare(summary["job"] + ".waste_core_secs", None if hours is None else round(hours * 3600), row["waste_core_secs"])
    for column, value in (("job_id", summary["run"]["job_id"]), ("user_name", summary["run"]["user"]), ("state", summary["run"]["state"])):
        compare(f"{summary['job']}.{column}", value, row[column])
for problem in problems[:20]:
    print("%s: %r in the report, %r in the lake" % problem, file=sys.stderr)
print(f"{engine}: {compared} figures of {len(rows)} runs compared, {len(problems)} differ")
sys.exit(1 if problems else 0)
