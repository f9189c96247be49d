-- Version 2: figures that seldom change have tables of their own, with a row only where one of them
-- does; what the kernel says of steps, processes, networks, energy; records of other programs.
DROP VIEW sample;
DROP VIEW snapshot;

-- What each snapshot adds to the one before: the first row holds the values themselves.
-- NULL: not read. The view snapshot adds the rows up again. A limit of -1 is "no limit".
CREATE TABLE moving_delta (
  seq INTEGER PRIMARY KEY, -- ascending from 1; numbers are missing where snapshots were thinned
  boot_us, -- CLOCK_BOOTTIME
  clock_us, -- CLOCK_REALTIME - CLOCK_BOOTTIME
  reason, -- not a difference: 0 tick, 1 first, 2 appeared, 3 last, 4 stop
  job_phase, -- not a difference: 0 none, 1 pending, 2 present, 3 gone
  node_cpu_user_ticks, node_cpu_nice_ticks, node_cpu_system_ticks, node_cpu_idle_ticks, node_cpu_iowait_ticks, node_cpu_irq_ticks,
  node_cpu_softirq_ticks, node_cpu_steal_ticks, node_processes, node_mem_free_kib, node_mem_available_kib, node_buffers_kib, node_cached_kib,
  node_sreclaimable_kib, node_shmem_kib, node_active_kib, node_inactive_kib, node_net_rx_bytes, node_net_tx_bytes, node_disk_read_bytes,
  node_disk_write_bytes, node_space_available_kib, job_cpu_usage_us, job_cpu_user_us, job_cpu_system_us, job_mem_current_kib, job_anon_kib,
  job_file_kib, job_shmem_kib, job_kernel_bytes, job_slab_reclaimable_bytes, job_active_kib, job_inactive_kib, job_page_faults, job_io_read_bytes,
  job_io_write_bytes, node_load1_hundredths, node_cpu_freq_khz, job_stepd_cpu_usage_us, job_mem_interval_peak_kib, job_threads,
  job_cpu_stall_some_us, job_cpu_stall_full_us, job_mem_stall_some_us, job_mem_stall_full_us, job_io_stall_some_us, job_io_stall_full_us,
  job_proc_read_bytes, job_proc_write_bytes, job_voluntary_switches, job_involuntary_switches, node_read_boot_us,
  core_ticks BLOB -- per-core counters, see DESIGN.md
);

-- The same, of figures that stand still for long. There is a row where one of them changed, or was
-- read when it was not before, or the other way round; and at every keyframe.
CREATE TABLE steady_delta (
  seq INTEGER PRIMARY KEY,
  node_cpus, node_mem_total_kib, node_swap_total_kib, node_swap_free_kib, node_space_total_kib, job_cpu_throttled_us, job_mem_peak_kib,
  job_mem_limit_kib, job_swap_kib, job_major_faults, job_events_high, job_events_max, job_events_oom, job_events_oom_kill, job_pids, job_hugetlb_kib,
  job_rdma_handles, job_rdma_objects
);

-- The same, of a process tree that is tracked without a job.
CREATE TABLE tree_delta (
  seq INTEGER PRIMARY KEY,
  tree_cpu_user_ticks, tree_cpu_system_ticks, tree_children, tree_rss_kib
);

-- The same, of GPUs. The two usages are no differences: fractional GPUs in use.
CREATE TABLE gpu_delta (
  seq INTEGER PRIMARY KEY,
  node_gpu_usage REAL, job_gpu_usage REAL, node_gpu_vram_used_kib, node_gpus_utilized, job_gpu_vram_used_kib, job_gpus_utilized
);

INSERT INTO moving_delta (seq, boot_us, clock_us, reason, job_phase,
  node_cpu_user_ticks, node_cpu_nice_ticks, node_cpu_system_ticks, node_cpu_idle_ticks, node_cpu_iowait_ticks, node_cpu_irq_ticks,
  node_cpu_softirq_ticks, node_cpu_steal_ticks, node_processes, node_mem_free_kib, node_mem_available_kib, node_buffers_kib, node_cached_kib,
  node_sreclaimable_kib, node_shmem_kib, node_active_kib, node_inactive_kib, node_net_rx_bytes, node_net_tx_bytes, node_disk_read_bytes,
  node_disk_write_bytes, node_space_available_kib, job_cpu_usage_us, job_cpu_user_us, job_cpu_system_us, job_mem_current_kib, job_anon_kib,
  job_file_kib, job_shmem_kib, job_kernel_bytes, job_slab_reclaimable_bytes, job_active_kib, job_inactive_kib, job_page_faults, job_io_read_bytes,
  job_io_write_bytes, core_ticks)
  SELECT seq, boot_us, clock_us, reason, job_phase,
  node_cpu_user_ticks, node_cpu_nice_ticks, node_cpu_system_ticks, node_cpu_idle_ticks, node_cpu_iowait_ticks, node_cpu_irq_ticks,
  node_cpu_softirq_ticks, node_cpu_steal_ticks, node_processes, node_mem_free_kib, node_mem_available_kib, node_buffers_kib, node_cached_kib,
  node_sreclaimable_kib, node_shmem_kib, node_active_kib, node_inactive_kib, node_net_rx_bytes, node_net_tx_bytes, node_disk_read_bytes,
  node_disk_write_bytes, node_space_available_kib, job_cpu_usage_us, job_cpu_user_us, job_cpu_system_us, job_mem_current_kib, job_anon_kib,
  job_file_kib, job_shmem_kib, job_kernel_bytes, job_slab_reclaimable_bytes, job_active_kib, job_inactive_kib, job_page_faults, job_io_read_bytes,
  job_io_write_bytes, core_ticks FROM snapshot_delta;

INSERT INTO steady_delta (seq,
  node_cpus, node_mem_total_kib, node_swap_total_kib, node_swap_free_kib, node_space_total_kib, job_cpu_throttled_us, job_mem_peak_kib,
  job_mem_limit_kib, job_swap_kib, job_major_faults, job_events_high, job_events_max, job_events_oom, job_events_oom_kill, job_pids)
  SELECT seq,
  node_cpus, node_mem_total_kib, node_swap_total_kib, node_swap_free_kib, node_space_total_kib, job_cpu_throttled_us, job_mem_peak_kib,
  job_mem_limit_kib, job_swap_kib, job_major_faults, job_events_high, job_events_max, job_events_oom, job_events_oom_kill, job_pids
  FROM snapshot_delta;
INSERT INTO tree_delta (seq,
  tree_cpu_user_ticks, tree_cpu_system_ticks, tree_children, tree_rss_kib)
  SELECT seq,
  tree_cpu_user_ticks, tree_cpu_system_ticks, tree_children, tree_rss_kib
  FROM snapshot_delta;
INSERT INTO gpu_delta (seq,
  node_gpu_usage, node_gpu_vram_used_kib, node_gpus_utilized)
  SELECT seq,
  node_gpu_usage, node_gpu_vram_used_kib, node_gpus_utilized
  FROM snapshot_delta;
DROP TABLE snapshot_delta;
ALTER TABLE moving_delta RENAME TO snapshot_delta;

ALTER TABLE keyframe ADD COLUMN node_load1_hundredths;
ALTER TABLE keyframe ADD COLUMN node_cpu_freq_khz;
ALTER TABLE keyframe ADD COLUMN job_stepd_cpu_usage_us;
ALTER TABLE keyframe ADD COLUMN job_mem_interval_peak_kib;
ALTER TABLE keyframe ADD COLUMN job_threads;
ALTER TABLE keyframe ADD COLUMN job_cpu_stall_some_us;
ALTER TABLE keyframe ADD COLUMN job_cpu_stall_full_us;
ALTER TABLE keyframe ADD COLUMN job_mem_stall_some_us;
ALTER TABLE keyframe ADD COLUMN job_mem_stall_full_us;
ALTER TABLE keyframe ADD COLUMN job_io_stall_some_us;
ALTER TABLE keyframe ADD COLUMN job_io_stall_full_us;
ALTER TABLE keyframe ADD COLUMN job_hugetlb_kib;
ALTER TABLE keyframe ADD COLUMN job_rdma_handles;
ALTER TABLE keyframe ADD COLUMN job_rdma_objects;
ALTER TABLE keyframe ADD COLUMN job_proc_read_bytes;
ALTER TABLE keyframe ADD COLUMN job_proc_write_bytes;
ALTER TABLE keyframe ADD COLUMN job_voluntary_switches;
ALTER TABLE keyframe ADD COLUMN job_involuntary_switches;
ALTER TABLE keyframe ADD COLUMN job_gpu_vram_used_kib;
ALTER TABLE keyframe ADD COLUMN job_gpus_utilized;
ALTER TABLE keyframe ADD COLUMN node_read_boot_us;
ALTER TABLE keyframe ADD COLUMN counter_row;
ALTER TABLE keyframe ADD COLUMN step_row;
ALTER TABLE keyframe ADD COLUMN process_row;
ALTER TABLE gpu ADD COLUMN in_job INTEGER; -- 1: allocated to the job; NULL: not known

-- The counters and gauges as they were read.
CREATE VIEW snapshot AS
WITH joined AS (
  SELECT d.*,
    s.node_cpus, s.node_mem_total_kib, s.node_swap_total_kib, s.node_swap_free_kib, s.node_space_total_kib, s.job_cpu_throttled_us,
    s.job_mem_peak_kib, s.job_mem_limit_kib, s.job_swap_kib, s.job_major_faults, s.job_events_high, s.job_events_max, s.job_events_oom,
    s.job_events_oom_kill, s.job_pids, s.job_hugetlb_kib, s.job_rdma_handles, s.job_rdma_objects,
    t.tree_cpu_user_ticks, t.tree_cpu_system_ticks, t.tree_children, t.tree_rss_kib,
    g.node_gpu_usage, g.job_gpu_usage, g.node_gpu_vram_used_kib, g.node_gpus_utilized, g.job_gpu_vram_used_kib, g.job_gpus_utilized,
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
  iif(node_cpu_user_ticks IS NULL, NULL, sum(node_cpu_user_ticks) OVER w) AS node_cpu_user_ticks,
  iif(node_cpu_nice_ticks IS NULL, NULL, sum(node_cpu_nice_ticks) OVER w) AS node_cpu_nice_ticks,
  iif(node_cpu_system_ticks IS NULL, NULL, sum(node_cpu_system_ticks) OVER w) AS node_cpu_system_ticks,
  iif(node_cpu_idle_ticks IS NULL, NULL, sum(node_cpu_idle_ticks) OVER w) AS node_cpu_idle_ticks,
  iif(node_cpu_iowait_ticks IS NULL, NULL, sum(node_cpu_iowait_ticks) OVER w) AS node_cpu_iowait_ticks,
  iif(node_cpu_irq_ticks IS NULL, NULL, sum(node_cpu_irq_ticks) OVER w) AS node_cpu_irq_ticks,
  iif(node_cpu_softirq_ticks IS NULL, NULL, sum(node_cpu_softirq_ticks) OVER w) AS node_cpu_softirq_ticks,
  iif(node_cpu_steal_ticks IS NULL, NULL, sum(node_cpu_steal_ticks) OVER w) AS node_cpu_steal_ticks,
  iif(first_value(node_cpus) OVER sw IS NULL, NULL, sum(node_cpus) OVER w) AS node_cpus,
  iif(node_processes IS NULL, NULL, sum(node_processes) OVER w) AS node_processes,
  iif(first_value(node_mem_total_kib) OVER sw IS NULL, NULL, sum(node_mem_total_kib) OVER w) AS node_mem_total_kib,
  iif(node_mem_free_kib IS NULL, NULL, sum(node_mem_free_kib) OVER w) AS node_mem_free_kib,
  iif(node_mem_available_kib IS NULL, NULL, sum(node_mem_available_kib) OVER w) AS node_mem_available_kib,
  iif(node_buffers_kib IS NULL, NULL, sum(node_buffers_kib) OVER w) AS node_buffers_kib,
  iif(node_cached_kib IS NULL, NULL, sum(node_cached_kib) OVER w) AS node_cached_kib,
  iif(node_sreclaimable_kib IS NULL, NULL, sum(node_sreclaimable_kib) OVER w) AS node_sreclaimable_kib,
  iif(node_shmem_kib IS NULL, NULL, sum(node_shmem_kib) OVER w) AS node_shmem_kib,
  iif(node_active_kib IS NULL, NULL, sum(node_active_kib) OVER w) AS node_active_kib,
  iif(node_inactive_kib IS NULL, NULL, sum(node_inactive_kib) OVER w) AS node_inactive_kib,
  iif(first_value(node_swap_total_kib) OVER sw IS NULL, NULL, sum(node_swap_total_kib) OVER w) AS node_swap_total_kib,
  iif(first_value(node_swap_free_kib) OVER sw IS NULL, NULL, sum(node_swap_free_kib) OVER w) AS node_swap_free_kib,
  iif(node_net_rx_bytes IS NULL, NULL, sum(node_net_rx_bytes) OVER w) AS node_net_rx_bytes,
  iif(node_net_tx_bytes IS NULL, NULL, sum(node_net_tx_bytes) OVER w) AS node_net_tx_bytes,
  iif(node_disk_read_bytes IS NULL, NULL, sum(node_disk_read_bytes) OVER w) AS node_disk_read_bytes,
  iif(node_disk_write_bytes IS NULL, NULL, sum(node_disk_write_bytes) OVER w) AS node_disk_write_bytes,
  iif(first_value(node_space_total_kib) OVER sw IS NULL, NULL, sum(node_space_total_kib) OVER w) AS node_space_total_kib,
  iif(node_space_available_kib IS NULL, NULL, sum(node_space_available_kib) OVER w) AS node_space_available_kib,
  iif(first_value(node_gpu_vram_used_kib) OVER gw IS NULL, NULL, sum(node_gpu_vram_used_kib) OVER w) AS node_gpu_vram_used_kib,
  iif(first_value(node_gpus_utilized) OVER gw IS NULL, NULL, sum(node_gpus_utilized) OVER w) AS node_gpus_utilized,
  iif(job_cpu_usage_us IS NULL, NULL, sum(job_cpu_usage_us) OVER w) AS job_cpu_usage_us,
  iif(job_cpu_user_us IS NULL, NULL, sum(job_cpu_user_us) OVER w) AS job_cpu_user_us,
  iif(job_cpu_system_us IS NULL, NULL, sum(job_cpu_system_us) OVER w) AS job_cpu_system_us,
  iif(first_value(job_cpu_throttled_us) OVER sw IS NULL, NULL, sum(job_cpu_throttled_us) OVER w) AS job_cpu_throttled_us,
  iif(job_mem_current_kib IS NULL, NULL, sum(job_mem_current_kib) OVER w) AS job_mem_current_kib,
  iif(first_value(job_mem_peak_kib) OVER sw IS NULL, NULL, sum(job_mem_peak_kib) OVER w) AS job_mem_peak_kib,
  iif(first_value(job_mem_limit_kib) OVER sw IS NULL, NULL, sum(job_mem_limit_kib) OVER w) AS job_mem_limit_kib,
  iif(first_value(job_swap_kib) OVER sw IS NULL, NULL, sum(job_swap_kib) OVER w) AS job_swap_kib,
  iif(job_anon_kib IS NULL, NULL, sum(job_anon_kib) OVER w) AS job_anon_kib,
  iif(job_file_kib IS NULL, NULL, sum(job_file_kib) OVER w) AS job_file_kib,
  iif(job_shmem_kib IS NULL, NULL, sum(job_shmem_kib) OVER w) AS job_shmem_kib,
  iif(job_kernel_bytes IS NULL, NULL, sum(job_kernel_bytes) OVER w) AS job_kernel_bytes,
  iif(job_slab_reclaimable_bytes IS NULL, NULL, sum(job_slab_reclaimable_bytes) OVER w) AS job_slab_reclaimable_bytes,
  iif(job_active_kib IS NULL, NULL, sum(job_active_kib) OVER w) AS job_active_kib,
  iif(job_inactive_kib IS NULL, NULL, sum(job_inactive_kib) OVER w) AS job_inactive_kib,
  iif(job_page_faults IS NULL, NULL, sum(job_page_faults) OVER w) AS job_page_faults,
  iif(first_value(job_major_faults) OVER sw IS NULL, NULL, sum(job_major_faults) OVER w) AS job_major_faults,
  iif(first_value(job_events_high) OVER sw IS NULL, NULL, sum(job_events_high) OVER w) AS job_events_high,
  iif(first_value(job_events_max) OVER sw IS NULL, NULL, sum(job_events_max) OVER w) AS job_events_max,
  iif(first_value(job_events_oom) OVER sw IS NULL, NULL, sum(job_events_oom) OVER w) AS job_events_oom,
  iif(first_value(job_events_oom_kill) OVER sw IS NULL, NULL, sum(job_events_oom_kill) OVER w) AS job_events_oom_kill,
  iif(first_value(job_pids) OVER sw IS NULL, NULL, sum(job_pids) OVER w) AS job_pids,
  iif(job_io_read_bytes IS NULL, NULL, sum(job_io_read_bytes) OVER w) AS job_io_read_bytes,
  iif(job_io_write_bytes IS NULL, NULL, sum(job_io_write_bytes) OVER w) AS job_io_write_bytes,
  iif(first_value(tree_cpu_user_ticks) OVER tw IS NULL, NULL, sum(tree_cpu_user_ticks) OVER w) AS tree_cpu_user_ticks,
  iif(first_value(tree_cpu_system_ticks) OVER tw IS NULL, NULL, sum(tree_cpu_system_ticks) OVER w) AS tree_cpu_system_ticks,
  iif(first_value(tree_children) OVER tw IS NULL, NULL, sum(tree_children) OVER w) AS tree_children,
  iif(first_value(tree_rss_kib) OVER tw IS NULL, NULL, sum(tree_rss_kib) OVER w) AS tree_rss_kib,
  iif(node_load1_hundredths IS NULL, NULL, sum(node_load1_hundredths) OVER w) AS node_load1_hundredths,
  iif(node_cpu_freq_khz IS NULL, NULL, sum(node_cpu_freq_khz) OVER w) AS node_cpu_freq_khz,
  iif(job_stepd_cpu_usage_us IS NULL, NULL, sum(job_stepd_cpu_usage_us) OVER w) AS job_stepd_cpu_usage_us,
  iif(job_mem_interval_peak_kib IS NULL, NULL, sum(job_mem_interval_peak_kib) OVER w) AS job_mem_interval_peak_kib,
  iif(job_threads IS NULL, NULL, sum(job_threads) OVER w) AS job_threads,
  iif(job_cpu_stall_some_us IS NULL, NULL, sum(job_cpu_stall_some_us) OVER w) AS job_cpu_stall_some_us,
  iif(job_cpu_stall_full_us IS NULL, NULL, sum(job_cpu_stall_full_us) OVER w) AS job_cpu_stall_full_us,
  iif(job_mem_stall_some_us IS NULL, NULL, sum(job_mem_stall_some_us) OVER w) AS job_mem_stall_some_us,
  iif(job_mem_stall_full_us IS NULL, NULL, sum(job_mem_stall_full_us) OVER w) AS job_mem_stall_full_us,
  iif(job_io_stall_some_us IS NULL, NULL, sum(job_io_stall_some_us) OVER w) AS job_io_stall_some_us,
  iif(job_io_stall_full_us IS NULL, NULL, sum(job_io_stall_full_us) OVER w) AS job_io_stall_full_us,
  iif(first_value(job_hugetlb_kib) OVER sw IS NULL, NULL, sum(job_hugetlb_kib) OVER w) AS job_hugetlb_kib,
  iif(first_value(job_rdma_handles) OVER sw IS NULL, NULL, sum(job_rdma_handles) OVER w) AS job_rdma_handles,
  iif(first_value(job_rdma_objects) OVER sw IS NULL, NULL, sum(job_rdma_objects) OVER w) AS job_rdma_objects,
  iif(job_proc_read_bytes IS NULL, NULL, sum(job_proc_read_bytes) OVER w) AS job_proc_read_bytes,
  iif(job_proc_write_bytes IS NULL, NULL, sum(job_proc_write_bytes) OVER w) AS job_proc_write_bytes,
  iif(job_voluntary_switches IS NULL, NULL, sum(job_voluntary_switches) OVER w) AS job_voluntary_switches,
  iif(job_involuntary_switches IS NULL, NULL, sum(job_involuntary_switches) OVER w) AS job_involuntary_switches,
  iif(first_value(job_gpu_vram_used_kib) OVER gw IS NULL, NULL, sum(job_gpu_vram_used_kib) OVER w) AS job_gpu_vram_used_kib,
  iif(first_value(job_gpus_utilized) OVER gw IS NULL, NULL, sum(job_gpus_utilized) OVER w) AS job_gpus_utilized,
  iif(node_read_boot_us IS NULL, NULL, sum(node_read_boot_us) OVER w) AS node_read_boot_us,
  first_value(node_gpu_usage) OVER gw AS node_gpu_usage,
  first_value(job_gpu_usage) OVER gw AS job_gpu_usage
FROM joined
WINDOW w AS (ORDER BY seq ROWS UNBOUNDED PRECEDING),
  sw AS (PARTITION BY steady_row ORDER BY seq ROWS UNBOUNDED PRECEDING),
  tw AS (PARTITION BY tree_row ORDER BY seq ROWS UNBOUNDED PRECEDING),
  gw AS (PARTITION BY gpu_row ORDER BY seq ROWS UNBOUNDED PRECEDING);

-- Like the devices: what it is, and what it showed where that differs from the snapshot before.
-- Steps of the job and their tasks; task is NULL for the step as a whole.
CREATE TABLE step (id INTEGER PRIMARY KEY, slot INTEGER NOT NULL, step TEXT, task INTEGER);
CREATE TABLE step_value (
  seq INTEGER, step INTEGER, ended INTEGER, cpu_usage_us INTEGER, cpu_user_us INTEGER, cpu_system_us INTEGER,
  mem_current_kib, mem_peak_kib, anon_kib, file_kib, shmem_kib,
  page_faults INTEGER, major_faults INTEGER, oom_kills INTEGER, pids INTEGER,
  io_read_bytes INTEGER, io_write_bytes INTEGER, gone INTEGER
);
-- Those processes of the job that used most. start_ticks: after boot, of 10 ms.
CREATE TABLE process (
  id INTEGER PRIMARY KEY, slot INTEGER NOT NULL,
  pid INTEGER, start_ticks INTEGER, comm TEXT, step TEXT, task INTEGER
);
CREATE TABLE process_value (
  seq INTEGER, process INTEGER, cpu_user_ticks INTEGER, cpu_system_ticks INTEGER, rss_kib, pss_kib,
  threads INTEGER, read_bytes INTEGER, write_bytes INTEGER, gone INTEGER
);
-- These share one table of readings; their ids differ from one another.
CREATE TABLE gpu_process (id INTEGER PRIMARY KEY, slot INTEGER NOT NULL, gpu_uuid TEXT, pid INTEGER);
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
    page_faults, major_faults, oom_kills, pids, io_read_bytes, io_write_bytes, gone
  FROM step_value AS v CROSS JOIN step AS d ON d.id = v.step;
CREATE VIEW process_reading AS
  SELECT seq, process, pid, comm, step, task, cpu_user_ticks, cpu_system_ticks, rss_kib, pss_kib, threads,
    read_bytes, write_bytes, gone
  FROM process_value CROSS JOIN process AS d ON d.id = process;
CREATE VIEW gpu_process_reading AS
  SELECT seq, d.id AS gpu_process, gpu_uuid, pid, value1 AS vram_used_bytes, value2 AS utilization_pct, gone
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
    iif(job_phase = 1, 0, job_io_write_bytes) AS io_write,
    iif(job_phase = 1, 0, job_proc_read_bytes) AS proc_read,
    iif(job_phase = 1, 0, job_proc_write_bytes) AS proc_write
  FROM snapshot
),
pair AS (
  SELECT *,
    (boot_us - lag(boot_us) OVER w) / 1e6 AS secs,
    boot_us - first_value(boot_us) OVER w AS elapsed_us,
    busy - lag(busy) OVER w AS busy_d, idle - lag(idle) OVER w AS idle_d,
    cpu - lag(cpu) OVER w AS cpu_d, tree - lag(tree) OVER w AS tree_d,
    -- the io controller's figure, else what the job's processes counted
    coalesce(io_read - lag(io_read) OVER w, proc_read - lag(proc_read) OVER w) AS io_read_d,
    coalesce(io_write - lag(io_write) OVER w, proc_write - lag(proc_write) OVER w) AS io_write_d,
    job_cpu_stall_some_us - lag(job_cpu_stall_some_us) OVER w AS cpu_stall_d,
    job_mem_stall_some_us - lag(job_mem_stall_some_us) OVER w AS mem_stall_d,
    job_io_stall_some_us - lag(job_io_stall_some_us) OVER w AS io_stall_d,
    job_page_faults - lag(job_page_faults) OVER w AS faults_d,
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
  job_threads,
  -- the share of the interval in which some task of the job waited for a CPU, for memory, for I/O
  round(CASE WHEN cpu_stall_d >= 0 THEN cpu_stall_d / 1e4 / s END, 1) AS job_cpu_stall_pct,
  round(CASE WHEN mem_stall_d >= 0 THEN mem_stall_d / 1e4 / s END, 1) AS job_mem_stall_pct,
  round(CASE WHEN io_stall_d >= 0 THEN io_stall_d / 1e4 / s END, 1) AS job_io_stall_pct,
  round(CASE WHEN faults_d >= 0 THEN faults_d / s END) AS job_page_faults_per_s,
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
  round(node_gpu_vram_used_kib / 1024.0, 1) AS gpu_vram_used_mib,
  round(job_gpu_usage, 2) AS job_gpus_used,
  round(job_gpu_vram_used_kib / 1024.0, 1) AS job_gpu_vram_used_mib,
  round(node_load1_hundredths / 100.0, 2) AS node_load1,
  round(node_cpu_freq_khz / 1000.0) AS node_cpu_freq_mhz
FROM rate;
