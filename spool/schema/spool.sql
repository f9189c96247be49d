-- The schema of a spool file. See DESIGN.md for the invariants. TestTemplate makes new.db from this
-- file. The lists of columns, in double braces, come from the code.

-- What each snapshot adds to the one before: the first row holds the values themselves.
-- NULL: not read. The view snapshot adds the rows up again. A limit of -1 is "no limit".
CREATE TABLE snapshot_delta (
  seq INTEGER PRIMARY KEY, -- ascending from 1; numbers are missing where snapshots were thinned
  reason, -- not a difference: 0 tick, 1 first, 2 appeared, 3 last, 4 stop
  job_phase, -- not a difference: 0 none, 1 pending, 2 present, 3 gone
  -- boot_us is CLOCK_BOOTTIME, clock_us is CLOCK_REALTIME - CLOCK_BOOTTIME at the start of the run
  {{columns "snapshot_delta"}},
  core_ticks BLOB -- per-core counters, see DESIGN.md
);

-- The same, of figures that seldom change. There is a row where one of them changed, or was
-- read when it was not before, or the other way round; and at every keyframe.
CREATE TABLE steady_delta (
  seq INTEGER PRIMARY KEY,
  {{columns "steady_delta"}}
);

-- The same, of a process tree that is tracked without a job.
CREATE TABLE tree_delta (
  seq INTEGER PRIMARY KEY,
  {{columns "tree_delta"}}
);

-- The same, of GPUs. A usage is not a difference: fractional GPUs in use.
CREATE TABLE gpu_delta (
  seq INTEGER PRIMARY KEY,
  {{columns "gpu_delta"}}
);

-- Where reading may start: the sums over all rows before seq, and the last rowids of the
-- tables of readings before it. The devices and CPUs of this seq are complete.
CREATE TABLE keyframe (
  seq INTEGER PRIMARY KEY,
  device_row, gpu_row, counter_row, step_row, process_row,
  {{sums}}
);

-- The counters and gauges as they were read.
CREATE VIEW snapshot AS
WITH joined AS (
  SELECT d.*,
    {{joined "steady_delta" "s"}},
    {{joined "tree_delta" "t"}},
    {{joined "gpu_delta" "g"}},
    count(s.seq) OVER w AS steady_row, count(t.seq) OVER w AS tree_row, count(g.seq) OVER w AS gpu_row
  FROM snapshot_delta AS d
  LEFT JOIN steady_delta AS s ON s.seq = d.seq
  LEFT JOIN tree_delta AS t ON t.seq = d.seq
  LEFT JOIN gpu_delta AS g ON g.seq = d.seq
  WINDOW w AS (ORDER BY d.seq ROWS UNBOUNDED PRECEDING)
)
SELECT seq,
  sum(boot_us) OVER w AS boot_us, sum(boot_us + clock_us) OVER w AS wall_us,
  reason, job_phase,
  {{added}}
FROM joined
WINDOW w AS (ORDER BY seq ROWS UNBOUNDED PRECEDING),
  sw AS (PARTITION BY steady_row ORDER BY seq ROWS UNBOUNDED PRECEDING),
  tw AS (PARTITION BY tree_row ORDER BY seq ROWS UNBOUNDED PRECEDING),
  gw AS (PARTITION BY gpu_row ORDER BY seq ROWS UNBOUNDED PRECEDING);

-- Devices: one row for each identity that was seen; a new link speed is a new identity. The ids
-- of interfaces, disks and mounts differ from one another.
CREATE TABLE net (
  id INTEGER PRIMARY KEY, slot INTEGER NOT NULL,
  name TEXT, mac TEXT, driver TEXT, oper_state TEXT, speed_mbps INTEGER, mtu_bytes INTEGER
);
CREATE TABLE disk (
  id INTEGER PRIMARY KEY, slot INTEGER NOT NULL,
  name TEXT, leaf INTEGER, model TEXT, vendor TEXT, serial TEXT, type TEXT, capacity_bytes INTEGER
);
CREATE TABLE mount (
  id INTEGER PRIMARY KEY, slot INTEGER NOT NULL,
  disk TEXT, mount_point TEXT, fs_type TEXT, total_bytes INTEGER
);
CREATE TABLE gpu (
  id INTEGER PRIMARY KEY, slot INTEGER NOT NULL,
  uuid TEXT, name TEXT, type TEXT, host TEXT, vram_total_bytes INTEGER, cores INTEGER, detail TEXT,
  in_job INTEGER -- 1: allocated to the job; NULL: not known
);

-- What they showed, in the order of seq, where it differs from the snapshot before. gone = 1: no
-- longer there. One table, because each table that grows costs a page per commit; the views
-- below give the figures their names.
CREATE TABLE device_reading (seq INTEGER, device INTEGER, value1 INTEGER, value2 INTEGER, gone INTEGER);
CREATE TABLE gpu_reading (
  seq INTEGER, gpu INTEGER, utilization_pct REAL, vram_used_bytes INTEGER,
  temperature_celsius INTEGER, power_watts REAL, frequency_mhz INTEGER, gone INTEGER
);
CREATE VIEW net_reading AS
  SELECT seq, net.id AS net, name, value1 AS rx_bytes, value2 AS tx_bytes, gone
  FROM device_reading CROSS JOIN net ON net.id = device;
CREATE VIEW disk_reading AS
  SELECT seq, disk.id AS disk, name, value1 AS read_bytes, value2 AS write_bytes, gone
  FROM device_reading CROSS JOIN disk ON disk.id = device;
CREATE VIEW mount_reading AS
  SELECT seq, mount.id AS mount, mount_point, value1 AS available_bytes, value2 AS used_bytes, gone
  FROM device_reading CROSS JOIN mount ON mount.id = device;

-- Like the devices: what it is, and what it showed where that differs from the snapshot before.
-- Steps of the job and their tasks; task is NULL for the step as a whole.
CREATE TABLE step (id INTEGER PRIMARY KEY, slot INTEGER NOT NULL, step TEXT, task INTEGER);
CREATE TABLE step_value (
  seq INTEGER, step INTEGER, ended INTEGER, cpu_usage_us INTEGER, cpu_user_us INTEGER, cpu_system_us INTEGER,
  mem_current_kib, mem_peak_kib, anon_kib, file_kib, shmem_kib,
  page_faults INTEGER, major_faults INTEGER, events_oom_kill INTEGER, pids INTEGER,
  io_read_bytes INTEGER, io_write_bytes INTEGER, gone INTEGER
);
-- Those processes of the job that used most. start_ticks: after boot, of 10 ms.
CREATE TABLE process (
  id INTEGER PRIMARY KEY, slot INTEGER NOT NULL,
  pid INTEGER, start_ticks INTEGER, comm TEXT, step TEXT, task INTEGER
);
CREATE TABLE process_value (
  seq INTEGER, process INTEGER, user_ticks INTEGER, system_ticks INTEGER, rss_kib, pss_kib,
  threads INTEGER, read_bytes INTEGER, write_bytes INTEGER, gone INTEGER
);
-- These share one table of readings; their ids differ from one another.
CREATE TABLE gpu_process (id INTEGER PRIMARY KEY, slot INTEGER NOT NULL, uuid TEXT, pid INTEGER);
CREATE TABLE fabric (
  id INTEGER PRIMARY KEY, slot INTEGER NOT NULL,
  device TEXT, port INTEGER, link TEXT, state TEXT, rate_mbps INTEGER
);
CREATE TABLE remote_fs (id INTEGER PRIMARY KEY, slot INTEGER NOT NULL, kind TEXT, source TEXT, mount_point TEXT);
CREATE TABLE energy (
  id INTEGER PRIMARY KEY, slot INTEGER NOT NULL, source TEXT, domain TEXT, kind TEXT, socket INTEGER
);
CREATE TABLE perf (
  id INTEGER PRIMARY KEY, slot INTEGER NOT NULL, "group" TEXT, socket INTEGER, cpu INTEGER, event TEXT
);
CREATE TABLE counter_value (seq INTEGER, device INTEGER, value1, value2, value3, value4, gone INTEGER);

CREATE VIEW step_reading AS
  SELECT seq, d.id AS id, d.step AS step, task, ended,
    cpu_usage_us, cpu_user_us, cpu_system_us, mem_current_kib, mem_peak_kib, anon_kib, file_kib, shmem_kib,
    page_faults, major_faults, events_oom_kill AS oom_kills, pids, io_read_bytes, io_write_bytes, gone
  FROM step_value AS v CROSS JOIN step AS d ON d.id = v.step;
CREATE VIEW process_reading AS
  SELECT seq, process, pid, comm, step, task, user_ticks AS cpu_user_ticks, system_ticks AS cpu_system_ticks, rss_kib, pss_kib, threads,
    read_bytes, write_bytes, gone
  FROM process_value CROSS JOIN process AS d ON d.id = process;
CREATE VIEW gpu_process_reading AS
  SELECT seq, d.id AS gpu_process, uuid AS gpu_uuid, pid, value1 AS vram_used_bytes, value2 AS utilization_pct,
    value3 AS vram_peak_bytes, gone
  FROM counter_value CROSS JOIN gpu_process AS d ON d.id = device;
CREATE VIEW fabric_reading AS
  SELECT seq, d.id AS fabric, d.device AS device, port, value1 AS rx_bytes, value2 AS tx_bytes,
    value3 AS rx_packets, value4 AS tx_packets, gone
  FROM counter_value AS v CROSS JOIN fabric AS d ON d.id = v.device;
CREATE VIEW remote_fs_reading AS
  SELECT seq, d.id AS remote_fs, kind, source, mount_point, value1 AS read_bytes, value2 AS write_bytes,
    value3 AS ops, gone
  FROM counter_value CROSS JOIN remote_fs AS d ON d.id = device;
CREATE VIEW energy_reading AS
  SELECT seq, d.id AS energy, source, domain, kind, socket, value1 AS energy_uj, value2 AS power_watts, gone
  FROM counter_value CROSS JOIN energy AS d ON d.id = device;
CREATE VIEW perf_reading AS
  SELECT seq, d.id AS perf, "group", socket, cpu, event, value1 AS value, value2 AS enabled_ns,
    value3 AS running_ns, gone
  FROM counter_value CROSS JOIN perf AS d ON d.id = device;

-- What each came to: its last figures and the highest of its gauges.
CREATE VIEW step_total AS
  SELECT step, task, round(max(cpu_usage_us) / 1e6, 2) AS cpu_s, round(max(cpu_user_us) / 1e6, 2) AS user_s,
    round(max(cpu_system_us) / 1e6, 2) AS system_s, round(max(mem_current_kib) / 1024.0, 1) AS mem_max_mib,
    round(max(mem_peak_kib) / 1024.0, 1) AS mem_peak_mib, round(max(anon_kib) / 1024.0, 1) AS anon_max_mib,
    max(page_faults) AS page_faults, max(oom_kills) AS oom_kills, max(pids) AS pids_max,
    max(io_read_bytes) AS read_bytes, max(io_write_bytes) AS write_bytes
  FROM step_reading GROUP BY id;
CREATE VIEW process_total AS
  SELECT pid, comm, step, task, (max(cpu_user_ticks) + max(cpu_system_ticks)) / 100.0 AS cpu_s,
    round(max(rss_kib) / 1024.0, 1) AS rss_max_mib, round(max(pss_kib) / 1024.0, 1) AS pss_max_mib,
    max(threads) AS threads_max, max(read_bytes) AS read_bytes, max(write_bytes) AS write_bytes
  FROM process_reading GROUP BY process;
CREATE VIEW energy_total AS
  SELECT source, domain, kind, socket, round(max(energy_uj) / 1e6, 3) AS energy_j,
    max(power_watts) AS power_max_watts
  FROM energy_reading GROUP BY energy;

-- Reports of other programs, as they came: one JSON document each.
CREATE TABLE record (id INTEGER PRIMARY KEY, time_us INTEGER, source TEXT, body TEXT);

-- One row: what was tracked, and how it ended. Times are microseconds since the epoch.
CREATE TABLE run (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  cluster TEXT, job_id INTEGER, array_job_id INTEGER, array_task_id INTEGER,
  het_job_id INTEGER, het_job_offset INTEGER, step TEXT, node TEXT, attempt INTEGER, sluid TEXT,
  boot_id TEXT, start_us INTEGER,
  scheduler TEXT, user TEXT, uid INTEGER, gid INTEGER, "group" TEXT, account TEXT, partition TEXT,
  qos TEXT, reservation TEXT, node_list TEXT, num_nodes INTEGER, alloc_cpus INTEGER,
  alloc_mem_bytes INTEGER, gpus TEXT, work_dir TEXT, comment TEXT, constraints TEXT, licenses TEXT,
  step_tasks INTEGER, job_start_us INTEGER, job_end_limit_us INTEGER,
  job_name TEXT, project_name TEXT, stage_name TEXT, task_name TEXT, team TEXT, env TEXT,
  language TEXT, orchestrator TEXT, executor TEXT, external_run_id TEXT, container_image TEXT,
  tags TEXT,
  command TEXT, pid INTEGER, interval_secs REAL, cgroup_layout TEXT, cgroup_path TEXT,
  tracker_version TEXT,
  state TEXT NOT NULL, outcome TEXT, outcome_source TEXT, exit_code INTEGER, exit_signal INTEGER,
  derived_exit INTEGER, end_us INTEGER,
  delivered_us INTEGER
);

-- One row: the machine.
CREATE TABLE host (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  host_id TEXT, host_name TEXT, host_ip TEXT, host_allocation TEXT, host_vcpus INTEGER,
  host_cpu_model TEXT, host_memory_mib INTEGER, host_gpu_model TEXT, host_gpu_count INTEGER,
  host_gpu_vram_mib INTEGER, host_storage_gb REAL, cloud_vendor_id TEXT, cloud_account_id TEXT,
  cloud_region_id TEXT, cloud_zone_id TEXT, cloud_instance_type TEXT
);

-- The quality ledger: decisions, gaps, sensors, faults of the spool.
CREATE TABLE event (
  id INTEGER PRIMARY KEY,
  time_us INTEGER, kind TEXT, name TEXT, status TEXT, detail TEXT
);

-- At most one row: what is known of the run at the receiver.
CREATE TABLE registration (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  endpoint TEXT, dialect TEXT, run_id TEXT, upload_uri_prefix TEXT,
  intent_us INTEGER, registered_us INTEGER, finish_intent_us INTEGER, finished_us INTEGER, attempts INTEGER,
  scope TEXT, -- of its rows, from the first batch to the last
  record INTEGER, -- 1: the receiver takes the complete record of the run
  record_seq INTEGER -- the last snapshot in the record that was sent while the run was tracked
);

-- Sealed uploads: written before the network is touched.
CREATE TABLE batch (
  number INTEGER PRIMARY KEY,
  first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL, rows INTEGER NOT NULL,
  bytes INTEGER NOT NULL, sha256 TEXT NOT NULL, key TEXT NOT NULL,
  sealed_us INTEGER NOT NULL, uploaded_us INTEGER
);

-- What a person wants to see: rates over the interval before each snapshot, the same as in an
-- export. NULL: not read, or a counter that went backwards, or no interval before the first. The
-- next value after a gap spans it: the times, and rates times seconds, add up to the totals;
-- job_cores and tree_cores are means over the gap.
CREATE VIEW sample AS
WITH
reading AS (
  SELECT s.*,
    s.node_cpu_user_ticks + s.node_cpu_nice_ticks + s.node_cpu_system_ticks + s.node_cpu_irq_ticks
      + s.node_cpu_softirq_ticks + s.node_cpu_steal_ticks AS busy,
    s.node_cpu_idle_ticks + s.node_cpu_iowait_ticks AS idle,
    s.tree_cpu_user_ticks + s.tree_cpu_system_ticks AS tree,
    -- a job that is pending has used nothing yet
    iif(s.job_phase = 1, 0, s.job_cpu_usage_us) AS cpu,
    iif(s.job_phase = 1, 0, s.job_cpu_user_us) AS user,
    iif(s.job_phase = 1, 0, s.job_cpu_system_us) AS system,
    -- what each row adds to the last value that was read: the sum of the rows before is that value
    d.node_cpu_user_ticks + d.node_cpu_nice_ticks + d.node_cpu_system_ticks + d.node_cpu_irq_ticks
      + d.node_cpu_softirq_ticks + d.node_cpu_steal_ticks AS busy_add,
    d.node_cpu_idle_ticks + d.node_cpu_iowait_ticks AS idle_add,
    t.tree_cpu_user_ticks + t.tree_cpu_system_ticks AS tree_add,
    d.job_cpu_usage_us AS cpu_add, d.job_cpu_user_us AS user_add, d.job_cpu_system_us AS system_add,
    d.job_io_read_bytes AS io_read_add, d.job_io_write_bytes AS io_write_add,
    d.job_proc_read_bytes AS proc_read_add, d.job_proc_write_bytes AS proc_write_add,
    d.node_net_rx_bytes AS rx_add, d.node_net_tx_bytes AS tx_add,
    d.node_disk_read_bytes AS read_add, d.node_disk_write_bytes AS write_add
  FROM snapshot AS s JOIN snapshot_delta AS d ON d.seq = s.seq LEFT JOIN tree_delta AS t ON t.seq = s.seq
),
-- The last value before each row, so that a difference spans the rows without a value.
last AS (
  SELECT *,
    sum(busy_add) OVER before AS busy_was, sum(idle_add) OVER before AS idle_was, sum(tree_add) OVER before AS tree_was,
    coalesce(sum(cpu_add) OVER before, zero) AS cpu_was, coalesce(sum(user_add) OVER before, zero) AS user_was,
    coalesce(sum(system_add) OVER before, zero) AS system_was,
    max(iif(cpu IS NULL, NULL, boot_us)) OVER before AS cpu_boot_us,
    max(iif(tree IS NULL, NULL, boot_us)) OVER before AS tree_boot_us,
    -- what was counted while the job was pending is in no row: the next difference begins at zero
    iif(count(io_read_add) FILTER (WHERE job_phase <> 1) OVER before, sum(io_read_add) OVER before, NULL) AS io_read_was,
    iif(count(io_write_add) FILTER (WHERE job_phase <> 1) OVER before, sum(io_write_add) OVER before, NULL) AS io_write_was,
    iif(count(proc_read_add) FILTER (WHERE job_phase <> 1) OVER before, sum(proc_read_add) OVER before, NULL) AS proc_read_was,
    iif(count(proc_write_add) FILTER (WHERE job_phase <> 1) OVER before, sum(proc_write_add) OVER before, NULL) AS proc_write_was,
    sum(rx_add) OVER before AS rx_was, sum(tx_add) OVER before AS tx_was,
    sum(read_add) OVER before AS read_was, sum(write_add) OVER before AS write_was
  FROM (
    -- the counters of a job that was pending began at zero
    SELECT *, iif(max(job_phase = 1) OVER before, 0, NULL) AS zero FROM reading
    WINDOW before AS (ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
  )
  WINDOW before AS (ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
),
pair AS (
  SELECT *,
    (boot_us - lag(boot_us) OVER w) / 1e6 AS secs,
    boot_us - first_value(boot_us) OVER w AS elapsed_us,
    busy - busy_was AS busy_d, idle - idle_was AS idle_d,
    cpu - cpu_was AS cpu_d, tree - tree_was AS tree_d,
    -- each divided first, so that the rows add up to the total
    user / 1000 - user_was / 1000 AS user_d, system / 1000 - system_was / 1000 AS system_d,
    job_io_read_bytes - coalesce(io_read_was, zero) AS io_read_c, job_proc_read_bytes - coalesce(proc_read_was, zero) AS io_read_p,
    job_io_write_bytes - coalesce(io_write_was, zero) AS io_write_c, job_proc_write_bytes - coalesce(proc_write_was, zero) AS io_write_p,
    job_cpu_stall_some_us - lag(job_cpu_stall_some_us) OVER w AS cpu_stall_d,
    job_mem_stall_some_us - lag(job_mem_stall_some_us) OVER w AS mem_stall_d,
    job_io_stall_some_us - lag(job_io_stall_some_us) OVER w AS io_stall_d,
    job_page_faults - lag(job_page_faults) OVER w AS faults_d,
    node_net_rx_bytes - rx_was AS rx_d, node_net_tx_bytes - tx_was AS tx_d,
    node_disk_read_bytes - read_was AS read_d, node_disk_write_bytes - write_was AS write_d
  FROM last
  WINDOW w AS (ORDER BY seq ROWS UNBOUNDED PRECEDING)
),
rate AS (
  SELECT *, iif(secs > 0, secs, NULL) AS s,
    (boot_us - cpu_boot_us) / 1e6 AS cpu_s, (boot_us - tree_boot_us) / 1e6 AS tree_s,
    -- the io controller's figure, else what the job's processes counted
    CASE WHEN job_phase = 1 THEN NULL
      WHEN io_read_was IS NOT NULL OR io_read_c >= 0 AND proc_read_was IS NULL THEN io_read_c ELSE io_read_p END AS io_read_d,
    CASE WHEN job_phase = 1 THEN NULL
      WHEN io_write_was IS NOT NULL OR io_write_c >= 0 AND proc_write_was IS NULL THEN io_write_c ELSE io_write_p END AS io_write_d
  FROM pair
)
SELECT seq,
  strftime('%Y-%m-%dT%H:%M:%S', wall_us / 1000000, 'unixepoch')
    || printf('.%03dZ', wall_us / 1000 % 1000) AS time,
  round(elapsed_us / 1e6, 3) AS elapsed_s,
  round(secs, 3) AS seconds,
  CASE reason WHEN 0 THEN 'tick' WHEN 1 THEN 'first' WHEN 2 THEN 'appeared' WHEN 3 THEN 'last'
    WHEN 4 THEN 'stop' ELSE reason END AS reason,
  CASE job_phase WHEN 0 THEN 'none' WHEN 1 THEN 'pending' WHEN 2 THEN 'present' WHEN 3 THEN 'gone'
    ELSE job_phase END AS job_phase,
  round(CASE WHEN cpu_d >= 0 THEN cpu_d / 1e6 / cpu_s END, 2) AS job_cores,
  CASE WHEN user_d >= 0 THEN user_d / 1e3 END AS job_user_s,
  CASE WHEN system_d >= 0 THEN system_d / 1e3 END AS job_system_s,
  round(job_mem_current_kib / 1024.0, 1) AS job_mem_mib,
  round(job_mem_peak_kib / 1024.0, 1) AS job_mem_peak_mib,
  iif(job_mem_limit_kib = -1, 'none', round(job_mem_limit_kib / 1024.0, 1)) AS job_mem_limit_mib,
  round(job_anon_kib / 1024.0, 1) AS job_anon_mib,
  round(job_file_kib / 1024.0, 1) AS job_file_mib,
  round(job_shmem_kib / 1024.0, 1) AS job_shmem_mib,
  round(job_swap_kib / 1024.0, 1) AS job_swap_mib,
  job_pids,
  job_threads,
  -- the share of the interval in which some task of the job waited for a CPU, for memory, for I/O
  round(CASE WHEN cpu_stall_d >= 0 THEN cpu_stall_d / 1e4 / s END, 1) AS job_cpu_stall_pct,
  round(CASE WHEN mem_stall_d >= 0 THEN mem_stall_d / 1e4 / s END, 1) AS job_mem_stall_pct,
  round(CASE WHEN io_stall_d >= 0 THEN io_stall_d / 1e4 / s END, 1) AS job_io_stall_pct,
  round(CASE WHEN faults_d >= 0 THEN faults_d / s END) AS job_page_faults_per_s,
  job_events_oom_kill AS job_oom_kills,
  round(CASE WHEN io_read_d >= 0 THEN io_read_d / s END) AS job_read_bytes_per_s,
  round(CASE WHEN io_write_d >= 0 THEN io_write_d / s END) AS job_write_bytes_per_s,
  round(CASE WHEN tree_d >= 0 THEN tree_d / 100.0 / tree_s END, 2) AS tree_cores,
  round(tree_rss_kib / 1024.0, 1) AS tree_rss_mib,
  round(tree_pss_kib / 1024.0, 1) AS tree_pss_mib,
  tree_children,
  round(CASE WHEN busy_d + idle_d = 0 THEN 0
    WHEN busy_d >= 0 AND idle_d >= 0 THEN 1.0 * busy_d / (busy_d + idle_d) * node_cpus END, 2) AS node_cores,
  node_cpus,
  round(max(0, node_mem_total_kib - node_mem_free_kib - node_buffers_kib - node_cached_kib
    - node_sreclaimable_kib - ifnull(node_huge_free_kib, 0)) / 1024.0, 1) AS node_mem_used_mib,
  round(node_mem_available_kib / 1024.0, 1) AS node_mem_available_mib,
  node_processes,
  round(CASE WHEN rx_d >= 0 THEN rx_d / s END) AS net_rx_bytes_per_s,
  round(CASE WHEN tx_d >= 0 THEN tx_d / s END) AS net_tx_bytes_per_s,
  round(CASE WHEN read_d >= 0 THEN read_d / s END) AS disk_read_bytes_per_s,
  round(CASE WHEN write_d >= 0 THEN write_d / s END) AS disk_write_bytes_per_s,
  round(node_space_available_kib / 1048576.0, 2) AS space_available_gib,
  round(node_gpu_usage, 2) AS gpus_used,
  round(node_gpu_vram_used_kib / 1024.0, 1) AS gpu_vram_used_mib,
  round(job_gpu_usage, 2) AS job_gpus_used,
  round(job_gpu_vram_used_kib / 1024.0, 1) AS job_gpu_vram_used_mib,
  round(node_load1_hundredths / 100.0, 2) AS node_load1,
  round(node_cpu_freq_khz / 1000.0) AS node_cpu_freq_mhz
FROM rate;
