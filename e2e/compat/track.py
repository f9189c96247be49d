"""Runs the Python resource-tracker's own loop, and records for each of its rows the values
behind the row's sums: python track.py START INTERVAL CSV NOTES"""

import json
import sys
import time

from resource_tracker import SystemTracker

start, interval, csv, notes = sys.argv[1:]
notes = open(notes, "w")


class Noting(SystemTracker):
    def diff_stats(self):
        begin = time.time()
        row = super().diff_stats()
        note = {"begin": begin, "end": time.time(), "row": row}
        note["disks"] = self.stats["disk_stats"]
        note["spaces"] = self.stats["disk_spaces"]
        notes.write(json.dumps(note) + "\n")
        notes.flush()
        return row


Noting(start_time=float(start), interval=float(interval), output_file=csv)
