package sonar

import (
	"errors"
	"fmt"
	"time"
)

// Sysinfo is the description of a host by sonar sysinfo.
type Sysinfo struct {
	Timestamp   time.Time `sonar:"timestamp"`
	Hostname    string    `sonar:"hostname"`    // fully qualified
	Description string    `sonar:"description"` // one line for people
	CPUCores    uint64    `sonar:"cpu_cores"`   // logical CPUs
	MemGB       uint64    `sonar:"mem_gb"`      // GiB
	GPUCards    uint64    `sonar:"gpu_cards"`
	GPUMemGB    uint64    `sonar:"gpumem_gb"` // GiB, of all cards
	GPUInfo     []Card    `sonar:"gpu_info"`  // from 0.13
	Version     string    `sonar:"version"`   // of the program that wrote it; empty in the oldest records

	MemKiB uint64 // in the new format only
}

// Card is the description of one GPU by sonar sysinfo. JSON has the names of the new format.
type Card struct {
	BusAddr        string `sonar:"bus_addr" json:"address"`
	Index          uint64 `sonar:"index" json:"index"`
	UUID           string `sonar:"uuid" json:"uuid"`
	Manufacturer   string `sonar:"manufacturer" json:"manufacturer"`
	Model          string `sonar:"model" json:"model"`
	Arch           string `sonar:"arch" json:"architecture"`
	Driver         string `sonar:"driver" json:"driver"`
	Firmware       string `sonar:"firmware" json:"firmware"`
	MemSizeKiB     uint64 `sonar:"mem_size_kib" json:"memory"`
	PowerLimitW    uint64 `sonar:"power_limit_watt" json:"power_limit"`
	MaxPowerLimitW uint64 `sonar:"max_power_limit_watt" json:"max_power_limit"`
	MinPowerLimitW uint64 `sonar:"min_power_limit_watt" json:"min_power_limit"`
	MaxClockMHz    uint64 `sonar:"max_ce_clock_mhz" json:"max_ce_clock"`
	MaxMemClockMHz uint64 `sonar:"max_mem_clock_mhz" json:"max_memory_clock"`
}

var cardColumns, sysinfoColumns = columnsOf[Card](), columnsOf[Sysinfo]()

func (c *Card) set(name, text string) error { return parse(find(cardColumns, c, name), text) }

func (s *Sysinfo) set(name, text string) error { return parse(find(sysinfoColumns, s, name), text) }

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
	return append(appendObject(dst, sysinfoColumns, s), '\n'), nil
}

// AppendCSV appends the record as one line of free CSV with its newline. The cards
// are nested: a list of records.
func (s *Sysinfo) AppendCSV(dst []byte) ([]byte, error) {
	if err := s.valid(); err != nil {
		return dst, err
	}
	return appendCSV(dst, sysinfoColumns, s), nil
}

// appendCards appends the CSV of gpu_info.
func appendCards(dst []byte, cards []Card) []byte {
	for i := range cards {
		if i > 0 {
			dst = append(dst, ',')
		}
		var card encoder
		putAll(&card, cardColumns, &cards[i])
		dst = appendElement(dst, string(card.dst))
	}
	return dst
}

func (s *Sysinfo) valid() error {
	err := checkWritable(sysinfoColumns, s, "")
	if err == nil {
		err = s.check()
	}
	if err != nil {
		return fmt.Errorf("sonar: write the system information of %.40q: %w", s.Hostname, err)
	}
	return nil
}
