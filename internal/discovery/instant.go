package discovery

import "github.com/crawld/crawld/internal/epcis"

// relation is how an object is in a container: by aggregation or by association.
type relation int

const (
	aggregation relation = iota
	association
	relations // how many there are
)

func (k relation) kind() epcis.Kind {
	if k == association {
		return epcis.Association
	}
	return epcis.Aggregation
}

// relationOf is the relation that a Join, Seen or Leave is about; false of other cells.
func relationOf(c *Cell) (relation, bool) {
	if c.Role != Join && c.Role != Seen && c.Role != Leave {
		return 0, false
	}
	if c.Kind == epcis.Association {
		return association, true
	}
	return aggregation, true
}

// stay is an object's being in a container.
type stay struct {
	parent string // "" = in none
	since  int64
	clear  int64 // until then the parent is known not to have released it
}

// state is where an object is by each relation.
type state [relations]stay

// instant hands out the cells of one instant by rank. They are sorted by event ID, so that
// an index is the order of a tie.
type instant struct {
	cells  []Cell
	births []int
	plain  []int // and parent roles, at level 0
	ends   []int // and all-leaves, below
	joins  [relations]line
	leaves [relations]line
	taken  []bool
}

// line is cells of one relation in order, of all parents and of each.
type line struct {
	all []int
	by  map[string][]int
}

func newInstant(cells []Cell) *instant {
	n := &instant{cells: cells}
	if len(cells) == 1 {
		return n
	}
	n.taken = make([]bool, len(cells))
	for i := range cells {
		c := &cells[i]
		k, child := relationOf(c)
		switch {
		case child && c.Role == Leave:
			n.leaves[k].add(i, c.Parent)
		case child:
			n.joins[k].add(i, c.Parent)
		case c.Role == Birth:
			n.births = append(n.births, i)
		case c.Role == End || c.Role == AllLeave:
			n.ends = append(n.ends, i)
		default:
			n.plain = append(n.plain, i)
		}
	}
	return n
}

func (l *line) add(i int, parent string) {
	if l.by == nil {
		l.by = map[string][]int{}
	}
	l.all = append(l.all, i)
	l.by[parent] = append(l.by[parent], i)
}

// none is what a line without cells has next.
const none = int(^uint(0) >> 1)

func (n *instant) first(list *[]int) int {
	for len(*list) > 0 {
		if i := (*list)[0]; !n.taken[i] {
			return i
		}
		*list = (*list)[1:]
	}
	return none
}

// of is the first cell of a line about one parent.
func (n *instant) of(l *line, parent string) int {
	list := l.by[parent]
	i := n.first(&list)
	if l.by != nil {
		l.by[parent] = list
	}
	return i
}

// next is the cell to be played now, nil when all were.
func (n *instant) next(s *state) *Cell {
	if n.taken == nil {
		if len(n.cells) == 0 {
			return nil
		}
		c := &n.cells[0]
		n.cells = nil
		return c
	}
	i := n.lowest(s)
	if i == none {
		return nil
	}
	n.taken[i] = true
	return &n.cells[i]
}

// lowest goes through the ranks.
func (n *instant) lowest(s *state) int {
	if i := n.first(&n.births); i != none {
		return i
	}
	present, entering, moving, unmatched := none, none, none, none
	for k := range relations {
		join := n.first(&n.joins[k].all)
		if at := s[k].parent; at == "" {
			entering = min(entering, join)
		} else {
			present = min(present, n.of(&n.leaves[k], at))
			entering = min(entering, n.of(&n.joins[k], at))
			moving = min(moving, join)
		}
		unmatched = min(unmatched, n.first(&n.leaves[k].all))
	}
	for _, i := range []int{present, entering, n.first(&n.plain), moving, unmatched} {
		if i != none {
			return i
		}
	}
	return n.first(&n.ends)
}
