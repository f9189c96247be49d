package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"strconv"

	"github.com/resource-tracker/rt"
	"github.com/resource-tracker/rt/cmd/internal/cli"
	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/cmd/internal/progress"
	"github.com/resource-tracker/rt/cmd/internal/sitestores"
	"github.com/resource-tracker/rt/internal/printable"
	"github.com/resource-tracker/rt/site"
	"github.com/resource-tracker/rt/site/upkeep"
	"github.com/resource-tracker/rt/spool"
	"github.com/resource-tracker/rt/spool/archive"
	"github.com/resource-tracker/rt/upload/drain"
)

// forget removes the runs of a user, or puts pseudonyms in the place of names.
func forget(ctx context.Context, o *options, stdout, stderr io.Writer) (err error) {
	if o.user == "" {
		return cli.Usage("forget needs --user NAME; see rt-site --help")
	}
	cfg, err := config.Load(o.config)
	if err != nil {
		return sitestores.Misconfigured(err)
	}
	if cfg.Serve.Lake != "" {
		if err := sitestores.CheckLake(cfg.Serve); err != nil {
			return sitestores.Misconfigured(err)
		}
		if _, err := lakeProgram(); err != nil {
			return err
		}
	}
	bar := progress.New(stderr, false)
	bar.Begin(-1)
	f := upkeep.Forgetter{
		Users: []string{o.user}, DryRun: o.dryRun,
		Problem: func(run string, err error) { cli.Message(stderr, "rt-site", "run %s: %v", run, err) },
		Checked: func(int) { bar.Done("", nil) },
	}
	what := "delete the runs of"
	isHidden := !o.pseudonym && cfg.Serve.PrivacyKeyFile != ""
	if isHidden {
		key, err := drain.ReadKey(cfg.Serve.PrivacyKeyFile)
		if err != nil {
			return sitestores.Misconfigured(fmt.Errorf("serve.privacy_key_file: %w", err))
		}
		f.Users = append(f.Users, drain.UserPseudonym(key, o.user))
	}
	if o.pseudonym {
		what = "put pseudonyms into the runs of"
		temp, err := os.MkdirTemp("", "rt-site-")
		if err != nil {
			return fmt.Errorf("make a directory for records: %w", err)
		}
		defer os.RemoveAll(temp) // of temporary files
		key, err := drain.ReadKey(cfg.Privacy.KeyFile)
		if err != nil {
			return sitestores.Misconfigured(err)
		}
		f.Rewrite = pseudonyms{ctx, temp, key, f.Problem}.rewrite
	}
	st, err := o.open(ctx, sitestores.OpenOwned)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	f.Registry, f.Objects = st.Registry, st.Objects
	if o.dryRun {
		done, err := f.Forget(ctx)
		bar.Clear()
		report(stdout, "dry run: "+what, o.user, done)
		return errors.Join(err, undone(done), o.forgetInLake(ctx, cfg, f.Users, stdout, stderr))
	}
	who := operator()
	if err := st.Registry.Settings.Audit(ctx, who, fmt.Sprintf("begins to %s %s", what, o.user)); err != nil {
		return err
	}
	if _, err := st.Registry.Sessions.Revoke(ctx, o.user, ""); err != nil {
		return err
	}
	done, failed := f.Forget(ctx)
	bar.Clear()
	report(stdout, what, o.user, done)
	err = errors.Join(failed, undone(done), o.forgetInLake(ctx, cfg, f.Users, stdout, stderr))
	if wiped := st.Registry.Wipe(ctx); wiped != nil {
		err = errors.Join(err, fmt.Errorf("the names may still be in the file of the database and in its log: start this again: %w", wiped))
	}
	end := fmt.Sprintf("ended to %s %s: %d runs, %d objects", what, o.user, done.Runs, done.Objects)
	if err != nil {
		end = fmt.Sprintf("failed to %s %s after %d runs, %d objects", what, o.user, done.Runs, done.Objects)
	}
	return errors.Join(err, st.Registry.Settings.Audit(context.WithoutCancel(ctx), who, end))
}

// undone is the error of what could not be done; each has been reported.
func undone(done upkeep.Forgotten) error {
	var failed []error
	if done.Unread > 0 {
		failed = append(failed, fmt.Errorf("%w: %d runs could not be read, and may be of this user", site.ErrDamaged, done.Unread))
	}
	if done.Failed > 0 {
		failed = append(failed, fmt.Errorf("%d runs could not be changed, see the messages: fix the cause, and start this again", done.Failed))
	}
	if done.Undeleted > 0 {
		failed = append(failed, fmt.Errorf("%d objects could not be deleted, see the messages: fix the cause, and start this again", done.Undeleted))
	}
	return errors.Join(failed...)
}

func report(w io.Writer, what, name string, done upkeep.Forgotten) {
	fmt.Fprintf(w, "%s %s: %d runs with %d objects, %d bytes\n", what, printable.Text(name), done.Runs, done.Objects, done.Bytes)
	if done.Runs+done.Failed+done.Unread == 0 {
		fmt.Fprintln(w, "if the nodes send pseudonyms (privacy.users), set serve.privacy_key_file, or give the pseudonym as NAME")
	}
	if done.Records > 0 {
		fmt.Fprintf(w, "%d records could not be rewritten and were removed\n", done.Records)
	}
	if done.Unfinished > 0 {
		fmt.Fprintf(w, "%d of the runs are not finished: their nodes may send the names again; repeat this when they are\n", done.Unfinished)
	}
}

// operator is the user who runs the program, through sudo or not.
func operator() string {
	name := strconv.Itoa(os.Getuid())
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if by := os.Getenv("SUDO_USER"); by != "" {
		name = by + " as " + name
	}
	return name
}

// pseudonyms puts pseudonyms in the place of names, as drain does on a node.
type pseudonyms struct {
	ctx     context.Context
	temp    string // directory for records
	key     []byte
	problem func(run string, err error)
}

func (p pseudonyms) rewrite(run site.StoredRun, record []byte) (out upkeep.Rewritten, err error) {
	privacy := drain.Privacy{Users: drain.Pseudonym, Jobs: drain.Pseudonym, Directories: drain.Pseudonym, Commands: drain.None, Key: p.key, Keep: true}
	of := described(run)
	d := privacy.Disguise(of)
	out.Metadata, err = d.Registration(run.Metadata)
	if err != nil {
		return out, fmt.Errorf("the registration: %w", err)
	}
	if run.Finish != nil && run.Finish.Summary != nil {
		out.Summary = d.Summary(run.Finish.Summary)
	}
	if run.Record == nil {
		return out, nil
	}
	hidden := d.Run()
	out.Run = &hidden
	if record == nil {
		return out, nil
	}
	out.Record, err = p.record(&privacy, record)
	if p.ctx.Err() != nil {
		return out, context.Cause(p.ctx)
	}
	if err != nil {
		p.problem(run.ID, fmt.Errorf("its record is removed, because it cannot be rewritten: %w", err))
		out.Record = nil
		return out, nil
	}
	stored, err := archive.Check(bytes.NewReader(out.Record))
	out.Run = &stored
	return out, err
}

// record rewrites a complete record.
func (p pseudonyms) record(privacy *drain.Privacy, record []byte) (out []byte, err error) {
	path, err := archive.Read(p.temp, nil, bytes.NewReader(record))
	if err != nil {
		return nil, err
	}
	r, err := spool.Open(path)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = archive.Write(p.ctx, &b, r, privacy.RecordOptions())
	return b.Bytes(), errors.Join(err, r.Remove())
}

// described is what is known of a run: its record, or its registration.
func described(run site.StoredRun) rt.Run {
	if run.Record != nil {
		return *run.Record
	}
	var meta struct {
		rt.Metadata
	}
	_ = json.Unmarshal(run.Metadata, &meta) // what it does not have is not known
	of, tags := rt.Run{Meta: meta.Metadata}, meta.Tags
	of.User, of.Account, of.Partition, of.QOS = tags["slurm_user"], tags["slurm_account"], tags["slurm_partition"], tags["slurm_qos"]
	of.WorkDir, of.NodeList, of.GPUs, of.SLUID = tags["slurm_work_dir"], tags["slurm_nodelist"], tags["slurm_gpus"], tags["slurm_sluid"]
	for tag, number := range map[string]*rt.Opt[uint64]{
		"slurm_uid": &of.UID, "slurm_job_id": &of.JobID, "slurm_num_nodes": &of.NumNodes, "slurm_cpus": &of.AllocCPUs,
	} {
		if n, err := strconv.ParseUint(tags[tag], 10, 64); err == nil {
			*number = rt.Some(n)
		}
	}
	return of
}
