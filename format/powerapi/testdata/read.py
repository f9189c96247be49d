# Reads what rt-spool wrote with PowerAPI's own inputs: read.py DIR. What was read is
# printed, a JSON document for each report, and the socket's address when it listens.
import json
import socket
import sys
import time

from powerapi.report import HWPCReport, PowerReport
from powerapi.report.procfs_report import ProcfsReport

try:
    from powerapi.database.csv import CsvDB
    from powerapi.database.socket import SocketDB
except ModuleNotFoundError:  # before 2.10
    from powerapi.database import CsvDB, SocketDB

TYPES = {"hwpc": HWPCReport, "power": PowerReport, "procfs": ProcfsReport}
directory = sys.argv[1]


def show(source, kind, report):
    value = {"hwpc": "groups", "power": "power", "procfs": "usage"}[kind]
    print(json.dumps({
        "source": source, "kind": kind, "ms": round(report.timestamp.timestamp() * 1000),
        "sensor": report.sensor, "target": report.target, "value": getattr(report, value),
    }), flush=True)


for kind, report_type in TYPES.items():
    with open(f"{directory}/{kind}.json", encoding="utf-8") as lines:
        for line in lines:
            show("json", kind, report_type.from_json(json.loads(line)))

# One file at a time: where the files of groups tell of different targets, CsvDB stops
# at the end of the first, before the last report of the others.
for kind, name in [("hwpc", "core.csv"), ("hwpc", "rapl.csv"), ("power", "power.csv"), ("procfs", "procfs.csv")]:
    for report in CsvDB(TYPES[kind], [], current_path=directory, files=[name]).iter():
        show("csv", kind, report)

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
formula = SocketDB(PowerReport, "127.0.0.1", port)
formula.connect()
print(json.dumps({"address": f"127.0.0.1:{port}"}), flush=True)
wanted = sum(1 for _ in open(f"{directory}/power.json", encoding="utf-8"))
until = time.time() + 60
reports = formula.iter()
while wanted and time.time() < until:
    try:
        show("socket", "power", next(reports))
        wanted -= 1
    except StopIteration:
        time.sleep(0.05)
