package sonar

import (
	"errors"
	"fmt"
	"strconv"
	"time"
)

// Sysinfo is the description of a host by sonar sysinfo.
type Sysinfo struct {
	Version     string // of the program that wrote it; empty in the oldest records
	Timestamp   time.Time
	Hostname    string // fully qualified
	Description string // one line for people
	CPUCores    uint64 // logical CPUs
	MemGB       uint64 // GiB
	GPUCards    uint64
	GPUMemGB    uint64 // GiB, of all cards
	GPUInfo     []Card // from 0.13

	// In the new format only.
	Cluster string
	MemKiB  uint64
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

var cardColumns = [...]column[Card]{
	{"bus_addr", func(c *Card) any { return &c.BusAddr }},
	{"index", func(c *Card) any { return &c.Index }},
	{"uuid", func(c *Card) any { return &c.UUID }},
	{"manufacturer", func(c *Card) any { return &c.Manufacturer }},
	{"model", func(c *Card) any { return &c.Model }},
	{"arch", func(c *Card) any { return &c.Arch }},
	{"driver", func(c *Card) any { return &c.Driver }},
	{"firmware", func(c *Card) any { return &c.Firmware }},
	{"mem_size_kib", func(c *Card) any { return &c.MemSizeKiB }},
	{"power_limit_watt", func(c *Card) any { return &c.PowerLimitW }},
	{"max_power_limit_watt", func(c *Card) any { return &c.MaxPowerLimitW }},
	{"min_power_limit_watt", func(c *Card) any { return &c.MinPowerLimitW }},
	{"max_ce_clock_mhz", func(c *Card) any { return &c.MaxClockMHz }},
	{"max_mem_clock_mhz", func(c *Card) any { return &c.MaxMemClockMHz }},
}

func (c *Card) set(name, text string) error { return parse(find(cardColumns[:], c, name), text) }

var sysinfoColumns = [...]column[Sysinfo]{
	{"timestamp", func(s *Sysinfo) any { return &s.Timestamp }},
	{"hostname", func(s *Sysinfo) any { return &s.Hostname }},
	{"description", func(s *Sysinfo) any { return &s.Description }},
	{"cpu_cores", func(s *Sysinfo) any { return &s.CPUCores }},
	{"mem_gb", func(s *Sysinfo) any { return &s.MemGB }},
	{"gpu_cards", func(s *Sysinfo) any { return &s.GPUCards }},
	{"gpumem_gb", func(s *Sysinfo) any { return &s.GPUMemGB }},
	{"gpu_info", func(s *Sysinfo) any { return &s.GPUInfo }},
	{"version", func(s *Sysinfo) any { return &s.Version }},
}

func (s *Sysinfo) set(name, text string) error { return parse(find(sysinfoColumns[:], s, name), text) }

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
		return dst, err
	}
	return append(appendObject(dst, sysinfoColumns[:], s), '\n'), nil
}

// AppendCSV appends the record as one line of free CSV with its newline. The cards
// are nested: a list of records.
func (s *Sysinfo) AppendCSV(dst []byte) ([]byte, error) {
	if err := s.valid(); err != nil {
		return dst, err
	}
	e := encoder{dst: dst, start: len(dst)}
	putAll(&e, sysinfoColumns[:], s)
	return append(e.dst, '\n'), nil
}

// appendCards appends the CSV of gpu_info.
func appendCards(dst []byte, cards []Card) []byte {
	for i := range cards {
		if i > 0 {
			dst = append(dst, ',')
		}
		var card encoder
		putAll(&card, cardColumns[:], &cards[i])
		dst = appendElement(dst, string(card.dst))
	}
	return dst
}

func (s *Sysinfo) valid() error {
	err := writable(sysinfoColumns[:], s, "")
	if n := len(s.GPUInfo); err == nil && n > maxGPUs {
		err = fmt.Errorf("%d cards are more than a host has", n)
	}
	for i := 0; err == nil && i < len(s.GPUInfo); i++ {
		err = writable(cardColumns[:], &s.GPUInfo[i], " of card "+strconv.Itoa(i))
	}
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return fmt.Errorf("sonar: write the system information of %.40q: %w", s.Hostname, err)
	}
	return nil
}
