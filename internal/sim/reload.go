package sim

import (
	"fmt"
	"time"

	"github.com/crawld/crawld/internal/fleet"
)

// Reload is a new listing of the same sensors. It says what the planner is told of
// them; what they truly do, Sensor says.
type Reload struct {
	At     time.Time
	Listed []fleet.Sensor
}

// reload hands the planner the listings whose time has come, as the daemon does when
// it is told to read its sensor list again.
func (r *run) reload(now time.Time) error {
	for len(r.cfg.Reloads) > 0 && !r.cfg.Reloads[0].At.After(now) {
		f, err := fleet.New(r.cfg.Reloads[0].Listed)
		if err != nil {
			return fmt.Errorf("reload at %v: %w", r.cfg.Reloads[0].At, err)
		}
		for _, s := range f.All() {
			if r.sensors[s.ID] == nil {
				return fmt.Errorf("reload at %v: sensor %q is not simulated", r.cfg.Reloads[0].At, s.ID)
			}
		}
		r.p.Replace(f, now)
		r.cfg.Reloads = r.cfg.Reloads[1:]
	}
	return nil
}
