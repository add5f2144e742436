package coapclient

import (
	"bufio"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// startNodeCoAP serves the resources with node-coap.
func startNodeCoAP(t *testing.T, _ *plugPeer) netip.AddrPort {
	node := lookPath(t, "node", "nodejs")
	out, err := exec.Command(node, "-e", "require.resolve('coap')").CombinedOutput()
	if err != nil {
		t.Skipf("node has no package coap: npm install coap@1.5.0 somewhere and point NODE_PATH "+
			"to its node_modules\n%.200s", out)
	}
	return announced(t, exec.Command(node, "testdata/plugtest.js"))[0]
}

// startAiocoap serves the resources with aiocoap.
func startAiocoap(t *testing.T, _ *plugPeer) netip.AddrPort {
	python := lookPath(t, "python3", "python3")
	out, err := exec.Command(python, "-c", "import aiocoap").CombinedOutput()
	if err != nil {
		t.Skipf("python3 has no package aiocoap: pip install --target=DIR aiocoap==0.4.17 and point "+
			"PYTHONPATH to DIR\n%.200s", out)
	}
	return announced(t, exec.Command(python, "-B", "testdata/plugtest.py"))[0]
}

// startCalifornium serves the resources with Californium.
func startCalifornium(t *testing.T, _ *plugPeer) netip.AddrPort {
	plain, _ := californium(t)
	return plain
}

// californium serves them over DTLS too, with Scandium.
func californium(t *testing.T) (plain, secure netip.AddrPort) {
	java := lookPath(t, "java", "default-jdk-headless")
	dir := os.Getenv("CALIFORNIUM_JARS")
	if jars, _ := filepath.Glob(filepath.Join(dir, "californium-core-*.jar")); len(jars) == 0 {
		t.Skip("CALIFORNIUM_JARS names no directory with californium-core, element-connector and " +
			"slf4j (mvn -f internal/coapclient/testdata/californium.xml dependency:copy-dependencies)")
	}
	ports := announced(t, exec.Command(java, "-cp", filepath.Join(dir, "*"), "testdata/Plugtest.java",
		"crawld", string(theKey)))
	if len(ports) != 2 {
		t.Fatalf("ports %v", ports)
	}
	return ports[0], ports[1]
}

func lookPath(t *testing.T, program, debian string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("%s is not installed (Debian: %s)", program, debian)
	}
	return path
}

// announced starts a server that prints its ports on 127.0.0.1, at least one, and ends with
// its standard input.
func announced(t *testing.T, cmd *exec.Cmd) (ports []netip.AddrPort) {
	t.Helper()
	if _, err := cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var complaints strings.Builder
	cmd.Stderr = &complaints
	command(t, cmd)
	line, err := bufio.NewReader(stdout).ReadString('\n')
	for port := range strings.FieldsSeq(line) {
		ports = append(ports, netip.MustParseAddrPort("127.0.0.1:"+port))
	}
	if err != nil || len(ports) == 0 {
		_ = cmd.Wait()
		t.Fatalf("%v did not start: %v\n%s", cmd, err, complaints.String())
	}
	return ports
}
