package planner

// queue is an indexed binary heap of sensors: the one data structure that waits
// for a million instants. Each queue keeps a sensor's position in its own slot
// of sensor.pos, so a sensor can stand in several queues and move in O(log N).
type queue struct {
	items []*sensor
	slot  int
	less  func(a, b *sensor) bool
}

const absent = -1

func (q *queue) len() int { return len(q.items) }

// put inserts the sensor, or moves it after its key has changed.
func (q *queue) put(s *sensor) {
	i := s.pos[q.slot]
	if i == absent {
		i = len(q.items)
		q.items = append(q.items, s)
		s.pos[q.slot] = i
	}
	if !q.up(i) {
		q.down(i)
	}
}

// remove takes the sensor out if it is in.
func (q *queue) remove(s *sensor) {
	i := s.pos[q.slot]
	if i == absent {
		return
	}
	last := len(q.items) - 1
	q.swap(i, last)
	q.items[last] = nil
	q.items = q.items[:last]
	s.pos[q.slot] = absent
	if i < last && !q.up(i) {
		q.down(i)
	}
}

func (q *queue) swap(i, j int) {
	q.items[i], q.items[j] = q.items[j], q.items[i]
	q.items[i].pos[q.slot], q.items[j].pos[q.slot] = i, j
}

func (q *queue) up(i int) (moved bool) {
	for i > 0 {
		parent := (i - 1) / 2
		if !q.less(q.items[i], q.items[parent]) {
			break
		}
		q.swap(i, parent)
		i, moved = parent, true
	}
	return moved
}

func (q *queue) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(q.items) {
			return
		}
		if r := child + 1; r < len(q.items) && q.less(q.items[r], q.items[child]) {
			child = r
		}
		if !q.less(q.items[child], q.items[i]) {
			return
		}
		q.swap(i, child)
		i = child
	}
}
