package powercut

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
)

// open notes descriptors of the folder and of files in it.
func (d *Disk) open(c call) error {
	path, err := text(c.args[1])
	if err != nil {
		return fmt.Errorf("openat: %w", err)
	}
	delete(d.files, c.value)
	name, inside := d.name(string(path))
	switch {
	case filepath.Clean(string(path)) == d.dir:
		d.files[c.value] = &handle{folder: true}
	case inside:
		flags := strings.Split(c.args[2], "|")
		if slices.Contains(flags, "O_APPEND") {
			return fmt.Errorf("openat: %s: O_APPEND is not modelled", path)
		}
		node := d.entries[name]
		if node == nil {
			node = &inode{}
			d.change(name, node)
		} else if slices.Contains(flags, "O_TRUNC") {
			node.writes = append(node.writes, write{})
		}
		d.files[c.value] = &handle{node: node}
	}
	return nil
}

// name of a path in the folder.
func (d *Disk) name(path string) (name string, inside bool) {
	return filepath.Base(path), filepath.Dir(filepath.Clean(path)) == d.dir
}

// rename takes whatever changes names: linkat, unlinkat and the kinds of rename.
func (d *Disk) rename(c call) error {
	var paths []string
	for _, arg := range c.args {
		if strings.HasPrefix(arg, `"`) {
			path, err := text(arg)
			if err != nil {
				return fmt.Errorf("%s: %w", c.name, err)
			}
			paths = append(paths, string(path))
		}
	}
	if len(paths) == 0 {
		return fmt.Errorf("%s(%s): not modelled", c.name, strings.Join(c.args, ", "))
	}
	from, inside := d.name(paths[0])
	if c.name == "unlinkat" {
		if inside {
			d.change(from, nil)
		}
		return nil
	}
	to, also := d.name(paths[1])
	if inside != also {
		return fmt.Errorf("%s across folders: not modelled", c.name)
	}
	if !inside {
		return nil
	}
	d.change(to, d.entries[from])
	if c.name != "linkat" {
		d.change(from, nil)
	}
	return nil
}

// A Film is what a program did to a folder that was empty, call by call.
type Film struct {
	dir   string
	calls []call
	marks []int // calls before which a cut is worth a look: those that change anything
}

// Read reads what strace wrote of a program that had the folder dir to itself.
func Read(trace io.Reader, dir string) (*Film, error) {
	calls, err := parse(trace)
	if err != nil {
		return nil, err
	}
	f := &Film{dir: dir, calls: calls}
	d := newDisk(dir)
	for i, c := range calls {
		if err := d.play(c); err != nil {
			return nil, fmt.Errorf("call %d: %w", i+1, err)
		}
		if c.name != "openat" && c.name != "close" {
			f.marks = append(f.marks, i+1)
		}
	}
	return f, nil
}

// Cuts is the number of instants at which the power can be cut: after each call that
// wrote, resized, named or synced.
func (f *Film) Cuts() int { return len(f.marks) }

// Cut shows the disk at each of the given instants, ascending, and what the program had
// said on standard output by then.
func (f *Film) Cut(instants []int, look func(cut int, d *Disk, said []byte) error) error {
	d := newDisk(f.dir)
	played := 0
	for _, cut := range instants {
		for ; played < f.marks[cut]; played++ {
			if err := d.play(f.calls[played]); err != nil {
				return err
			}
		}
		if err := look(cut, d, d.said); err != nil {
			return err
		}
	}
	return nil
}
