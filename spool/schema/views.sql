INSERT INTO sqlite_schema (type, name, tbl_name, rootpage, sql) VALUES
('view', 'disk_reading', 'disk_reading', 0, 'CREATE VIEW disk_reading AS
  SELECT seq, disk.id AS disk, name, value1 AS read_bytes, value2 AS write_bytes, gone
  FROM device_reading CROSS JOIN disk ON disk.id = device'),
('view', 'mount_reading', 'mount_reading', 0, 'CREATE VIEW mount_reading AS
  SELECT seq, mount.id AS mount, mount_point, value1 AS available_bytes, value2 AS used_bytes, gone
  FROM device_reading CROSS JOIN mount ON mount.id = device'),
('view', 'energy_total', 'energy_total', 0, 'CREATE VIEW energy_total AS
  SELECT source, domain, kind, socket, round(max(energy_uj) / 1e6, 3) AS energy_j,
    max(power_watts) AS power_max_watts
  FROM energy_reading GROUP BY energy'),
('view', 'energy_reading', 'energy_reading', 0, 'CREATE VIEW energy_reading AS
  SELECT seq, d.id AS energy, source, domain, kind, socket, value1 AS energy_uj, value2 AS power_watts, gone
  FROM counter_value CROSS JOIN energy AS d ON d.id = device'),
('view', 'perf_reading', 'perf_reading', 0, 'CREATE VIEW perf_reading AS
  SELECT seq, d.id AS perf, "group", socket, cpu, event, value1 AS value, value2 AS enabled_ns,
    value3 AS running_ns, gone
  FROM counter_value CROSS JOIN perf AS d ON d.id = device'),
('view', 'remote_fs_reading', 'remote_fs_reading', 0, 'CREATE VIEW remote_fs_reading AS
  SELECT seq, d.id AS remote_fs, kind, source, mount_point, value1 AS read_bytes, value2 AS write_bytes,
    value3 AS ops, gone
  FROM counter_value CROSS JOIN remote_fs AS d ON d.id = device'),
('view', 'fabric_reading', 'fabric_reading', 0, 'CREATE VIEW fabric_reading AS
  SELECT seq, d.id AS fabric, d.device AS device, port, value1 AS rx_bytes, value2 AS tx_bytes,
    value3 AS rx_packets, value4 AS tx_packets, gone
  FROM counter_value AS v CROSS JOIN fabric AS d ON d.id = v.device'),
('view', 'gpu_process_reading', 'gpu_process_reading', 0, 'CREATE VIEW gpu_process_reading AS
  SELECT seq, d.id AS gpu_process, uuid AS gpu_uuid, pid, value1 AS vram_used_bytes, value2 AS utilization_pct,
    value3 AS vram_peak_bytes, gone
  FROM counter_value CROSS JOIN gpu_process AS d ON d.id = device'),
('view', 'process_reading', 'process_reading', 0, 'CREATE VIEW process_reading AS
  SELECT seq, process, pid, comm, step, task, user_ticks AS cpu_user_ticks, system_ticks AS cpu_system_ticks, rss_kib, pss_kib, threads,
    read_bytes, write_bytes, gone
  FROM process_value CROSS JOIN process AS d ON d.id = process'),
('view', 'step_reading', 'step_reading', 0, 'CREATE VIEW step_reading AS
  SELECT seq, d.id AS id, d.step AS step, task, ended,
    cpu_usage_us, cpu_user_us, cpu_system_us, mem_current_kib, mem_peak_kib, anon_kib, file_kib, shmem_kib,
    page_faults, major_faults, events_oom_kill AS oom_kills, pids, io_read_bytes, io_write_bytes, gone
  FROM step_value AS v CROSS JOIN step AS d ON d.id = v.step'),
('view', 'process_total', 'process_total', 0, 'CREATE VIEW process_total AS
  SELECT pid, comm, step, task, (max(cpu_user_ticks) + max(cpu_system_ticks)) / 100.0 AS cpu_s,
    round(max(rss_kib) / 1024.0, 1) AS rss_max_mib, round(max(pss_kib) / 1024.0, 1) AS pss_max_mib,
    max(threads) AS threads_max, max(read_bytes) AS read_bytes, max(write_bytes) AS write_bytes
  FROM process_reading GROUP BY process'),
('view', 'step_total', 'step_total', 0, 'CREATE VIEW step_total AS
  SELECT step, task, round(max(cpu_usage_us) / 1e6, 2) AS cpu_s, round(max(cpu_user_us) / 1e6, 2) AS user_s,
    round(max(cpu_system_us) / 1e6, 2) AS system_s, round(max(mem_current_kib) / 1024.0, 1) AS mem_max_mib,
    round(max(mem_peak_kib) / 1024.0, 1) AS mem_peak_mib, round(max(anon_kib) / 1024.0, 1) AS anon_max_mib,
    max(page_faults) AS page_faults, max(oom_kills) AS oom_kills, max(pids) AS pids_max,
    max(io_read_bytes) AS read_bytes, max(io_write_bytes) AS write_bytes
  FROM step_reading GROUP BY id'),
('view', 'sample', 'sample', 0, 'CREATE VIEW sample AS
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
    -- the io controller''s figure, else what the job''s processes counted
    CASE WHEN job_phase = 1 THEN NULL
      WHEN io_read_was IS NOT NULL OR io_read_c >= 0 AND proc_read_was IS NULL THEN io_read_c ELSE io_read_p END AS io_read_d,
    CASE WHEN job_phase = 1 THEN NULL
      WHEN io_write_was IS NOT NULL OR io_write_c >= 0 AND proc_write_was IS NULL THEN io_write_c ELSE io_write_p END AS io_write_d
  FROM pair
)
SELECT seq,
  strftime(''%Y-%m-%dT%H:%M:%S'', wall_us / 1000000, ''unixepoch'')
    || printf(''.%03dZ'', wall_us / 1000 % 1000) AS time,
  round(elapsed_us / 1e6, 3) AS elapsed_s,
  round(secs, 3) AS seconds,
  CASE reason WHEN 0 THEN ''tick'' WHEN 1 THEN ''first'' WHEN 2 THEN ''appeared'' WHEN 3 THEN ''last''
    WHEN 4 THEN ''stop'' ELSE reason END AS reason,
  CASE job_phase WHEN 0 THEN ''none'' WHEN 1 THEN ''pending'' WHEN 2 THEN ''present'' WHEN 3 THEN ''gone''
    ELSE job_phase END AS job_phase,
  round(CASE WHEN cpu_d >= 0 THEN cpu_d / 1e6 / cpu_s END, 2) AS job_cores,
  CASE WHEN user_d >= 0 THEN user_d / 1e3 END AS job_user_s,
  CASE WHEN system_d >= 0 THEN system_d / 1e3 END AS job_system_s,
  round(job_mem_current_kib / 1024.0, 1) AS job_mem_mib,
  round(job_mem_peak_kib / 1024.0, 1) AS job_mem_peak_mib,
  iif(job_mem_limit_kib = -1, ''none'', round(job_mem_limit_kib / 1024.0, 1)) AS job_mem_limit_mib,
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
FROM rate'),
('view', 'snapshot', 'snapshot', 0, 'CREATE VIEW snapshot AS
WITH joined AS (
  SELECT d.*,
    s.node_cpus, s.node_mem_total_kib, s.node_swap_total_kib, s.node_swap_free_kib, s.node_space_total_kib, s.node_huge_free_kib, s.job_cpu_throttled_us, s.job_mem_peak_kib, s.job_mem_limit_kib, s.job_swap_kib, s.job_swap_peak_kib, s.job_major_faults, s.job_events_high, s.job_events_max, s.job_events_oom, s.job_events_oom_kill, s.job_pids, s.job_suspended_us, s.job_huge_tlb_kib, s.job_rdma_handles, s.job_rdma_objects,
    t.tree_cpu_user_ticks, t.tree_cpu_system_ticks, t.tree_children, t.tree_rss_kib, t.tree_pss_kib, t.tree_read_bytes, t.tree_write_bytes,
    g.node_gpus, g.node_gpu_vram_used_kib, g.node_gpu_utilized, g.job_gpu_vram_used_kib, g.job_gpu_utilized, g.node_gpu_usage, g.job_gpu_usage,
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
  iif(first_value(node_gpus) OVER gw IS NULL, NULL, sum(node_gpus) OVER w) AS node_gpus,
  iif(first_value(node_gpu_vram_used_kib) OVER gw IS NULL, NULL, sum(node_gpu_vram_used_kib) OVER w) AS node_gpu_vram_used_kib,
  iif(first_value(node_gpu_utilized) OVER gw IS NULL, NULL, sum(node_gpu_utilized) OVER w) AS node_gpu_utilized,
  iif(first_value(node_huge_free_kib) OVER sw IS NULL, NULL, sum(node_huge_free_kib) OVER w) AS node_huge_free_kib,
  iif(node_load1_hundredths IS NULL, NULL, sum(node_load1_hundredths) OVER w) AS node_load1_hundredths,
  iif(node_cpu_freq_khz IS NULL, NULL, sum(node_cpu_freq_khz) OVER w) AS node_cpu_freq_khz,
  iif(job_cpu_usage_us IS NULL, NULL, sum(job_cpu_usage_us) OVER w) AS job_cpu_usage_us,
  iif(job_cpu_user_us IS NULL, NULL, sum(job_cpu_user_us) OVER w) AS job_cpu_user_us,
  iif(job_cpu_system_us IS NULL, NULL, sum(job_cpu_system_us) OVER w) AS job_cpu_system_us,
  iif(first_value(job_cpu_throttled_us) OVER sw IS NULL, NULL, sum(job_cpu_throttled_us) OVER w) AS job_cpu_throttled_us,
  iif(job_stepd_cpu_usage_us IS NULL, NULL, sum(job_stepd_cpu_usage_us) OVER w) AS job_stepd_cpu_usage_us,
  iif(job_mem_current_kib IS NULL, NULL, sum(job_mem_current_kib) OVER w) AS job_mem_current_kib,
  iif(first_value(job_mem_peak_kib) OVER sw IS NULL, NULL, sum(job_mem_peak_kib) OVER w) AS job_mem_peak_kib,
  iif(first_value(job_mem_limit_kib) OVER sw IS NULL, NULL, sum(job_mem_limit_kib) OVER w) AS job_mem_limit_kib,
  iif(first_value(job_swap_kib) OVER sw IS NULL, NULL, sum(job_swap_kib) OVER w) AS job_swap_kib,
  iif(first_value(job_swap_peak_kib) OVER sw IS NULL, NULL, sum(job_swap_peak_kib) OVER w) AS job_swap_peak_kib,
  iif(job_mem_interval_peak_kib IS NULL, NULL, sum(job_mem_interval_peak_kib) OVER w) AS job_mem_interval_peak_kib,
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
  iif(job_threads IS NULL, NULL, sum(job_threads) OVER w) AS job_threads,
  iif(job_io_read_bytes IS NULL, NULL, sum(job_io_read_bytes) OVER w) AS job_io_read_bytes,
  iif(job_io_write_bytes IS NULL, NULL, sum(job_io_write_bytes) OVER w) AS job_io_write_bytes,
  iif(job_cpu_stall_some_us IS NULL, NULL, sum(job_cpu_stall_some_us) OVER w) AS job_cpu_stall_some_us,
  iif(job_cpu_stall_full_us IS NULL, NULL, sum(job_cpu_stall_full_us) OVER w) AS job_cpu_stall_full_us,
  iif(job_mem_stall_some_us IS NULL, NULL, sum(job_mem_stall_some_us) OVER w) AS job_mem_stall_some_us,
  iif(job_mem_stall_full_us IS NULL, NULL, sum(job_mem_stall_full_us) OVER w) AS job_mem_stall_full_us,
  iif(job_io_stall_some_us IS NULL, NULL, sum(job_io_stall_some_us) OVER w) AS job_io_stall_some_us,
  iif(job_io_stall_full_us IS NULL, NULL, sum(job_io_stall_full_us) OVER w) AS job_io_stall_full_us,
  iif(first_value(job_suspended_us) OVER sw IS NULL, NULL, sum(job_suspended_us) OVER w) AS job_suspended_us,
  iif(first_value(job_huge_tlb_kib) OVER sw IS NULL, NULL, sum(job_huge_tlb_kib) OVER w) AS job_huge_tlb_kib,
  iif(first_value(job_rdma_handles) OVER sw IS NULL, NULL, sum(job_rdma_handles) OVER w) AS job_rdma_handles,
  iif(first_value(job_rdma_objects) OVER sw IS NULL, NULL, sum(job_rdma_objects) OVER w) AS job_rdma_objects,
  iif(job_proc_read_bytes IS NULL, NULL, sum(job_proc_read_bytes) OVER w) AS job_proc_read_bytes,
  iif(job_proc_write_bytes IS NULL, NULL, sum(job_proc_write_bytes) OVER w) AS job_proc_write_bytes,
  iif(job_voluntary_switches IS NULL, NULL, sum(job_voluntary_switches) OVER w) AS job_voluntary_switches,
  iif(job_involuntary_switches IS NULL, NULL, sum(job_involuntary_switches) OVER w) AS job_involuntary_switches,
  iif(first_value(tree_cpu_user_ticks) OVER tw IS NULL, NULL, sum(tree_cpu_user_ticks) OVER w) AS tree_cpu_user_ticks,
  iif(first_value(tree_cpu_system_ticks) OVER tw IS NULL, NULL, sum(tree_cpu_system_ticks) OVER w) AS tree_cpu_system_ticks,
  iif(first_value(tree_children) OVER tw IS NULL, NULL, sum(tree_children) OVER w) AS tree_children,
  iif(first_value(tree_rss_kib) OVER tw IS NULL, NULL, sum(tree_rss_kib) OVER w) AS tree_rss_kib,
  iif(first_value(tree_pss_kib) OVER tw IS NULL, NULL, sum(tree_pss_kib) OVER w) AS tree_pss_kib,
  iif(first_value(tree_read_bytes) OVER tw IS NULL, NULL, sum(tree_read_bytes) OVER w) AS tree_read_bytes,
  iif(first_value(tree_write_bytes) OVER tw IS NULL, NULL, sum(tree_write_bytes) OVER w) AS tree_write_bytes,
  iif(first_value(job_gpu_vram_used_kib) OVER gw IS NULL, NULL, sum(job_gpu_vram_used_kib) OVER w) AS job_gpu_vram_used_kib,
  iif(first_value(job_gpu_utilized) OVER gw IS NULL, NULL, sum(job_gpu_utilized) OVER w) AS job_gpu_utilized,
  iif(node_read_boot_us IS NULL, NULL, sum(node_read_boot_us) OVER w) AS node_read_boot_us,
  first_value(node_gpu_usage) OVER gw AS node_gpu_usage,
  first_value(job_gpu_usage) OVER gw AS job_gpu_usage
FROM joined
WINDOW w AS (ORDER BY seq ROWS UNBOUNDED PRECEDING),
  sw AS (PARTITION BY steady_row ORDER BY seq ROWS UNBOUNDED PRECEDING),
  tw AS (PARTITION BY tree_row ORDER BY seq ROWS UNBOUNDED PRECEDING),
  gw AS (PARTITION BY gpu_row ORDER BY seq ROWS UNBOUNDED PRECEDING)');
CREATE VIEW net_reading AS
  SELECT seq, net.id AS net, name, value1 AS rx_bytes, value2 AS tx_bytes, gone
  FROM device_reading CROSS JOIN net ON net.id = device;
