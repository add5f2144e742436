package rival

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// ErrNoServer is wrapped by the errors of Installed and StartCluster where PostgreSQL is not
// installed.
var ErrNoServer = errors.New("no PostgreSQL server is installed")

// Cluster is a PostgreSQL server of its own, thrown away when it is stopped. It listens on
// a socket in its folder alone, which nobody else may enter. Durability is as installed:
// fsync and synchronous_commit on.
type Cluster struct {
	dir string
	bin string
	as  *syscall.Credential // PostgreSQL refuses to run as root; nil = as this process
}

// clusterSettings are those in which an administrator would change the defaults: 128 MB
// of buffers and 100 connections are made for the smallest machines.
const clusterSettings = "-c listen_addresses='' -c shared_buffers=1GB -c max_wal_size=8GB " +
	"-c max_connections=500"

// StartCluster makes a cluster in a new folder below dir ("" = the system's) and starts
// it. The process of root starts it as the user postgres or nobody, who must be able to
// reach dir.
func StartCluster(ctx context.Context, dir string) (*Cluster, error) {
	bin, err := Installed()
	if err != nil {
		return nil, err
	}
	c := &Cluster{bin: bin}
	if c.dir, err = os.MkdirTemp(dir, "crawld-pg-"); err != nil {
		return nil, err
	}
	if err = c.owner(); err == nil {
		err = c.start(ctx)
	}
	if err != nil {
		_ = c.stop() // it may have started, or not
		return nil, errors.Join(fmt.Errorf("PostgreSQL cluster: %w", err), os.RemoveAll(c.dir))
	}
	return c, nil
}

// Installed is the folder that has initdb and pg_ctl: one of the PATH, else the newest of
// those where distributions keep them. Without one the error is ErrNoServer.
func Installed() (string, error) {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin") // the pattern is well-formed
	slices.SortFunc(dirs, func(a, b string) int { return release(b) - release(a) })
	dirs = append(filepath.SplitList(os.Getenv("PATH")), dirs...)
	for _, dir := range append(dirs, "/usr/local/pgsql/bin", "/opt/homebrew/bin") {
		_, noInit := exec.LookPath(filepath.Join(dir, "initdb"))
		_, noControl := exec.LookPath(filepath.Join(dir, "pg_ctl"))
		if noInit == nil && noControl == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("%w: initdb and pg_ctl are not in the PATH", ErrNoServer)
}

// release is the number in /usr/lib/postgresql/15/bin, 0 where there is none.
func release(bin string) int {
	n, err := strconv.Atoi(filepath.Base(filepath.Dir(bin)))
	if err != nil {
		return 0
	}
	return n
}

// owner gives the folder to who will run the server.
func (c *Cluster) owner() error {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errU := strconv.ParseUint(u.Uid, 10, 32)
		gid, errG := strconv.ParseUint(u.Gid, 10, 32)
		if err := errors.Join(errU, errG); err != nil {
			return err
		}
		c.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
		return os.Chown(c.dir, int(uid), int(gid))
	}
	return errors.New("it does not run as root, and there is no user postgres or nobody")
}

func (c *Cluster) start(ctx context.Context) error {
	err := c.tool(ctx, "initdb", "-D", c.data(), "-U", "crawld", "-A", "trust", "-E", "UTF8",
		"--locale=C", "--no-sync")
	if err != nil {
		return err
	}
	return c.tool(ctx, "pg_ctl", "-D", c.data(), "-w", "-t", "60", "-l",
		filepath.Join(c.dir, "log"), "-o", clusterSettings+" -k '"+c.dir+"'", "start")
}

func (c *Cluster) data() string { return filepath.Join(c.dir, "data") }

// tool runs one of PostgreSQL's. What it says is part of the error.
func (c *Cluster) tool(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(c.bin, name), args...)
	cmd.Dir = c.dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: c.as}
	// A file, not a pipe: the server inherits it, and Wait would wait for its end.
	said, err := os.CreateTemp(c.dir, name)
	if err != nil {
		return err
	}
	defer said.Close()
	cmd.Stdout, cmd.Stderr = said, said
	if err := cmd.Run(); err != nil {
		text, _ := os.ReadFile(said.Name()) // what the tool said is an extra
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(text)))
	}
	return nil
}

// URL is where the cluster's database is.
func (c *Cluster) URL() string { return "postgres:///postgres?user=crawld&host=" + c.dir }

// Stop ends the server and removes the cluster.
func (c *Cluster) Stop() error { return errors.Join(c.stop(), os.RemoveAll(c.dir)) }

// stop takes no context: what a run began ends also where that was cancelled.
func (c *Cluster) stop() error {
	return c.tool(context.Background(), "pg_ctl", "-D", c.data(), "-w", "-m", "immediate", "stop")
}
