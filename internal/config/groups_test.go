package config

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const groupLists = `coap://192.0.2.1/
coaps+ws://192.0.2.2/
`

// What is wrong between groups and lists is told at the line of the configuration.
func TestCheckGroups(t *testing.T) {
	dir := t.TempDir()
	list := write(t, dir+"/list.txt", groupLists)
	f, refused, err := LoadSensors([]string{list})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ groups, want string }{
		{"groups: []", "no error"},
		{"groups: [{id: g, members: ['coap://192.0.2.1/', 'coaps+ws://192.0.2.2/']}]", "no error"},
		{"groups:\n- {id: a, members: [b]}\n- {id: b, members: ['coap://192.0.2.1/']}", "no error"},
		{"groups:\n- id: a\n  members:\n  - b\n  - coap://192.0.2.1/\n  - coap://192.0.2.1\n",
			`c.yaml:5:5: groups[0].members[0]: "b" is no sensor of the lists and no group; ` +
				"correct it or list the sensor\n" +
				`c.yaml:7:5: groups[0].members[2]: "coap://192.0.2.1" is no sensor of the lists ` +
				"and no group; correct it or list the sensor"},
	} {
		got, err := Parse("c.yaml", []byte("sensor_files: [list.txt]\n"+c.groups))
		if err != nil {
			t.Fatal(err)
		}
		err = CheckGroups(got.Groups, f, refused)
		if diff := cmp.Diff(c.want, message(err)); diff != "" {
			t.Errorf("%s (-want +got)\n%s", c.groups, diff)
		}
	}
	named := write(t, dir+"/list.yaml", "sensors: [{id: g, uri: coap://192.0.2.1/}]")
	if f, refused, err = LoadSensors([]string{named}); err != nil {
		t.Fatal(err)
	}
	c, err := Parse("c.yaml", []byte("sensor_files: [l]\ngroups: [{id: h, members: [g]}, "+
		"{id: g, members: [h]}]"))
	if err == nil {
		t.Fatal(c) // a cycle, whatever the lists say
	}
	if c, err = Parse("c.yaml", []byte("sensor_files: [l]\ngroups: [{id: g, members: [g2]}, "+
		"{id: g2, members: [x]}]")); err != nil {
		t.Fatal(err)
	}
	err = CheckGroups(c.Groups, f, refused)
	if lines := strings.Split(message(err), "\n"); len(lines) != 2 ||
		lines[0] != `c.yaml:2:10: groups[0].id: "g" is the id of a sensor; choose another` {
		t.Errorf("%v", err)
	}
	if err := CheckGroups([]Group{{ID: "a", Members: []string{"b"}, AtLeast: 1}}, f, nil); err == nil {
		t.Error("a group that was read from no file is not checked")
	}
}

// A cycle is found if and only if there is one.
func TestGroupCycles(t *testing.T) {
	counts := map[bool]int{}
	for seed := range uint64(500) {
		rng := rand.New(rand.NewPCG(seed, 8))
		n := 1 + rng.IntN(6)
		edges := make([][]bool, n)
		text := "sensor_files: [a]\ngroups:\n"
		for i := range n {
			edges[i] = make([]bool, n)
			members := []string{"x"}
			for j := range n {
				if edges[i][j] = rng.IntN(n+1) == 0; edges[i][j] {
					members = append(members, fmt.Sprintf("g%d", j))
				}
			}
			text += fmt.Sprintf("- {id: g%d, members: [%s]}\n", i, strings.Join(members, ", "))
		}
		for k := range n { // transitive closure, Warshall
			for i := range n {
				for j := range n {
					edges[i][j] = edges[i][j] || edges[i][k] && edges[k][j]
				}
			}
		}
		cyclic := false
		for i := range n {
			cyclic = cyclic || edges[i][i]
		}
		counts[cyclic]++
		if _, err := Parse("c.yaml", []byte(text)); (err != nil) != cyclic {
			t.Fatalf("cyclic %v: %v\n%s", cyclic, err, text)
		}
	}
	if min(counts[true], counts[false]) < 100 {
		t.Errorf("%v", counts)
	}
}
