package sitestores

import (
	"context"
	"errors"
	"fmt"

	"github.com/resource-tracker/rt/cmd/internal/config"
	"github.com/resource-tracker/rt/format/gempba"
	"github.com/resource-tracker/rt/format/powerapi"
	rtreport "github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
	sitereport "github.com/resource-tracker/rt/site/report"
	"github.com/resource-tracker/rt/spool"
)

// FiguresOfOthers adds to a summary the figures of other programs, and the shares of energy.
func FiguresOfOthers(energy config.Energy) sitereport.Add {
	return func(ctx context.Context, r *spool.Reader, s *rtreport.Summary) error {
		var failed [2]error
		s.GemPBA, failed[0] = gempba.Figures(ctx, r)
		s.Others, failed[1] = powerapi.Sensors(ctx, r)
		s.ShareEnergy(energy.IdleWatts, energy.CO2e)
		return Damaged(errors.Join(failed[:]...))
	}
}

// Damaged marks the errors that are about the content of a record.
func Damaged(err error) error {
	for _, kind := range []error{spool.ErrRecord, spool.ErrDamaged, spool.ErrLimit, spool.ErrForeign, gempba.ErrLine, powerapi.ErrReport} {
		if errors.Is(err, kind) {
			return fmt.Errorf("%w: %w", site.ErrDamaged, err)
		}
	}
	return err
}
