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
	return announced(t, exec.Command(node, "testdata/plugtest.js"))
}

// startAiocoap serves the resources with aiocoap.
func startAiocoap(t *testing.T, _ *plugPeer) netip.AddrPort {
	python := lookPath(t, "python3", "python3")
	out, err := exec.Command(python, "-c", "import aiocoap").CombinedOutput()
	if err != nil {
		t.Skipf("python3 has no package aiocoap: pip install --target=DIR aiocoap==0.4.17 and point "+
			"PYTHONPATH to DIR\n%.200s", out)
	}
	return announced(t, exec.Command(python, "-B", "testdata/plugtest.py"))
}

// startCalifornium serves the resources with Californium.
func startCalifornium(t *testing.T, _ *plugPeer) netip.AddrPort {
	java := lookPath(t, "java", "default-jdk-headless")
	dir := os.Getenv("CALIFORNIUM_JARS")
	if jars, _ := filepath.Glob(filepath.Join(dir, "californium-core-*.jar")); len(jars) == 0 {
		t.Skip("CALIFORNIUM_JARS names no directory with californium-core, element-connector and " +
			"slf4j (Maven: org.eclipse.californium:californium-core:3.14.0)")
	}
	return announced(t, exec.Command(java, "-cp", filepath.Join(dir, "*"), "testdata/Plugtest.java"))
}

func lookPath(t *testing.T, program, debian string) string {
	t.Helper()
	path, err := exec.LookPath(program)
	if err != nil {
		t.Skipf("%s is not installed (Debian: %s)", program, debian)
	}
	return path
}

// announced starts a server that prints its port on 127.0.0.1 and ends with its standard
// input.
func announced(t *testing.T, cmd *exec.Cmd) netip.AddrPort {
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
	port, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		_ = cmd.Wait()
		t.Fatalf("%v did not start: %v\n%s", cmd, err, complaints.String())
	}
	return netip.MustParseAddrPort("127.0.0.1:" + strings.TrimSpace(port))
}
