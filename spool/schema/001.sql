-- Version 1 of the spool. See DESIGN.md for the invariants.

-- What each snapshot adds to the one before: the first row holds the values themselves.
-- NULL: not read. The view snapshot adds the rows up again. A limit of -1 is "no limit".
CREATE TABLE snapshot_delta (
  seq INTEGER PRIMARY KEY, -- ascending from 1; numbers are missing where snapshots were thinned
  boot_us, -- CLOCK_BOOTTIME
  clock_us, -- CLOCK_REALTIME - CLOCK_BOOTTIME
  reason,  -- not a difference: 0 tick, 1 first, 2 appeared, 3 last, 4 stop
  job_phase, -- not a difference: 0 none, 1 pending, 2 present, 3 gone
  node_cpu_user_ticks, node_cpu_nice_ticks, node_cpu_system_ticks, node_cpu_idle_ticks, node_cpu_iowait_ticks, node_cpu_irq_ticks, node_cpu_softirq_ticks, node_cpu_steal_ticks,
  node_cpus, node_processes,
  node_mem_total_kib, node_mem_free_kib, node_mem_available_kib, node_buffers_kib, node_cached_kib, node_sreclaimable_kib, node_shmem_kib, node_active_kib, node_inactive_kib, node_swap_total_kib, node_swap_free_kib,
  node_net_rx_bytes, node_net_tx_bytes, node_disk_read_bytes, node_disk_write_bytes, node_space_total_kib, node_space_available_kib,
  node_gpu_vram_used_kib, node_gpus_utilized,
  job_cpu_usage_us, job_cpu_user_us, job_cpu_system_us, job_cpu_throttled_us,
  job_mem_current_kib, job_mem_peak_kib, job_mem_limit_kib, job_swap_kib,
  job_anon_kib, job_file_kib, job_shmem_kib, job_kernel_bytes, job_slab_reclaimable_bytes, job_active_kib, job_inactive_kib,
  job_page_faults, job_major_faults,
  job_events_high, job_events_max, job_events_oom, job_events_oom_kill,
  job_pids, job_io_read_bytes, job_io_write_bytes,
  tree_cpu_user_ticks, tree_cpu_system_ticks, tree_children, tree_rss_kib,
  node_gpu_usage REAL, -- not a difference: fractional GPUs in use
  core_ticks BLOB -- per-core counters, see DESIGN.md
);

-- Where reading may start: the sums over all rows before seq, and the last rowids of the
-- device readings before it. The devices and CPUs of this seq are complete.
CREATE TABLE keyframe (
  seq INTEGER PRIMARY KEY,
  boot_us, clock_us,
  node_cpu_user_ticks, node_cpu_nice_ticks, node_cpu_system_ticks, node_cpu_idle_ticks, node_cpu_iowait_ticks, node_cpu_irq_ticks, node_cpu_softirq_ticks, node_cpu_steal_ticks,
  node_cpus, node_processes,
  node_mem_total_kib, node_mem_free_kib, node_mem_available_kib, node_buffers_kib, node_cached_kib, node_sreclaimable_kib, node_shmem_kib, node_active_kib, node_inactive_kib, node_swap_total_kib, node_swap_free_kib,
  node_net_rx_bytes, node_net_tx_bytes, node_disk_read_bytes, node_disk_write_bytes, node_space_total_kib, node_space_available_kib,
  node_gpu_vram_used_kib, node_gpus_utilized,
  job_cpu_usage_us, job_cpu_user_us, job_cpu_system_us, job_cpu_throttled_us,
  job_mem_current_kib, job_mem_peak_kib, job_mem_limit_kib, job_swap_kib,
  job_anon_kib, job_file_kib, job_shmem_kib, job_kernel_bytes, job_slab_reclaimable_bytes, job_active_kib, job_inactive_kib,
  job_page_faults, job_major_faults,
  job_events_high, job_events_max, job_events_oom, job_events_oom_kill,
  job_pids, job_io_read_bytes, job_io_write_bytes,
  tree_cpu_user_ticks, tree_cpu_system_ticks, tree_children, tree_rss_kib,
  device_row, gpu_row
);

-- The counters and gauges as they were read.
CREATE VIEW snapshot AS
SELECT seq,
  sum(boot_us) OVER w AS boot_us, sum(boot_us + clock_us) OVER w AS wall_us,
  reason, job_phase,
  iif(node_cpu_user_ticks IS NULL, NULL, sum(node_cpu_user_ticks) OVER w) AS node_cpu_user_ticks,
  iif(node_cpu_nice_ticks IS NULL, NULL, sum(node_cpu_nice_ticks) OVER w) AS node_cpu_nice_ticks,
  iif(node_cpu_system_ticks IS NULL, NULL, sum(node_cpu_system_ticks) OVER w) AS node_cpu_system_ticks,
  iif(node_cpu_idle_ticks IS NULL, NULL, sum(node_cpu_idle_ticks) OVER w) AS node_cpu_idle_ticks,
  iif(node_cpu_iowait_ticks IS NULL, NULL, sum(node_cpu_iowait_ticks) OVER w) AS node_cpu_iowait_ticks,
  iif(node_cpu_irq_ticks IS NULL, NULL, sum(node_cpu_irq_ticks) OVER w) AS node_cpu_irq_ticks,
  iif(node_cpu_softirq_ticks IS NULL, NULL, sum(node_cpu_softirq_ticks) OVER w) AS node_cpu_softirq_ticks,
  iif(node_cpu_steal_ticks IS NULL, NULL, sum(node_cpu_steal_ticks) OVER w) AS node_cpu_steal_ticks,
  iif(node_cpus IS NULL, NULL, sum(node_cpus) OVER w) AS node_cpus,
  iif(node_processes IS NULL, NULL, sum(node_processes) OVER w) AS node_processes,
  iif(node_mem_total_kib IS NULL, NULL, sum(node_mem_total_kib) OVER w) AS node_mem_total_kib,
  iif(node_mem_free_kib IS NULL, NULL, sum(node_mem_free_kib) OVER w) AS node_mem_free_kib,
  iif(node_mem_available_kib IS NULL, NULL, sum(node_mem_available_kib) OVER w) AS node_mem_available_kib,
  iif(node_buffers_kib IS NULL, NULL, sum(node_buffers_kib) OVER w) AS node_buffers_kib,
  iif(node_cached_kib IS NULL, NULL, sum(node_cached_kib) OVER w) AS node_cached_kib,
  iif(node_sreclaimable_kib IS NULL, NULL, sum(node_sreclaimable_kib) OVER w) AS node_sreclaimable_kib,
  iif(node_shmem_kib IS NULL, NULL, sum(node_shmem_kib) OVER w) AS node_shmem_kib,
  iif(node_active_kib IS NULL, NULL, sum(node_active_kib) OVER w) AS node_active_kib,
  iif(node_inactive_kib IS NULL, NULL, sum(node_inactive_kib) OVER w) AS node_inactive_kib,
  iif(node_swap_total_kib IS NULL, NULL, sum(node_swap_total_kib) OVER w) AS node_swap_total_kib,
  iif(node_swap_free_kib IS NULL, NULL, sum(node_swap_free_kib) OVER w) AS node_swap_free_kib,
  iif(node_net_rx_bytes IS NULL, NULL, sum(node_net_rx_bytes) OVER w) AS node_net_rx_bytes,
  iif(node_net_tx_bytes IS NULL, NULL, sum(node_net_tx_bytes) OVER w) AS node_net_tx_bytes,
  iif(node_disk_read_bytes IS NULL, NULL, sum(node_disk_read_bytes) OVER w) AS node_disk_read_bytes,
  iif(node_disk_write_bytes IS NULL, NULL, sum(node_disk_write_bytes) OVER w) AS node_disk_write_bytes,
  iif(node_space_total_kib IS NULL, NULL, sum(node_space_total_kib) OVER w) AS node_space_total_kib,
  iif(node_space_available_kib IS NULL, NULL, sum(node_space_available_kib) OVER w) AS node_space_available_kib,
  iif(node_gpu_vram_used_kib IS NULL, NULL, sum(node_gpu_vram_used_kib) OVER w) AS node_gpu_vram_used_kib,
  iif(node_gpus_utilized IS NULL, NULL, sum(node_gpus_utilized) OVER w) AS node_gpus_utilized,
  iif(job_cpu_usage_us IS NULL, NULL, sum(job_cpu_usage_us) OVER w) AS job_cpu_usage_us,
  iif(job_cpu_user_us IS NULL, NULL, sum(job_cpu_user_us) OVER w) AS job_cpu_user_us,
  iif(job_cpu_system_us IS NULL, NULL, sum(job_cpu_system_us) OVER w) AS job_cpu_system_us,
  iif(job_cpu_throttled_us IS NULL, NULL, sum(job_cpu_throttled_us) OVER w) AS job_cpu_throttled_us,
  iif(job_mem_current_kib IS NULL, NULL, sum(job_mem_current_kib) OVER w) AS job_mem_current_kib,
  iif(job_mem_peak_kib IS NULL, NULL, sum(job_mem_peak_kib) OVER w) AS job_mem_peak_kib,
  iif(job_mem_limit_kib IS NULL, NULL, sum(job_mem_limit_kib) OVER w) AS job_mem_limit_kib,
  iif(job_swap_kib IS NULL, NULL, sum(job_swap_kib) OVER w) AS job_swap_kib,
  iif(job_anon_kib IS NULL, NULL, sum(job_anon_kib) OVER w) AS job_anon_kib,
  iif(job_file_kib IS NULL, NULL, sum(job_file_kib) OVER w) AS job_file_kib,
  iif(job_shmem_kib IS NULL, NULL, sum(job_shmem_kib) OVER w) AS job_shmem_kib,
  iif(job_kernel_bytes IS NULL, NULL, sum(job_kernel_bytes) OVER w) AS job_kernel_bytes,
  iif(job_slab_reclaimable_bytes IS NULL, NULL, sum(job_slab_reclaimable_bytes) OVER w) AS job_slab_reclaimable_bytes,
  iif(job_active_kib IS NULL, NULL, sum(job_active_kib) OVER w) AS job_active_kib,
  iif(job_inactive_kib IS NULL, NULL, sum(job_inactive_kib) OVER w) AS job_inactive_kib,
  iif(job_page_faults IS NULL, NULL, sum(job_page_faults) OVER w) AS job_page_faults,
  iif(job_major_faults IS NULL, NULL, sum(job_major_faults) OVER w) AS job_major_faults,
  iif(job_events_high IS NULL, NULL, sum(job_events_high) OVER w) AS job_events_high,
  iif(job_events_max IS NULL, NULL, sum(job_events_max) OVER w) AS job_events_max,
  iif(job_events_oom IS NULL, NULL, sum(job_events_oom) OVER w) AS job_events_oom,
  iif(job_events_oom_kill IS NULL, NULL, sum(job_events_oom_kill) OVER w) AS job_events_oom_kill,
  iif(job_pids IS NULL, NULL, sum(job_pids) OVER w) AS job_pids,
  iif(job_io_read_bytes IS NULL, NULL, sum(job_io_read_bytes) OVER w) AS job_io_read_bytes,
  iif(job_io_write_bytes IS NULL, NULL, sum(job_io_write_bytes) OVER w) AS job_io_write_bytes,
  iif(tree_cpu_user_ticks IS NULL, NULL, sum(tree_cpu_user_ticks) OVER w) AS tree_cpu_user_ticks,
  iif(tree_cpu_system_ticks IS NULL, NULL, sum(tree_cpu_system_ticks) OVER w) AS tree_cpu_system_ticks,
  iif(tree_children IS NULL, NULL, sum(tree_children) OVER w) AS tree_children,
  iif(tree_rss_kib IS NULL, NULL, sum(tree_rss_kib) OVER w) AS tree_rss_kib,
  node_gpu_usage
FROM snapshot_delta
WINDOW w AS (ORDER BY seq ROWS UNBOUNDED PRECEDING);

-- Devices: one row for each identity that was seen; a new link speed is a new identity. The ids
-- of interfaces, disks and mounts differ from one another.
CREATE TABLE net (
  id INTEGER PRIMARY KEY, slot INTEGER NOT NULL,
  name TEXT NOT NULL, mac TEXT, driver TEXT, operstate TEXT, speed_mbps INTEGER, mtu_bytes INTEGER
);
CREATE TABLE disk (
  id INTEGER PRIMARY KEY, slot INTEGER NOT NULL,
  name TEXT NOT NULL, leaf INTEGER, model TEXT, vendor TEXT, serial TEXT, type TEXT, capacity_bytes INTEGER
);
CREATE TABLE mount (
  id INTEGER PRIMARY KEY, slot INTEGER NOT NULL,
  disk TEXT, mount_point TEXT NOT NULL, fs_type TEXT, total_bytes INTEGER
);
CREATE TABLE gpu (
  id INTEGER PRIMARY KEY, slot INTEGER NOT NULL,
  uuid TEXT, name TEXT, type TEXT, host_identifier TEXT, vram_total_bytes INTEGER, cores INTEGER, detail TEXT
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
  intent_us INTEGER, registered_us INTEGER, finished_us INTEGER, attempts INTEGER
);

-- Sealed uploads: written before the network is touched.
CREATE TABLE batch (
  number INTEGER PRIMARY KEY,
  first_seq INTEGER NOT NULL, last_seq INTEGER NOT NULL, rows INTEGER NOT NULL,
  bytes INTEGER NOT NULL, sha256 TEXT NOT NULL, key TEXT NOT NULL,
  sealed_us INTEGER NOT NULL, uploaded_us INTEGER
);

-- What a person wants to see: rates over the interval before each snapshot. NULL: not read, or a
-- counter that went backwards, or no interval before the first.
CREATE VIEW sample AS
WITH
reading AS (
  SELECT *,
    node_cpu_user_ticks + node_cpu_nice_ticks + node_cpu_system_ticks + node_cpu_irq_ticks
      + node_cpu_softirq_ticks + node_cpu_steal_ticks AS busy,
    node_cpu_idle_ticks + node_cpu_iowait_ticks AS idle,
    tree_cpu_user_ticks + tree_cpu_system_ticks AS tree,
    -- a job that is pending has used nothing yet
    iif(job_phase = 1, 0, job_cpu_usage_us) AS cpu,
    iif(job_phase = 1, 0, job_io_read_bytes) AS io_read,
    iif(job_phase = 1, 0, job_io_write_bytes) AS io_write
  FROM snapshot
),
pair AS (
  SELECT *,
    (boot_us - lag(boot_us) OVER w) / 1e6 AS secs,
    boot_us - first_value(boot_us) OVER w AS elapsed_us,
    busy - lag(busy) OVER w AS busy_d, idle - lag(idle) OVER w AS idle_d,
    cpu - lag(cpu) OVER w AS cpu_d, tree - lag(tree) OVER w AS tree_d,
    io_read - lag(io_read) OVER w AS io_read_d, io_write - lag(io_write) OVER w AS io_write_d,
    node_net_rx_bytes - lag(node_net_rx_bytes) OVER w AS rx_d,
    node_net_tx_bytes - lag(node_net_tx_bytes) OVER w AS tx_d,
    node_disk_read_bytes - lag(node_disk_read_bytes) OVER w AS read_d,
    node_disk_write_bytes - lag(node_disk_write_bytes) OVER w AS write_d
  FROM reading
  WINDOW w AS (ORDER BY seq ROWS UNBOUNDED PRECEDING)
),
rate AS (
  SELECT *, iif(secs > 0, secs, NULL) AS s FROM pair
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
  round(CASE WHEN cpu_d >= 0 THEN cpu_d / 1e6 / s END, 2) AS job_cores,
  round(job_mem_current_kib / 1024.0, 1) AS job_mem_mib,
  round(job_mem_peak_kib / 1024.0, 1) AS job_mem_peak_mib,
  iif(job_mem_limit_kib = -1, 'none', round(job_mem_limit_kib / 1024.0, 1)) AS job_mem_limit_mib,
  round(job_anon_kib / 1024.0, 1) AS job_anon_mib,
  round(job_file_kib / 1024.0, 1) AS job_file_mib,
  round(job_shmem_kib / 1024.0, 1) AS job_shmem_mib,
  round(job_swap_kib / 1024.0, 1) AS job_swap_mib,
  job_pids,
  job_events_oom_kill AS job_oom_kills,
  round(CASE WHEN io_read_d >= 0 THEN io_read_d / s END) AS job_read_bytes_per_s,
  round(CASE WHEN io_write_d >= 0 THEN io_write_d / s END) AS job_write_bytes_per_s,
  round(CASE WHEN tree_d >= 0 THEN tree_d / 100.0 / s END, 2) AS tree_cores,
  round(tree_rss_kib / 1024.0, 1) AS tree_rss_mib,
  tree_children,
  round(CASE WHEN busy_d + idle_d = 0 THEN 0
    WHEN busy_d >= 0 AND idle_d >= 0 THEN 1.0 * busy_d / (busy_d + idle_d) * node_cpus END, 2) AS node_cores,
  node_cpus,
  round(max(0, node_mem_total_kib - node_mem_free_kib - node_buffers_kib - node_cached_kib
    - node_sreclaimable_kib) / 1024.0, 1) AS node_mem_used_mib,
  round(node_mem_available_kib / 1024.0, 1) AS node_mem_available_mib,
  node_processes,
  round(CASE WHEN rx_d >= 0 THEN rx_d / s END) AS net_rx_bytes_per_s,
  round(CASE WHEN tx_d >= 0 THEN tx_d / s END) AS net_tx_bytes_per_s,
  round(CASE WHEN read_d >= 0 THEN read_d / s END) AS disk_read_bytes_per_s,
  round(CASE WHEN write_d >= 0 THEN write_d / s END) AS disk_write_bytes_per_s,
  round(node_space_available_kib / 1048576.0, 2) AS space_available_gib,
  round(node_gpu_usage, 2) AS gpus_used,
  round(node_gpu_vram_used_kib / 1024.0, 1) AS gpu_vram_used_mib
FROM rate;
