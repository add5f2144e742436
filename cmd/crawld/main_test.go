package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/crawld/crawld/internal/testbed"
)

// suite removes what the tests have built when they are over.
type suite struct{ *testing.M }

func (s suite) Run() int {
	defer removeBinaries()
	return s.M.Run()
}

func TestMain(m *testing.M) {
	testscript.Main(suite{m}, map[string]func(){"crawld": main})
}

// awaitBound is a generous time-out: what is waited for takes moments.
const awaitBound = 30 * time.Second

// updateGolden rewrites the expected output in testdata: look at the difference
// before it is committed.
const updateGolden = "CRAWLD_UPDATE"

// The scripts drive the real binary as its user does.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		UpdateScripts:       os.Getenv(updateGolden) != "",
		Setup: func(env *testscript.Env) error {
			bed := testbed.New(1)
			env.Values["bed"] = bed
			data, err := filepath.Abs("testdata")
			env.Setenv("TESTDATA", data)
			for i := range 5 { // events must not be older than some days
				at := time.Now().Add(time.Duration(-i) * time.Hour).UTC()
				env.Setenv(fmt.Sprint("HOURS_AGO_", i), at.Format(time.RFC3339))
			}
			env.Defer(func() { _ = bed.Close() })
			return err
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"await": scriptAwait, "bed": scriptBed, "combined": scriptCombined, "exits": scriptExits, "expand": scriptExpand,
			"fault": scriptFault, "lines": scriptLines, "metrics": scriptMetrics,
			"port": scriptPort, "post": scriptPost,
			"sensor": scriptSensor, "serves": scriptServes, "shape": scriptShape,
			"signal": scriptSignal, "truncate": scriptTruncate, "unasked": scriptUnasked,
		},
	})
}

// The example configuration that ships is one that the daemon takes.
func TestShippedConfiguration(t *testing.T) {
	t.Parallel()
	s := sources{config: filepath.Join("..", "..", "configs", "crawld.yaml")}
	if _, f, _, err := s.fleet(); err != nil || f.Len() == 0 {
		t.Errorf("%v", err)
	}
}
