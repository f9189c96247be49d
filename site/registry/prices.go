package registry

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/resource-tracker/rt/report"
	"github.com/resource-tracker/rt/site"
)

// pricesSetting is the name of the setting that has the prices of the column waste. Without it they are the default.
const pricesSetting = "prices"

// Prices returns the prices of the waste of jobs. Those in money are what SetPrices got.
func (r *Registry) Prices() report.Prices { return *r.prices }

// loadPrices reads the prices when the registry is opened.
func (r *Registry) loadPrices(ctx context.Context) error {
	*r.prices = report.DefaultPrices
	value, err := r.db.setting(ctx, pricesSetting)
	if errors.Is(err, sql.ErrNoRows) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(value, r.prices)
	}
	if err != nil {
		return fmt.Errorf("read the prices: %w", err)
	}
	return nil
}

// SetPrices sets the prices and computes the waste of all jobs again if they are new. Call it before the registry is
// used by others.
func (r *Registry) SetPrices(ctx context.Context, p report.Prices) error {
	ofRows := report.Prices{GPU: p.GPU, GiB: p.GiB} // money changes no row
	isSame := r.prices.GPU == p.GPU && r.prices.GiB == p.GiB
	if isSame {
		*r.prices = p
		return nil
	}
	value, err := json.Marshal(ofRows)
	if err != nil {
		return err
	}
	err = r.db.change(ctx, "compute the waste of all jobs with new prices", func(tx transaction) error {
		var c conditions
		part := func(name, price string) string {
			return fmt.Sprintf("(CASE WHEN %[1]s_secs > %[1]s_used THEN %[1]s_secs - %[1]s_used ELSE 0 END) * %[2]s", name, price)
		}
		sum := part("core", "1") + " + " + part("gpu", c.value(p.GPU)) + " + " + part("mem", c.value(p.GiB/(1<<30)))
		limit := strconv.Itoa(site.MaxID)
		_, err := tx.ExecContext(ctx, "UPDATE job SET waste = CASE WHEN "+sum+" > "+limit+" THEN "+limit+" ELSE CAST(round("+sum+") AS BIGINT) END"+
			" WHERE core_secs IS NOT NULL OR gpu_secs IS NOT NULL OR mem_secs IS NOT NULL", c.args...)
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO setting (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = excluded.value", pricesSetting, value)
		return err
	})
	if err != nil {
		return err
	}
	*r.prices = p
	return nil
}
