package crawld

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
)

// leastDTLS is the first release with which a hostile sensor cannot crash a client
// (CVE-2026-54908).
var leastDTLS = [3]int{3, 1, 4}

// What the module is built with is at least what is known to be safe.
func TestDTLSIsNewEnough(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Version}}",
		"github.com/pion/dtls/v3").Output()
	if err != nil {
		t.Fatal(err)
	}
	got := release(t, strings.TrimSpace(string(out)))
	if before(got, leastDTLS) {
		t.Errorf("github.com/pion/dtls/v3 is %v, want at least %v", got, leastDTLS)
	}
	for _, old := range []string{"v3.1.3", "v3.0.99", "v2.9.9", "v3.1.4-rc.1"} {
		if !before(release(t, old), leastDTLS) {
			t.Errorf("%s passes", old)
		}
	}
	for _, fine := range []string{"v3.1.4", "v3.1.15", "v3.2.0", "v4.0.0"} {
		if before(release(t, fine), leastDTLS) {
			t.Errorf("%s does not pass", fine)
		}
	}
}

// release reads vMAJOR.MINOR.PATCH. What comes before a release counts as the one before.
func release(t *testing.T, version string) (r [3]int) {
	t.Helper()
	number, pre, _ := strings.Cut(strings.TrimPrefix(version, "v"), "-")
	parts := strings.Split(number, ".")
	if len(parts) != 3 {
		t.Fatalf("version %q", version)
	}
	for i, p := range parts {
		var err error
		if r[i], err = strconv.Atoi(p); err != nil {
			t.Fatal(err)
		}
	}
	if pre != "" {
		r[2]--
	}
	return r
}

func before(a, b [3]int) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}
