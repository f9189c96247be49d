-- A line of advice at submission, for CliFilterPlugins=lua of slurm.conf. Copy this file to the
-- directory of slurm.conf on every machine where sbatch, salloc or srun runs: compute nodes too.
-- There Slurm's lua plugin must be installed as well. If there is a cli_filter.lua already, add the
-- function advise to it, and call it in slurm_cli_pre_submit as below. INSTALL.md has the steps.
--
-- It never fails or changes a submission, and delays it by at most 50 ms. RT_ADVICE=0 in the
-- environment switches it off.

-- The shell gets this text and nothing else: what users choose goes to standard input. rt-job has
-- no other file open, so that nobody waits for the process that it starts. cat reads what rt-job
-- has left when it is stopped.
local command = "PATH=/usr/bin:/bin; exec 3>&2 2>/dev/null; "
	.. "timeout -s KILL 0.04 /usr/local/bin/rt-job check --filter >&3 3>&-; "
	.. "cat >/dev/null"

local function advise(options)
	local is_step = options["type"] == "srun" and os.getenv("SLURM_JOB_ID")
	if is_step or os.getenv("RT_ADVICE") == "0" then
		return
	end
	local text = slurm.json_cli_options(options)
	local rt_job = io.popen(command, "w")
	rt_job:write(text)
	rt_job:close()
end

function slurm_cli_setup_defaults(options, early_pass)
	return slurm.SUCCESS
end

function slurm_cli_pre_submit(options, offset)
	if offset == 0 then -- the others are components of a heterogeneous job
		pcall(advise, options)
	end
	return slurm.SUCCESS
end

function slurm_cli_post_submit(offset, job_id, step_id)
	return slurm.SUCCESS
end
