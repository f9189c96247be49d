package doctor

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// documented are the checks of one subsection of rt-spool-doctor(1), each with the text about it.
func documented(t *testing.T, subsection string) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../../../man/rt-spool-doctor.1")
	if err != nil {
		t.Fatal(err)
	}
	_, text, found := strings.Cut(string(page), "\n.SS "+subsection+"\n")
	if !found {
		t.Fatalf("rt-spool-doctor.1 has no subsection %q", subsection)
	}
	text = regexp.MustCompile(`(?m)^\.(S[SH] |PP)`).Split(text, 2)[0]
	checks := map[string]string{}
	for _, entry := range strings.Split(text, ".TP\n.B ")[1:] {
		names, about, _ := strings.Cut(entry, "\n")
		for _, name := range strings.Split(strings.ReplaceAll(names, `\-`, "-"), ", ") {
			checks[name] = about
		}
	}
	return checks
}

// TestManPage: the manual page has each check with the statuses that a condition gives it, and no other.
func TestManPage(t *testing.T) {
	login := slices.Concat(loginConditions, configConditions)
	receiver := slices.Concat(receiverConditions, configConditions, []condition{ownerCondition})
	// The site of a node is checked as on a login node.
	node := slices.DeleteFunc(slices.Concat(nodeConditions, configConditions), func(c condition) bool { return strings.HasPrefix(c.name, "site.") })
	trials := slices.DeleteFunc(slices.Clone(tryConditions), func(c condition) bool { return c.name == "slurm.node" })
	for subsection, conditions := range map[string][]condition{"node": node, "login": login, "receiver": receiver, `\-\-try`: trials} {
		t.Run(subsection, func(t *testing.T) {
			page := documented(t, subsection)
			seen := map[string]map[Status]bool{}
			for _, c := range conditions {
				if seen[c.name] == nil {
					seen[c.name] = map[Status]bool{}
				}
				seen[c.name][c.status] = true
			}
			for name, about := range page {
				for status, word := range map[Status]string{Failure: "Failure: ", Warning: "Warning: "} {
					if is := strings.Contains(about, word); is != seen[name][status] {
						t.Errorf("%s: the page has %q: %t; a condition has it: %t", name, word, is, seen[name][status])
					}
				}
			}
			for name := range seen {
				if page[name] == "" {
					t.Errorf("the page has no check %s", name)
				}
			}
		})
	}
}

// TestManPageSound: the page has each check of a sound machine.
func TestManPageSound(t *testing.T) {
	node := newMachine(t)
	node.nvidia()
	node.gpus[0].Detail["mig_mode"], node.gpus[1].Detail = "enabled", map[string]string{"parent_uuid": "GPU-0"}
	for role, m := range map[Role]*machine{Node: node, Login: newLogin(t), Receiver: newReceiver(t)} {
		page := documented(t, string(role))
		for _, c := range m.Run(t.Context(), role) {
			if _, found := page[c.Name]; !found {
				t.Errorf("%s: the page has no check %s", role, c.Name)
			}
		}
	}
}
