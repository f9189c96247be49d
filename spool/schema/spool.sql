-- The schema of a spool file. See DESIGN.md for the invariants. The program strips the comments.
-- TestSchemaHasTheColumnsOfTheCode compares the columns with the tables of figures.

-- What was read, a row for each snapshot: counters as the kernel has them, in the unit at the end
-- of the name. NULL: not read. A limit of -1 is "no limit". A value in KiB may be a fraction.
CREATE TABLE snapshot (
  seq INTEGER PRIMARY KEY, -- ascending from 1; numbers are missing where snapshots were thinned
  boot_us, -- CLOCK_BOOTTIME
  wall_us, -- since the epoch: CLOCK_REALTIME at the start of the run, advanced by the boot clock
  reason, -- 0 tick, 1 first, 2 appeared, 3 last, 4 stop
  job_phase, -- 0 none, 1 pending, 2 present, 3 gone
  node_cpu_user_ticks, node_cpu_nice_ticks, node_cpu_system_ticks, node_cpu_idle_ticks,
  node_cpu_iowait_ticks, node_cpu_irq_ticks, node_cpu_softirq_ticks, node_cpu_steal_ticks, node_cpus,
  node_processes, node_mem_total_kib, node_mem_free_kib, node_mem_available_kib, node_buffers_kib,
  node_cached_kib, node_sreclaimable_kib, node_shmem_kib, node_active_kib, node_inactive_kib,
  node_swap_total_kib, node_swap_free_kib, node_net_rx_bytes, node_net_tx_bytes, node_disk_read_bytes,
  node_disk_write_bytes, node_space_total_kib, node_space_available_kib, node_gpus, node_gpu_vram_used_kib,
  node_gpu_utilized, node_huge_free_kib, node_load1_hundredths, node_cpu_freq_khz, job_cpu_usage_us,
  job_cpu_user_us, job_cpu_system_us, job_cpu_throttled_us, job_stepd_cpu_usage_us, job_mem_current_kib,
  job_mem_peak_kib, job_mem_limit_kib, job_swap_kib, job_swap_peak_kib, job_mem_interval_peak_kib,
  job_anon_kib, job_file_kib, job_shmem_kib, job_kernel_bytes, job_slab_reclaimable_bytes, job_active_kib,
  job_inactive_kib, job_page_faults, job_major_faults, job_events_high, job_events_max, job_events_oom,
  job_events_oom_kill, job_pids, job_threads, job_io_read_bytes, job_io_write_bytes, job_cpu_stall_some_us,
  job_cpu_stall_full_us, job_mem_stall_some_us, job_mem_stall_full_us, job_io_stall_some_us,
  job_io_stall_full_us, job_suspended_us, job_huge_tlb_kib, job_rdma_handles, job_rdma_objects,
  job_proc_read_bytes, job_proc_write_bytes, job_voluntary_switches, job_involuntary_switches,
  tree_cpu_user_ticks, tree_cpu_system_ticks, tree_children, tree_rss_kib, tree_pss_kib, tree_read_bytes,
  tree_write_bytes, job_gpu_vram_used_kib, job_gpu_utilized, node_read_boot_us, node_gpu_usage REAL,
  job_gpu_usage REAL
);

-- The counters of the logical CPUs at a snapshot, see core_ticks.go.
CREATE TABLE core_ticks (seq INTEGER PRIMARY KEY, cores BLOB);

-- Things: one row for each identity that was seen; a new link speed is a new identity. slot is the
-- place in the list of the first snapshot that has it.
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
  disk TEXT, fs_type TEXT, mount_point TEXT, total_bytes INTEGER
);
CREATE TABLE gpu (
  id INTEGER PRIMARY KEY, slot INTEGER NOT NULL,
  uuid TEXT, name TEXT, type TEXT, host TEXT, vram_total_bytes INTEGER, cores INTEGER,
  in_job INTEGER, -- 1: allocated to the job; NULL: not known
  detail TEXT
);
-- Steps of the job and their tasks; task is NULL for the step as a whole.
CREATE TABLE step (id INTEGER PRIMARY KEY, slot INTEGER NOT NULL, task INTEGER, step TEXT);
-- Those processes of the job that used most. start_ticks: after boot, of 10 ms.
CREATE TABLE process (
  id INTEGER PRIMARY KEY, slot INTEGER NOT NULL,
  pid INTEGER, start_ticks INTEGER, task INTEGER, step TEXT, comm TEXT
);
CREATE TABLE gpu_process (id INTEGER PRIMARY KEY, slot INTEGER NOT NULL, uuid TEXT, pid INTEGER);
CREATE TABLE fabric (
  id INTEGER PRIMARY KEY, slot INTEGER NOT NULL,
  port INTEGER, device TEXT, link TEXT, state TEXT, rate_mbps INTEGER
);
CREATE TABLE remote_fs (id INTEGER PRIMARY KEY, slot INTEGER NOT NULL, kind TEXT, source TEXT, mount_point TEXT);
CREATE TABLE energy (
  id INTEGER PRIMARY KEY, slot INTEGER NOT NULL, source TEXT, kind TEXT, domain TEXT, socket INTEGER
);
CREATE TABLE perf (
  id INTEGER PRIMARY KEY, slot INTEGER NOT NULL, "group" TEXT, socket INTEGER, cpu INTEGER, event TEXT
);

-- What each of them showed at a snapshot, a row for each that was there.
CREATE TABLE net_value (
  seq INTEGER, net INTEGER, rx_bytes INTEGER, tx_bytes INTEGER, PRIMARY KEY (seq, net)
) WITHOUT ROWID;
CREATE TABLE disk_value (
  seq INTEGER, disk INTEGER, read_bytes INTEGER, write_bytes INTEGER, PRIMARY KEY (seq, disk)
) WITHOUT ROWID;
CREATE TABLE mount_value (
  seq INTEGER, mount INTEGER, available_bytes INTEGER, used_bytes INTEGER, PRIMARY KEY (seq, mount)
) WITHOUT ROWID;
CREATE TABLE gpu_value (
  seq INTEGER, gpu INTEGER, utilization_pct REAL, vram_used_bytes INTEGER,
  temperature_celsius INTEGER, power_watts REAL, frequency_mhz INTEGER, PRIMARY KEY (seq, gpu)
) WITHOUT ROWID;
CREATE TABLE step_value (
  seq INTEGER, step INTEGER, ended INTEGER, cpu_usage_us INTEGER, cpu_user_us INTEGER, cpu_system_us INTEGER,
  mem_current_kib, mem_peak_kib, anon_kib, file_kib, shmem_kib,
  page_faults INTEGER, major_faults INTEGER, events_oom_kill INTEGER, pids INTEGER,
  io_read_bytes INTEGER, io_write_bytes INTEGER, PRIMARY KEY (seq, step)
) WITHOUT ROWID;
CREATE TABLE process_value (
  seq INTEGER, process INTEGER, user_ticks INTEGER, system_ticks INTEGER, rss_kib, pss_kib,
  threads INTEGER, read_bytes INTEGER, write_bytes INTEGER, PRIMARY KEY (seq, process)
) WITHOUT ROWID;
CREATE TABLE gpu_process_value (
  seq INTEGER, gpu_process INTEGER, vram_used_bytes INTEGER, utilization_pct REAL, vram_peak_bytes INTEGER,
  PRIMARY KEY (seq, gpu_process)
) WITHOUT ROWID;
CREATE TABLE fabric_value (
  seq INTEGER, fabric INTEGER, rx_bytes INTEGER, tx_bytes INTEGER, rx_packets INTEGER, tx_packets INTEGER,
  PRIMARY KEY (seq, fabric)
) WITHOUT ROWID;
CREATE TABLE remote_fs_value (
  seq INTEGER, remote_fs INTEGER, read_bytes INTEGER, write_bytes INTEGER, ops INTEGER, PRIMARY KEY (seq, remote_fs)
) WITHOUT ROWID;
CREATE TABLE energy_value (
  seq INTEGER, energy INTEGER, energy_uj INTEGER, power_watts REAL, PRIMARY KEY (seq, energy)
) WITHOUT ROWID;
CREATE TABLE perf_value (
  seq INTEGER, perf INTEGER, value INTEGER, time_enabled_ns INTEGER, time_running_ns INTEGER, PRIMARY KEY (seq, perf)
) WITHOUT ROWID;

-- The same with what each is.
CREATE VIEW net_reading AS
  SELECT seq, net, name, rx_bytes, tx_bytes FROM net_value JOIN net ON id = net;
CREATE VIEW disk_reading AS
  SELECT seq, disk, name, read_bytes, write_bytes FROM disk_value JOIN disk ON id = disk;
CREATE VIEW mount_reading AS
  SELECT seq, mount, mount_point, available_bytes, used_bytes FROM mount_value JOIN mount ON id = mount;
CREATE VIEW gpu_reading AS
  SELECT seq, gpu, uuid, name, utilization_pct, vram_used_bytes, temperature_celsius, power_watts, frequency_mhz
  FROM gpu_value JOIN gpu ON id = gpu;
CREATE VIEW step_reading AS
  SELECT seq, id, d.step AS step, task, ended,
    cpu_usage_us, cpu_user_us, cpu_system_us, mem_current_kib, mem_peak_kib, anon_kib, file_kib, shmem_kib,
    page_faults, major_faults, events_oom_kill AS oom_kills, pids, io_read_bytes, io_write_bytes
  FROM step_value AS v JOIN step AS d ON id = v.step;
CREATE VIEW process_reading AS
  SELECT seq, process, pid, comm, step, task, user_ticks AS cpu_user_ticks, system_ticks AS cpu_system_ticks,
    rss_kib, pss_kib, threads, read_bytes, write_bytes
  FROM process_value JOIN process ON id = process;
CREATE VIEW gpu_process_reading AS
  SELECT seq, gpu_process, uuid AS gpu_uuid, pid, vram_used_bytes, utilization_pct, vram_peak_bytes
  FROM gpu_process_value JOIN gpu_process ON id = gpu_process;
CREATE VIEW fabric_reading AS
  SELECT seq, fabric, device, port, rx_bytes, tx_bytes, rx_packets, tx_packets
  FROM fabric_value JOIN fabric ON id = fabric;
CREATE VIEW remote_fs_reading AS
  SELECT seq, remote_fs, kind, source, mount_point, read_bytes, write_bytes, ops
  FROM remote_fs_value JOIN remote_fs ON id = remote_fs;
CREATE VIEW energy_reading AS
  SELECT seq, energy, source, domain, kind, socket, energy_uj, power_watts
  FROM energy_value JOIN energy ON id = energy;
CREATE VIEW perf_reading AS
  SELECT seq, perf, "group", socket, cpu, event, value, time_enabled_ns AS enabled_ns, time_running_ns AS running_ns
  FROM perf_value JOIN perf ON id = perf;

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
  SELECT *,
    printf('%020d', seq) AS at,
    node_cpu_user_ticks + node_cpu_nice_ticks + node_cpu_system_ticks + node_cpu_irq_ticks
      + node_cpu_softirq_ticks + node_cpu_steal_ticks AS busy,
    node_cpu_idle_ticks + node_cpu_iowait_ticks AS idle,
    tree_cpu_user_ticks + tree_cpu_system_ticks AS tree,
    -- a job that is pending has used nothing yet
    iif(job_phase = 1, 0, job_cpu_usage_us) AS cpu,
    iif(job_phase = 1, 0, job_cpu_user_us) AS user,
    iif(job_phase = 1, 0, job_cpu_system_us) AS system,
    -- what was counted while the job was pending is in no row: the next difference begins at zero
    iif(job_phase = 1, NULL, job_io_read_bytes) AS io_read, iif(job_phase = 1, NULL, job_io_write_bytes) AS io_write,
    iif(job_phase = 1, NULL, job_proc_read_bytes) AS proc_read, iif(job_phase = 1, NULL, job_proc_write_bytes) AS proc_write
  FROM snapshot
),
-- The last value before each row, so that a difference spans the rows without a value: the highest
-- of the texts that begin with a row's number, and end with its value.
last AS (
  SELECT *,
    substr(max(at || busy) OVER before, 21) AS busy_was, substr(max(at || idle) OVER before, 21) AS idle_was,
    substr(max(at || tree) OVER before, 21) AS tree_was, substr(max(at || cpu) OVER before, 21) AS cpu_was,
    substr(max(at || user) OVER before, 21) AS user_was, substr(max(at || system) OVER before, 21) AS system_was,
    max(iif(cpu IS NULL, NULL, boot_us)) OVER before AS cpu_boot_us,
    max(iif(tree IS NULL, NULL, boot_us)) OVER before AS tree_boot_us,
    substr(max(at || io_read) OVER before, 21) AS io_read_was, substr(max(at || io_write) OVER before, 21) AS io_write_was,
    substr(max(at || proc_read) OVER before, 21) AS proc_read_was, substr(max(at || proc_write) OVER before, 21) AS proc_write_was,
    substr(max(at || node_net_rx_bytes) OVER before, 21) AS rx_was, substr(max(at || node_net_tx_bytes) OVER before, 21) AS tx_was,
    substr(max(at || node_disk_read_bytes) OVER before, 21) AS read_was,
    substr(max(at || node_disk_write_bytes) OVER before, 21) AS write_was,
    -- the counters of a job that was pending began at zero
    iif(max(job_phase = 1) OVER before, 0, NULL) AS zero
  FROM reading
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
    io_read - coalesce(io_read_was, zero) AS io_read_c, proc_read - coalesce(proc_read_was, zero) AS io_read_p,
    io_write - coalesce(io_write_was, zero) AS io_write_c, proc_write - coalesce(proc_write_was, zero) AS io_write_p,
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
    CASE WHEN io_read_was IS NOT NULL OR io_read_c >= 0 AND proc_read_was IS NULL THEN io_read_c ELSE io_read_p END AS io_read_d,
    CASE WHEN io_write_was IS NOT NULL OR io_write_c >= 0 AND proc_write_was IS NULL THEN io_write_c ELSE io_write_p END AS io_write_d
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
