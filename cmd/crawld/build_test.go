package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// binaries is the folder of the binaries that tests have built.
var binaries = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "crawld-test-") })

func removeBinaries() {
	if dir, err := binaries(); err == nil {
		_ = os.RemoveAll(dir)
	}
}

// crawld is the daemon as `go build` makes it, for what takes many processes or
// looks at them closely.
var crawld = sync.OnceValues(func() (string, error) { return build("crawld") })

// build compiles this command with additional flags of the go command.
func build(name string, flags ...string) (string, error) {
	dir, err := binaries()
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, name)
	args := append([]string{"build", "-o", path}, flags...)
	if out, err := exec.Command("go", append(args, ".")...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, nil
}

func binary(t *testing.T) string {
	t.Helper()
	path, err := crawld()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
