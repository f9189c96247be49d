-- The schema of the first release, 0.2.0. Version 1 was before it, with several schemas. A change is a further file.
-- Both SQLite and PostgreSQL run this file. Times are microseconds since 1970 in UTC.
-- What clients send as JSON is bytes, because it need not be valid UTF-8.

-- +goose Up
CREATE TABLE run (
    id          TEXT PRIMARY KEY,
    owner       TEXT NOT NULL,
    created     BIGINT NOT NULL,
    charged     BIGINT NOT NULL, -- bytes of this row in the quota
    objects     BIGINT NOT NULL DEFAULT 0, -- number of rows in object
    finished    BIGINT,          -- time of the first finish
    -- From the record, NULL without one. job_id is NULL outside a scheduler.
    cluster     TEXT,
    job_id      BIGINT,
    generation  BIGINT,          -- with job_id: the row in job
    attempt     BIGINT,
    state       TEXT,
    outcome     TEXT,
    accounted   BIGINT,          -- 1 if the outcome is from accounting
    started     BIGINT,
    ended       BIGINT,
    node        TEXT,
    stem        TEXT,            -- of a run of a whole job: the same for all registrations of the run
    -- From the summary of the finish, NULL if not known. Seconds of cores and GPUs, byte-seconds of memory.
    core_secs   DOUBLE PRECISION,
    core_used   DOUBLE PRECISION,
    gpu_secs    DOUBLE PRECISION,
    gpu_used    DOUBLE PRECISION,
    mem_secs    DOUBLE PRECISION,
    mem_used    DOUBLE PRECISION,
    core_mark   TEXT NOT NULL DEFAULT '', -- 'at least' or 'at most': of core_used
    mem_mark    TEXT NOT NULL DEFAULT '', -- the same of mem_used
    slurm_state TEXT NOT NULL DEFAULT '', -- Slurm's own, where it says more than outcome
    suspended   DOUBLE PRECISION,         -- seconds
    expired     TEXT NOT NULL DEFAULT '', -- classes of which retention has removed objects, a space after each
    changes     BIGINT NOT NULL DEFAULT 0, -- of the record since the lake has it
    lake        BIGINT NOT NULL DEFAULT 0, -- 1 if the lake has the run of the record
    metadata    BYTEA NOT NULL,  -- the registration
    finish      BYTEA,           -- site.Finish as JSON
    record      BYTEA            -- rt.Run as JSON
);
-- A change of a run reads this index alone for the sums of its job.
CREATE INDEX run_job ON run (cluster, job_id, generation, owner, attempt, state, outcome, accounted, started, ended,
    stem, core_secs, core_used, gpu_secs, gpu_used, mem_secs, mem_used, core_mark, mem_mark, slurm_state, suspended) WHERE job_id IS NOT NULL;
CREATE INDEX run_node ON run (node, started, cluster, job_id, generation) WHERE job_id IS NOT NULL;
CREATE INDEX run_owner ON run (owner, id);
CREATE INDEX run_unassigned ON run (id) WHERE job_id IS NULL;
CREATE INDEX run_other ON run (node, started) WHERE job_id IS NULL;
CREATE INDEX run_changed ON run (cluster, started, id) WHERE changes > 0;

CREATE TABLE object (
    run_id       TEXT NOT NULL,
    name         TEXT NOT NULL,
    class        TEXT NOT NULL,
    bytes        BIGINT NOT NULL,
    sha256       TEXT NOT NULL,
    csv_rows     BIGINT NOT NULL,
    csv_bytes    BIGINT NOT NULL,
    header_bytes BIGINT NOT NULL,
    stored       TEXT NOT NULL, -- name in the object store; empty if body has the bytes
    created      BIGINT NOT NULL,
    signed       BIGINT NOT NULL DEFAULT 0, -- of a record: when its sender signed the upload
    body         BYTEA,
    PRIMARY KEY (run_id, name)
);
CREATE INDEX object_age ON object (class, created);
CREATE INDEX object_stored ON object (run_id, stored) WHERE stored <> '';

-- One row for each job that a record names. Slurm can use an id again: generation numbers the jobs with this id.
CREATE TABLE job (
    cluster   TEXT NOT NULL,
    job_id    BIGINT NOT NULL,
    generation BIGINT NOT NULL DEFAULT 1,
    owner     TEXT NOT NULL DEFAULT '', -- its runs alone say what the row has
    family    BIGINT NOT NULL, -- id of the array or heterogeneous job, else job_id
    username  TEXT NOT NULL,
    account   TEXT NOT NULL,
    partition TEXT NOT NULL,
    name      TEXT NOT NULL,   -- in lower case, for the search
    display   TEXT NOT NULL DEFAULT '', -- the name as it is
    label     TEXT NOT NULL DEFAULT '', -- '12_3' for a task of an array; empty: job_id is the label
    state     TEXT NOT NULL,
    outcome   TEXT NOT NULL,
    started   BIGINT NOT NULL,
    ended     BIGINT,          -- NULL while the job is running
    updated   BIGINT NOT NULL,
    -- Of the newest attempt, as in run.
    slurm_state TEXT NOT NULL DEFAULT '',
    suspended DOUBLE PRECISION,
    -- The sums of the figures of the runs of the whole job, of all nodes and attempts; NULL if not known.
    core_secs DOUBLE PRECISION,
    core_used DOUBLE PRECISION,
    gpu_secs  DOUBLE PRECISION,
    gpu_used  DOUBLE PRECISION,
    mem_secs  DOUBLE PRECISION,
    mem_used  DOUBLE PRECISION,
    core_mark TEXT NOT NULL DEFAULT '',
    mem_mark  TEXT NOT NULL DEFAULT '',
    waste     BIGINT NOT NULL DEFAULT -1, -- what was reserved and not used, in equivalent core-seconds; -1 if not known
    PRIMARY KEY (cluster, job_id, generation)
);
-- The list reads this index alone, without the rows.
CREATE INDEX job_list ON job (started, job_id, cluster, generation, name, username, account, partition, state, outcome, ended);
CREATE INDEX job_user ON job (username, started, job_id, cluster, generation);
CREATE INDEX job_account ON job (account, started, job_id, cluster, generation);
CREATE INDEX job_outcome ON job (outcome, started, job_id, cluster, generation);
CREATE INDEX job_state ON job (state, started, job_id, cluster, generation);
CREATE INDEX job_partition ON job (partition, started, job_id, cluster, generation);
CREATE INDEX job_family ON job (family, started, job_id, cluster, generation);
CREATE INDEX job_id ON job (job_id, started, cluster, generation);
-- The same for the lists that are sorted by waste.
CREATE INDEX job_waste ON job (waste, started, job_id, cluster, generation, name, username, account, partition, state, outcome, ended);
CREATE INDEX job_user_waste ON job (username, waste, started, job_id, cluster, generation);
CREATE INDEX job_account_waste ON job (account, waste, started, job_id, cluster, generation);

-- The last report of each node, for each owner of tokens that sends reports of it.
CREATE TABLE node (
    cluster  TEXT NOT NULL,
    node     TEXT NOT NULL,
    owner    TEXT NOT NULL,
    reported BIGINT NOT NULL, -- when it arrived
    drained  BIGINT,          -- end of the last successful drain, NULL if not known
    waiting  BIGINT,          -- runs that are not delivered, NULL if not known
    state    BYTEA NOT NULL,  -- site.NodeState as JSON
    PRIMARY KEY (cluster, node, owner)
);
CREATE INDEX node_owner ON node (owner);
CREATE INDEX node_reported ON node (reported);

-- The runs that a node has not delivered yet, as its last report has them. A row goes with the delivery of the run.
CREATE TABLE live (
    owner      TEXT NOT NULL,
    cluster    TEXT NOT NULL,
    node       TEXT NOT NULL,
    stem       TEXT NOT NULL, -- as in run
    job_id     BIGINT NOT NULL,
    generation BIGINT NOT NULL, -- with cluster and job_id: the row in job
    attempt    BIGINT NOT NULL,
    state      TEXT NOT NULL,
    outcome    TEXT NOT NULL,
    started    BIGINT NOT NULL,
    ended      BIGINT,
    head       TEXT NOT NULL,   -- checksum of what the row of the job has of the run
    -- What changes with each report is in no index.
    reported   BIGINT NOT NULL,
    wanted     BIGINT NOT NULL DEFAULT 0, -- until when someone wants the readings
    figures    BYTEA NOT NULL,  -- report.RunFigures as JSON
    PRIMARY KEY (owner, cluster, node, stem)
);
CREATE INDEX live_job ON live (job_id, cluster, generation);

-- Bytes in use, for the quotas. Owner '' has the sum of all owners. In PostgreSQL an owner has
-- several rows, so that transactions of different runs seldom wait for each other.
CREATE TABLE disk_use (
    owner TEXT NOT NULL,
    shard BIGINT NOT NULL,
    bytes BIGINT NOT NULL,
    PRIMARY KEY (owner, shard)
);

CREATE TABLE setting (
    name  TEXT PRIMARY KEY,
    value BYTEA NOT NULL
);

-- The sessions of browsers, the links that begin one, and the links that share a job. Nothing here lets anyone in.
CREATE TABLE session (
    id       TEXT PRIMARY KEY, -- names it in lists
    hash     TEXT NOT NULL,    -- SHA-256 of its secret
    kind     TEXT NOT NULL,    -- 'link', 'session' or 'share'
    username TEXT NOT NULL,
    target   TEXT NOT NULL,    -- the page of a link or a share
    address  TEXT NOT NULL,    -- of the client
    created  BIGINT NOT NULL,
    expires  BIGINT NOT NULL,
    used     BIGINT NOT NULL   -- the last use, some minutes late; 0: never
);
CREATE UNIQUE INDEX session_hash ON session (hash);
CREATE INDEX session_username ON session (username);
CREATE INDEX session_expires ON session (expires);

-- Objects in the object store that rt-site forget has yet to delete.
CREATE TABLE leftover (
    stored TEXT PRIMARY KEY
);

-- Runs that the lake may have, and that rt-site forget has removed, or whose records have another name now.
CREATE TABLE lake_gone (
    id      TEXT NOT NULL,
    name    TEXT NOT NULL, -- of the spool file of the run
    cluster TEXT NOT NULL,
    node    TEXT NOT NULL,
    started BIGINT NOT NULL,
    job_id  BIGINT,
    PRIMARY KEY (id, name)
);

-- What operators have changed: at is RFC 3339 in UTC.
CREATE TABLE audit (
    at   TEXT NOT NULL,
    who  TEXT NOT NULL,
    what TEXT NOT NULL
);

-- +goose Down
DROP TABLE run;
DROP TABLE object;
DROP TABLE job;
DROP TABLE node;
DROP TABLE live;
DROP TABLE disk_use;
DROP TABLE setting;
DROP TABLE session;
DROP TABLE leftover;
DROP TABLE lake_gone;
DROP TABLE audit;
