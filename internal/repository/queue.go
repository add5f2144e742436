package repository

import (
	"bytes"
	"fmt"
	"slices"
	"sync"
)

const (
	// maxGroup bounds a transaction: how long the first of a group waits for
	// the last, and how much is lost to a failure.
	maxGroup = 1000
	// maxQueue bounds what a stalled disk can pile up in memory, some 100 MB
	// of outcomes with bodies of 1 KB.
	maxQueue = 1 << 16
	// maxRows bounds a transaction's memory where publications of thousands of rows meet.
	maxRows = 1 << 17
)

// op is one write, whole or not at all.
type op struct {
	key   []byte // what it is sorted by; nil = first
	solo  bool   // alone in its transaction
	err   error  // known before: it takes its turn and fails
	rows  int    // it writes, where those are many; they bound its group
	apply func(*transaction) error
	// instead, of a solo op, is called in place of a transaction.
	instead func() error
	done    func(error)
}

// queue hands writes to the one goroutine that commits them.
type queue struct {
	mu     sync.Mutex
	filled sync.Cond // on mu: ops or closed changed
	ops    []*op
	closed error // why nothing more is taken; nil = open
}

func (q *queue) init() { q.filled.L = &q.mu }

// push queues operations so that none of others comes between them.
func (q *queue) push(ops ...*op) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed != nil {
		return q.closed
	}
	if n := len(q.ops); n >= maxQueue {
		for _, o := range ops {
			// Failing in turn, on the writer's goroutine, is what done expects.
			o.err = fmt.Errorf("the disk does not keep up: %d writes wait", n)
			o.apply, o.instead = nil, nil
		}
	}
	q.ops = append(q.ops, ops...)
	q.filled.Signal()
	return nil
}

func (q *queue) close(why error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = why
	q.filled.Signal()
}

// take waits for the next group: all that is queued, at most maxGroup, without
// waiting for more. While a group is being committed the next one gathers, so a
// slow disk makes groups larger by itself. It is empty once closed and drained.
func (q *queue) take() []*op {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.ops) == 0 && q.closed == nil {
		q.filled.Wait()
	}
	n, rows := 0, 0
	for n < min(len(q.ops), maxGroup) && !q.ops[n].solo && rows < maxRows {
		rows += q.ops[n].rows
		n++
	}
	if n == 0 && len(q.ops) > 0 {
		n = 1
	}
	group := slices.Clone(q.ops[:n])
	q.ops = slices.Delete(q.ops, 0, n)
	if len(q.ops) == 0 {
		q.ops = nil // a burst's memory does not stay
	}
	return group
}

// inOrder sorts a group by key, so that neighbours in a tree are touched
// together; writes to one sensor keep their order, so that the last one wins.
func inOrder(group []*op) []*op {
	sorted := slices.Clone(group)
	slices.SortStableFunc(sorted, func(a, b *op) int { return bytes.Compare(a.key, b.key) })
	return sorted
}
