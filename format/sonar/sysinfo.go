package sonar

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Sysinfo is the description of a host by sonar sysinfo. It has no version.
type Sysinfo struct {
	Timestamp   time.Time
	Hostname    string // fully qualified
	Description string // one line for people
	CPUCores    uint64 // logical CPUs
	MemGB       uint64 // GiB
	GPUCards    uint64
	GPUMemGB    uint64 // GiB, of all cards
	GPUInfo     []Card // from 0.13
}

// Card is the description of one GPU by sonar sysinfo.
type Card struct {
	BusAddr, UUID, Manufacturer, Model, Arch, Driver, Firmware string

	Index                       uint64
	MemSizeKiB                  uint64
	PowerLimitW, MaxPowerLimitW uint64
	MinPowerLimitW              uint64
	MaxClockMHz, MaxMemClockMHz uint64
}

var cardFields = [...]string{
	"bus_addr", "index", "uuid", "manufacturer", "model", "arch", "driver", "firmware", "mem_size_kib",
	"power_limit_watt", "max_power_limit_watt", "min_power_limit_watt", "max_ce_clock_mhz", "max_mem_clock_mhz",
}

func (c *Card) string(name string) *string {
	switch name {
	case "bus_addr":
		return &c.BusAddr
	case "uuid":
		return &c.UUID
	case "manufacturer":
		return &c.Manufacturer
	case "model":
		return &c.Model
	case "arch":
		return &c.Arch
	case "driver":
		return &c.Driver
	case "firmware":
		return &c.Firmware
	}
	return nil
}

func (c *Card) integer(name string) *uint64 {
	switch name {
	case "index":
		return &c.Index
	case "mem_size_kib":
		return &c.MemSizeKiB
	case "power_limit_watt":
		return &c.PowerLimitW
	case "max_power_limit_watt":
		return &c.MaxPowerLimitW
	case "min_power_limit_watt":
		return &c.MinPowerLimitW
	case "max_ce_clock_mhz":
		return &c.MaxClockMHz
	case "max_mem_clock_mhz":
		return &c.MaxMemClockMHz
	}
	return nil
}

func (c *Card) set(name, text string) (err error) {
	if p := c.integer(name); p != nil {
		*p, err = parseInteger(text)
	} else if p := c.string(name); p != nil {
		*p = text
	}
	return err
}

// append writes the fields of the card. Its index is never left out.
func (c *Card) append(e *encoder) {
	for _, name := range cardFields {
		if p := c.integer(name); p != nil {
			if name == "index" {
				e.number(name, decimal(*p))
			} else {
				e.integer(name, *p)
			}
		} else if text := clean(*c.string(name)); text != "" {
			e.text(name, text)
		}
	}
}

func (s *Sysinfo) integer(name string) *uint64 {
	switch name {
	case "cpu_cores":
		return &s.CPUCores
	case "mem_gb":
		return &s.MemGB
	case "gpu_cards":
		return &s.GPUCards
	case "gpumem_gb":
		return &s.GPUMemGB
	}
	return nil
}

func (s *Sysinfo) set(name, text string) (err error) {
	if p := s.integer(name); p != nil {
		*p, err = parseInteger(text)
		return err
	}
	switch name {
	case "timestamp":
		s.Timestamp, err = parseTime(text)
	case "hostname":
		s.Hostname = text
	case "description":
		s.Description = text
	case "gpu_info":
		s.GPUInfo, err = parseCards(text)
	}
	return err
}

// parseCards parses the CSV of gpu_info: a list of nested records.
func parseCards(text string) ([]Card, error) {
	if text == "" {
		return nil, nil
	}
	elements, err := split(text)
	if err != nil {
		return nil, err
	}
	cards := make([]Card, len(elements))
	for i, element := range elements {
		fields, err := SplitFree(element)
		for k := 0; err == nil && k < len(fields); k++ {
			err = cards[i].set(fields[k].Name, fields[k].Text)
		}
		if err != nil {
			return nil, fmt.Errorf("card %d: %w", i, err)
		}
	}
	return cards, nil
}

func (s *Sysinfo) check() error {
	switch {
	case s.Timestamp.IsZero():
		return errors.New("no timestamp")
	case s.Hostname == "":
		return errors.New("no hostname")
	}
	return nil
}

// AppendJSON appends the record as one JSON object and a newline.
func (s *Sysinfo) AppendJSON(dst []byte) ([]byte, error) {
	if err := s.valid(); err != nil {
		return dst, fmt.Errorf("sonar: write the system information of %.40q: %w", s.Hostname, err)
	}
	e := encoder{dst: append(dst, '{'), start: len(dst) + 1, json: true}
	s.append(&e)
	if len(s.GPUInfo) > 0 {
		e.name("gpu_info")
		for i := range s.GPUInfo {
			card := encoder{dst: append(e.dst, "[,"[min(i, 1)], '{'), start: len(e.dst) + 2, json: true}
			s.GPUInfo[i].append(&card)
			e.dst = append(card.dst, '}')
		}
		e.dst = append(e.dst, ']')
	}
	return append(e.dst, '}', '\n'), nil
}

// AppendCSV appends the record as one line of free CSV with its newline. The cards
// are nested: a list of records.
func (s *Sysinfo) AppendCSV(dst []byte) ([]byte, error) {
	if err := s.valid(); err != nil {
		return dst, fmt.Errorf("sonar: write the system information of %.40q: %w", s.Hostname, err)
	}
	e := encoder{dst: dst, start: len(dst)}
	s.append(&e)
	if len(s.GPUInfo) > 0 {
		var list []byte
		for i := range s.GPUInfo {
			var card encoder
			s.GPUInfo[i].append(&card)
			if i > 0 {
				list = append(list, ',')
			}
			list = appendElement(list, string(card.dst))
		}
		e.text("gpu_info", string(list))
	}
	return append(e.dst, '\n'), nil
}

func (s *Sysinfo) append(e *encoder) {
	e.text("timestamp", formatTime(s.Timestamp))
	e.text("hostname", clean(s.Hostname))
	if s.Description != "" {
		e.text("description", clean(s.Description))
	}
	for _, name := range [...]string{"cpu_cores", "mem_gb", "gpu_cards", "gpumem_gb"} {
		e.integer(name, *s.integer(name))
	}
}

func (s *Sysinfo) valid() error {
	if s.Timestamp.Before(minTime) || s.Timestamp.After(maxTime) {
		return errors.New("the timestamp is not between 1970 and 2262")
	}
	if len(s.GPUInfo) > maxGPUs {
		return errors.New(strconv.Itoa(len(s.GPUInfo)) + " cards are more than a host has")
	}
	for i := range s.GPUInfo {
		for _, name := range cardFields {
			if p := s.GPUInfo[i].integer(name); p != nil && *p > maxInteger {
				return fmt.Errorf("%s of card %d is %d, which has more than 52 bits", name, i, *p)
			}
		}
	}
	for _, name := range [...]string{"cpu_cores", "mem_gb", "gpu_cards", "gpumem_gb"} {
		if n := *s.integer(name); n > maxInteger {
			return fmt.Errorf("%s is %d, which has more than 52 bits", name, n)
		}
	}
	return s.check()
}
