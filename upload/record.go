package upload

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// RecordName is the name of the record below the URI of a run.
const RecordName = "run.rtrec"

// Limits of what a receiver of records takes, in bytes. A record is in memory while it is sent.
const (
	maxRecord  = 32 << 20
	maxFigures = 64 << 10
)

// keptRecord is the largest buffer of a record that a worker keeps for the next run, in bytes.
const keptRecord = 1 << 20

var errRecordTooLarge = fmt.Errorf("the record is not sent: it has more than %d MiB; the spool file has the run", maxRecord>>20)

// recordBuffer takes a record up to the limit.
type recordBuffer struct{ *bytes.Buffer }

func (b recordBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxRecord {
		return 0, errRecordTooLarge
	}
	return b.Buffer.Write(p)
}

// sendRecord replaces the record of the run at the receiver. It returns the record's SHA-256, also
// if the receiver cannot store the record.
func (r *delivery) sendRecord(ctx context.Context) (sum string, err error) {
	body := &r.buf.record
	body.Reset()
	defer func() {
		if body.Cap() > keptRecord {
			*body = bytes.Buffer{}
		}
	}()
	if err := r.spooled.WriteRecord(ctx, recordBuffer{body}); err != nil {
		if errors.Is(err, errRecordTooLarge) {
			return "", err
		}
		return "", unreadable("write the record of the run", err)
	}
	hash := sha256.Sum256(body.Bytes())
	sum = hex.EncodeToString(hash[:])
	if err := r.putObject(ctx, fmt.Sprintf("%s/%s/%s", r.reg.UploadURIPrefix, r.reg.RemoteID, RecordName), body.Bytes()); err != nil {
		return sum, err
	}
	r.sentBytes += int64(body.Len())
	return sum, nil
}

// attachRecord sends the record of an ended run to a receiver that takes it, and sets what the finish
// has about the run. Each attempt sends the record again: accounting may have corrected the run
// since, and the receiver compares the stored record with the finish.
func (r *delivery) attachRecord(ctx context.Context, f *Finish) error {
	if !r.reg.Record {
		return nil
	}
	figures, err := r.spooled.Figures(ctx)
	if err != nil {
		err = unreadable("read the figures of the run", err)
	}
	if len(figures) <= maxFigures {
		f.Summary = figures
	} else if err := r.noteLost("figures", fmt.Errorf("the figures for lists of jobs have more than %d KiB", maxFigures>>10)); err != nil {
		return err
	}
	if err == nil {
		f.RecordSHA256, err = r.sendRecord(ctx)
	}
	isRefusedAsClosed := finishSent(r.reg) && refusedAsClosed(err)
	switch {
	case err == nil, isRefusedAsClosed: // the answer to the finish decides
		return nil
	case isRecordLost(err):
		f.RecordSHA256 = ""
		return r.noteLost("record", err)
	}
	return err
}

// isRecordLost reports whether no attempt can deliver the record. Its file is damaged, or the
// record is too large, or the receiver or a proxy refuses it, or the receiver has a newer one. The
// run's rows do not need the record.
func isRecordLost(err error) bool {
	isRefused := hasStatus(err, http.StatusRequestEntityTooLarge, http.StatusConflict, http.StatusUnprocessableEntity)
	return errors.Is(err, errRecordTooLarge) || isDamaged(err) || isRefused || isContentRefused(err)
}

// isContentRefused reports whether the receiver answered 400 because of the content or the size. Such an
// answer without S3's code is not about the content: the request was damaged on the way.
func isContentRefused(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Status == http.StatusBadRequest && slices.Contains([]string{"InvalidRequest", "EntityTooLarge"}, e.Code)
}

// noteLost records in the ledger, once, that a run is delivered without its record or its figures.
func (r *delivery) noteLost(what string, why error) error {
	if finishSent(r.reg) {
		return nil
	}
	r.noteProblem(nil, fmt.Errorf("delivered without its %s: %w", what, why))
	return r.addEvent(what, "not sent", why.Error())
}

// recordShare bounds the work for the records of a run that is still tracked: each record has all of its
// readings. So a pass sends the record only if 1/recordShare of the readings are new.
const recordShare = 32

// wantedShare is recordShare for a run that is wanted: someone looks at it.
const wantedShare = 500

// sync uploads the committed rows of a run that is still tracked, and the record to a receiver that
// takes it. Of a run that is only wanted it uploads no rows: a file of them in each drain would stay.
func (r *delivery) sync(ctx context.Context) error {
	share, last := int64(recordShare), int64(0)
	var err error
	if r.d.opts.Live {
		err = r.upload.uploadBatches(ctx)
		last = r.upload.rows.seq
	} else {
		share = wantedShare
		last, err = r.spooled.LastSeq()
		if err != nil {
			err = unreadable("read the number of the last snapshot", err)
		}
	}
	if err != nil || !r.reg.Record {
		return err
	}
	if last-r.reg.RecordSeq < max(1, last/share) {
		return nil
	}
	_, err = r.sendRecord(ctx)
	isFailure := err != nil && !isRecordLost(err) // else the finish of the run notes it
	if isFailure {
		return err
	}
	r.reg.RecordSeq = last
	return r.saveRegistration()
}
